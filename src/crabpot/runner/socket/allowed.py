"""The allow-list of a runner on a socket: which commands exist, where they lie, and which arguments they may have."""

from __future__ import annotations

import os
import re

from ..core.failure import ToolError, encode_text
from ..exec import spawn
from . import gitargs, gitconfig, gitstart
from .filecommands import RULES
from .jqcommand import jq

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    from ..exec.spawn import Spawned
    from .roots import Roots

    # How a command starts: with input of its own or none; the second releases the runner's descriptors in a fork.
    Start = Callable[..., Spawned]

DEFAULT = ("git", "cat", "ls", "mkdir", "cp", "mv", "rm", "diff", "jq")
SHELL = "sh"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# They change the user, or reach a container engine: no list makes them harmless.
NEVER = frozenset(
    "sudo su doas pkexec runuser setpriv docker dockerd docker-compose podman nerdctl ctr crictl runc containerd "
    "kubectl nsenter unshare chroot mount umount newgrp sg gpasswd".split()
)
# Commands that run anything: with one of them in the list, the container around the runner is the only wall.
ANYTHING = frozenset(
    "sh bash dash zsh ksh fish busybox env xargs find awk gawk mawk sed perl python python3 ruby node make vi vim nice "
    "nohup timeout setsid ssh tar rsync".split()
)
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,63}")
_LONGEST_ATTACHED = 128


class Allowed:
    """Commands by name."""

    def __init__(self, names: tuple[str, ...], roots: Roots, tmp: str = "/tmp") -> None:  # noqa: S108
        self.names = names
        self.tmp = tmp
        self.roots = roots
        ceilings = b":".join(os.path.dirname(folder) for folder in roots.folders)
        self._env: dict[bytes, bytes] = {
            b"PATH": PATH.encode(),
            b"HOME": b"/nonexistent",
            b"LANG": b"C.UTF-8",
            b"TMPDIR": os.fsencode(tmp),
            **gitconfig.ENVIRONMENT,
            # A repository around the roots is off limits.
            b"GIT_CEILING_DIRECTORIES": ceilings,
        }

    @property
    def programs(self) -> list[bytes]:
        """Return the files of the commands that exist."""
        return [path for path in map(find, self.names) if path is not None]

    @property
    def run_anything(self) -> bool:
        """Return whether one of them runs whatever it is given."""
        return not ANYTHING.isdisjoint(self.names)

    @property
    def has_shell(self) -> bool:
        """Return whether shell text may run as such."""
        return SHELL in self.names

    def prepare(self, words: list[str], folder: bytes, release: Callable[[], None]) -> Start:
        """Check a command in a folder, and return what starts it; ToolError says what was refused."""
        name, args = words[0], [encode_text(word, "args") for word in words[1:]]
        if any(b"\0" in arg for arg in args):
            raise ToolError("invalid_arguments", "an argument has a NUL byte")
        if name not in self.names:
            known = ", ".join(self.names)
            raise ToolError("permission_denied", "%.80s is not among the commands of this runner: %s" % (name, known))
        binary = find(name)
        if binary is None:
            raise ToolError("not_found", "%s is not installed here (on %s)" % (name, PATH))
        if self.roots.holds(os.path.realpath(binary)):
            raise ToolError("permission_denied", "%s lies in a root, where the agent writes" % name)
        if name == "git":
            call = gitargs.check(args, folder, self.roots)
            return lambda stdin: gitstart.start(binary, call, self._env, self.roots, stdin=stdin, release=release)
        if name == "jq":
            args = jq(args, folder, self.roots)
        elif name in RULES:
            args = RULES[name](args, folder, self.roots)
        else:
            check_any(args, folder, self.roots)
        return lambda stdin: spawn.spawn([binary, *args], self._env, stdin=stdin)


def find(name: str) -> bytes | None:
    """Return the program of that name on the fixed PATH; the caller's PATH is ignored."""
    for folder in PATH.split(":"):
        path = os.path.join(folder, name)
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return path.encode()
    return None


def check_any(args: list[bytes], folder: bytes, roots: Roots) -> None:
    """Check the arguments of a command without a rule of its own: whatever could be a path must not lead out."""
    for arg in args:
        candidates = [arg, arg.partition(b"=")[2], arg.lstrip(b"@")]
        if arg.startswith(b"-"):
            if len(arg) > _LONGEST_ATTACHED:
                raise ToolError("permission_denied", "an option that is longer than %d bytes" % _LONGEST_ATTACHED)
            candidates += [arg[start:] for start in range(1, len(arg))]
        for path in candidates:
            if path and path != b"-":
                roots.resolve(path, folder)


def check_name(name: str) -> str | None:
    """Return why a command cannot be in the list, or None."""
    if not _NAME.fullmatch(name):
        return "is not the plain name of a command"
    if name in NEVER:
        return "changes privileges or reaches a container engine, and is never run by this runner"
    return None
