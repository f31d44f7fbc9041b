"""Ask ripgrep, where it is installed, which files below a folder may contain a match."""

from __future__ import annotations

import posix
import select

from ..core.signals import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# A line without an end would otherwise be read into memory whole, however long it is.
_MEMORY_LIMIT = 512 << 20
_OUTPUT_LIMIT = 64 << 20
_NOTHING_FOUND = 1
_TROUBLE = 2
# Before version 14 it obeys every .rgignore, whatever it is told. What it says of its work tells when one hid a file.
_DISOBEYED = b'.rgignore")'

_ARGUMENTS = (
    b"--no-config",
    b"--files-with-matches",
    b"--null",
    b"--no-messages",
    b"--debug",
    b"--color=never",
    # What is binary, hidden or ignored by a folder above is decided here; ripgrep may only ever include more.
    b"--binary",
    b"--encoding=none",
    b"--no-require-git",
    b"--no-ignore-parent",
    b"--no-ignore-global",
    b"--no-ignore-exclude",
    b"--no-ignore-dot",
)


def find_program() -> bytes | None:
    """Return the `rg` on PATH; a relative entry of PATH could be the agent's folder and does not count."""
    path = posix.environ.get(b"PATH", b"/usr/local/bin:/usr/bin:/bin")
    for folder in path.split(b":"):
        program = folder + b"/rg"
        if folder.startswith(b"/") and posix.access(program, posix.X_OK):
            return program
    return None


def list_candidates(program: bytes, folder: int, expression: str, name_glob: str | None) -> list[bytes] | None:
    """Return paths below `folder` of which some line may match; None if ripgrep could not tell."""
    arguments = [program, *_ARGUMENTS]
    if name_glob is not None:
        arguments += [b"--type-add", b"crabpot:" + name_glob.encode(), b"--type=crabpot"]
    pattern = b"--regexp=" + expression.encode()
    status, output = _run([*arguments, pattern, b"--", b"./"], folder)
    if status == _TROUBLE:
        # A pattern that it does not understand, or just one unreadable file: without files only the former fails.
        status = _run([*arguments, pattern, b"--", b"/dev/null"], folder)[0]
    if output is None or status not in (0, _NOTHING_FOUND):
        return None
    return [path[2:] for path in output.split(b"\0") if path.startswith(b"./")]


def _run(arguments: list[bytes], folder: int) -> tuple[int, bytes | None]:
    """Return how it ended and all that it printed; None if that is too much, or not all that it should be."""
    reader, writer = posix.pipe2(posix.O_CLOEXEC)
    listener, log = posix.pipe2(posix.O_CLOEXEC)
    try:
        pid = _start(arguments, folder, writer, log)
    except OSError:
        posix.close(reader)
        posix.close(listener)
        return -1, None
    finally:
        posix.close(writer)
        posix.close(log)
    printed = _read(reader, listener)
    posix.close(reader)
    posix.close(listener)
    if printed is None:
        posix.kill(pid, signal.SIGKILL)
    status = posix.waitpid(pid, 0)[1]
    return posix.WEXITSTATUS(status) if posix.WIFEXITED(status) else -1, printed


def _read(reader: int, listener: int) -> bytes | None:
    pieces: list[bytes] = []
    size, told = 0, b""
    both = select.poll()
    both.register(reader, select.POLLIN)
    both.register(listener, select.POLLIN)
    still = 2
    while still:
        for fd, _ in both.poll():
            piece = posix.read(fd, 1 << 20)
            if not piece:
                both.unregister(fd)
                still -= 1
            elif fd == reader:
                pieces.append(piece)
                size += len(piece)
            else:
                told = told[1 - len(_DISOBEYED) :] + piece
            if size > _OUTPUT_LIMIT or _DISOBEYED in told:
                return None
    return b"".join(pieces)


def _start(arguments: list[bytes], folder: int, writer: int, log: int) -> int:
    """Start it by vfork: after a fork every page of this process would be copied once more when it is next used.

    What it inherits, its folder and its limit, is ours meanwhile.
    """
    import resource  # noqa: PLC0415

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = _MEMORY_LIMIT if soft == resource.RLIM_INFINITY else min(soft, _MEMORY_LIMIT)
    here = posix.open(b".", posix.O_PATH | posix.O_CLOEXEC)
    actions: list[Any] = [
        (posix.POSIX_SPAWN_OPEN, 0, b"/dev/null", posix.O_RDONLY, 0),
        (posix.POSIX_SPAWN_DUP2, writer, 1),
        (posix.POSIX_SPAWN_DUP2, log, 2),
    ]
    try:
        # By descriptor: the name of the folder may lead elsewhere by now.
        posix.fchdir(folder)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
        return posix.posix_spawn(arguments[0], arguments, {}, file_actions=actions)
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
        posix.fchdir(here)
        posix.close(here)
