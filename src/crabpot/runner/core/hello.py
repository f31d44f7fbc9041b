"""The first frame of the wire and its answer: what this sandbox is, validated and applied."""

from __future__ import annotations

import posix
import resource
import sys

from .frames import FrameError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PROTOCOL = 1
_MAX_LIMIT = 1 << 62
_MIN_OUTPUT = 1024
_PORTS = 1 << 16


class Hello:
    """The constants of this runner's lifetime."""

    __slots__ = (
        "blank",
        "contained",
        "env",
        "limits",
        "offline",
        "output_limit",
        "proxy",
        "readable",
        "roots",
        "shell",
        "shims",
        "workspace",
        "writable",
    )

    def __init__(self, header: dict[str, Any]) -> None:
        if header.get("op") != "hello":
            raise FrameError("the first frame is not hello")
        self.workspace: str = _path(header.get("workspace"), "workspace")
        self.roots: tuple[str, ...] = tuple(_path(root, "roots") for root in _list(header.get("roots"), "roots"))
        # Not on the host, except where git works on a repository of the gateway's own.
        self.writable: tuple[str, ...] = _paths(header, "writable") or ()
        # All files, unless some are listed: then the others can be found, but not read.
        self.readable: tuple[str, ...] | None = _paths(header, "readable")
        # Hidden behind an empty file each.
        self.blank: tuple[str, ...] = _paths(header, "blank") or ()
        self.offline = header.get("offline") is True
        self.shell: list[bytes] = [_text(word, "shell") for word in _list(header.get("shell"), "shell")]
        self.env: dict[bytes, bytes] = environment(header.get("env"))
        limits = header.get("limits")
        if type(limits) is not dict:
            raise FrameError("hello: limits is not an object")
        self.limits: dict[str, int | None] = {name: _limit(name, limits.get(name)) for name in _RLIMITS}
        output = _limit("output", limits.get("output"))
        if output is None or output < _MIN_OUTPUT:
            raise FrameError("hello: limits.output is not at least %d" % _MIN_OUTPUT)
        self.output_limit: int = output
        proxy = header.get("proxy")
        if proxy is not None and not (type(proxy) is int and 0 < proxy < _PORTS):
            raise FrameError("hello: proxy is not a port")
        self.proxy: int | None = proxy
        self.shims = bool(header.get("shims"))
        if type(header.get("contained")) is not bool:
            raise FrameError("hello: contained is not a boolean")
        # A contained runner signals every visible process. Inside a sandbox it is pid 1, a child of pid 1, or of a
        # process outside of its pid namespace (0, in a pod); if it is none of these, there are visible processes that
        # are not its own, whatever hello says.
        self.contained: bool = header["contained"] and (posix.getpid() == 1 or posix.getppid() in (0, 1))


_RLIMITS = {
    "address_space": resource.RLIMIT_AS,
    "open_files": resource.RLIMIT_NOFILE,
    "file_size": resource.RLIMIT_FSIZE,
    "processes": resource.RLIMIT_NPROC,
}


def ready() -> dict[str, Any]:
    """Return the answer to hello."""
    version = "%d.%d.%d" % sys.version_info[:3]
    return {
        "op": "ready",
        "protocol": PROTOCOL,
        "pid": posix.getpid(),
        "python": version,
        "uid": posix.getuid(),
    }


def apply_limits(hello: Hello) -> None:
    """Limit the runner itself, before it has any child: all children inherit the limits and none can raise them."""
    wanted = [(which, hello.limits[name]) for name, which in _RLIMITS.items()]
    for which, limit in [*wanted, (resource.RLIMIT_CORE, 0)]:
        if limit is not None:
            hard = resource.getrlimit(which)[1]
            most = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
            resource.setrlimit(which, (most, most))
    # A gateway that is nicer to itself than to others (a unit's Nice=) does not pass that on.
    if hello.contained and posix.getpriority(posix.PRIO_PROCESS, 0) < 0:
        posix.setpriority(posix.PRIO_PROCESS, 0, 0)


def environment(value: object) -> dict[bytes, bytes]:
    """Return an environment as the kernel takes it."""
    if type(value) is not dict:
        raise FrameError("env is not an object")
    result = {}
    for name, text in value.items():
        key = _text(name, "env")
        if not key or b"=" in key:
            raise FrameError("env: %r cannot be the name of a variable" % name)
        result[key] = _text(text, "env")
    return result


def _list(value: object, name: str) -> list[object]:
    if type(value) is not list or not value:
        raise FrameError("hello: %s is not a non-empty list" % name)
    return value


def _paths(header: dict[str, Any], name: str) -> tuple[str, ...] | None:
    given = header.get(name)
    return None if given is None else tuple(_path(one, name) for one in _list(given, name))


def _path(value: object, name: str) -> str:
    if not _text(value, name).startswith(b"/"):
        raise FrameError("hello: %s is not an absolute path" % name)
    assert isinstance(value, str)
    return value


def _text(value: object, name: str) -> bytes:
    if type(value) is not str:
        raise FrameError("%s: not a string" % name)
    try:
        raw = value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise FrameError("%s: not text" % name) from error
    if b"\0" in raw:
        raise FrameError("%s: a NUL byte" % name)
    return raw


def _limit(name: str, value: object) -> int | None:
    if value is None:
        return None
    if type(value) is not int or not 0 <= value <= _MAX_LIMIT:
        raise FrameError("hello: limits.%s is not a size" % name)
    return value
