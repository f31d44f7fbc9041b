"""The functions that hostile programs use: what is put before and after each, and how its report is read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crabpot.proof.verify.claims import NotCarriedOut

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crabpot.model import ToolResult

# Runs inside, as the agent's own code would, on whatever Python is there. Anything that it did not foresee is a
# traceback, and a traceback is not a report.
_BEFORE = r'''
import ctypes, errno, json, os, sys

libc = ctypes.CDLL(None, use_errno=True)
runner = os.getppid()
_tried, _got, _refused = [], [], {}


def attempt(what, function, *arguments):
    """Try one way in: an OSError or nothing at all is a refusal, anything else is what was gained."""
    _tried.append(what)
    try:
        gained = function(*arguments)
    except OSError as error:
        code = errno.errorcode.get(error.errno)
        _refused.setdefault("%s %s" % (code, os.strerror(error.errno)) if code else str(error), []).append(what)
    else:
        if gained:
            _got.append("%s: %.300s" % (what, gained if isinstance(gained, str) else repr(gained)))
        else:
            _refused.setdefault("nothing there", []).append(what)


def expect(what, holds, shown):
    """State a fact about this process; one that does not hold is what was gained."""
    _tried.append(what)
    if holds:
        _refused.setdefault(str(shown)[:300], []).append(what)
    else:
        _got.append("%s: %.300s" % (what, shown))


def read(path, size=300):
    # Some files of /proc block until there is something to read, and many return it in pieces.
    held = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    data = b""
    try:
        while len(data) < size:
            piece = os.read(held, size - len(data))
            if not piece:
                break
            data += piece
    except BlockingIOError:
        pass
    finally:
        os.close(held)
    return data


def opened(path, flags):
    os.close(os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY))
    return "opened"


# What succeeds is undone at once: an attack that works must do no harm.
def made(path):
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    os.close(os.open(path, flags | os.O_CLOEXEC, 0o600))
    os.unlink(path)
    return "made"


def folder_made(path):
    os.mkdir(path)
    os.rmdir(path)
    return "made"


def renamed(path, new):
    os.rename(path, new)
    os.rename(new, path)
    return "renamed"


def mode_set(path):
    os.chmod(path, os.stat(path).st_mode & 0o7777)
    return "set"


def identity(path):
    found = os.stat(path)
    return [found.st_dev, found.st_ino]


def status(pid="self"):
    with open("/proc/%s/status" % pid) as stream:
        return dict(line.rstrip("\n").split(":\t", 1) for line in stream if ":\t" in line)


def mounts():
    """Each mount: its place, its flags, its type."""
    with open("/proc/self/mountinfo") as stream:
        for line in stream:
            before, _, after = line.rstrip("\n").partition(" - ")
            fields = before.split()
            yield fields[4], fields[5].split(","), after.split()[0]


def syscall(name, *arguments):
    """Make a system call past the C library."""
    plain = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(given["numbers"][name]), *plain)
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, name)
    return result


def filtered(name, *arguments):
    """Make a call that must end at the filter: any answer but "not permitted" and "no such call" came from behind."""
    try:
        result = syscall(name, *arguments)
    except OSError as error:
        if error.errno in (errno.EPERM, errno.ENOSYS):
            raise
        return "the kernel took it up and answered %s" % errno.errorcode.get(error.errno, error.errno)
    if name == "clone" and result == 0:
        os._exit(0)  # The child that should not exist.
    return "the kernel carried it out and answered %d" % result


def in_a_child(function, *arguments):
    """Run something that may be killed for it; return how it ended: ("exit", code) or ("signal", number)."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = function(*arguments) or 0
        finally:
            os._exit(code & 0xFF)
    _, ended = os.waitpid(child, 0)
    return ("signal", os.WTERMSIG(ended)) if os.WIFSIGNALED(ended) else ("exit", os.WEXITSTATUS(ended))


def _few(words, most):
    shown = ", ".join(words[:most])
    return shown if len(words) <= most else "%s and %d more" % (shown, len(words) - most)
'''

_AFTER = r"""
_answers = ["%s (%s)" % (answer, _few(whats, 2)) for answer, whats in _refused.items()]
if len(_refused) == 1 and len(_tried) > 3:
    _answers = ["%s, %d times" % (answer, len(whats)) for answer, whats in _refused.items()]
_told = {"tried": _few(_tried, 12), "got": "; ".join(_got)[:2000] or None, "refused": "; ".join(_answers)[:2000]}
print(json.dumps(_told))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a hostile program says of itself: what it tried, what it gained, and what refused it."""

    tried: str
    got: str | None
    refused: str


def program(source: str, given: Mapping[str, Any]) -> str:
    """Return the whole text of a hostile program; `given` is what it knows of its victim."""
    return f"{_BEFORE}\ngiven = json.loads({json.dumps(given)!r})\n{source}\n{_AFTER}"


def read_report(result: ToolResult) -> Report:
    """Read the one line of a program that ran to its end; anything else is an attack that was not carried out."""
    if result.error is not None:
        raise NotCarriedOut(f"the hostile program did not run to its end: {result.error.code}: {result.error.message}")
    if result.exit_code != 0:
        last = result.stderr.strip().rpartition("\n")[2]
        raise NotCarriedOut(f"the hostile program ended with {result.exit_code}: {last or 'no output'}")
    lines = result.stdout.splitlines()
    try:
        said = json.loads(lines[0]) if len(lines) == 1 else None
    except ValueError:
        said = None
    if not isinstance(said, dict) or set(said) != {"tried", "got", "refused"}:
        raise NotCarriedOut(f"the hostile program did not report: {result.stdout[:200]!r}")
    tried, got, refused = said["tried"], said["got"], said["refused"]
    if not (isinstance(tried, str) and isinstance(refused, str) and isinstance(got, str | None)):
        raise NotCarriedOut("the hostile program reported something other than text")
    if not tried or not (got or refused):
        raise NotCarriedOut("the hostile program tried nothing")
    return Report(tried=tried, got=got, refused=refused)
