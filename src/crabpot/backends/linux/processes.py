"""Start a program as the right user with exactly the right descriptors, and wait for it without threads."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import subprocess
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from crabpot.backends.linux.held_files import Fds
from crabpot.settings import TRUSTED_PATH

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from crabpot.backends.linux.held_files import Executable
    from crabpot.spec.spec import User


class Finished(NamedTuple):
    """How a program ended, and what it printed."""

    code: int
    output: bytes


def start(  # noqa: PLR0913  what a process starts with is a list
    program: Executable,
    arguments: Sequence[str],
    *,
    output: int,
    fds: Sequence[int] = (),
    user: User | None = None,
    dropper: str | None = None,
    before: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start it in a session of its own, output and errors going to one descriptor.

    As `user`, if one is given, by way of `dropper`. The calling thread, the event loop's, starts it: bwrap's
    `--die-with-parent` follows the thread, and one from a pool would take the sandbox with it when it
    retires.
    """
    held = [program.fd, *fds]
    variables = dict(env or {})
    if user is not None and program.libraries_fd is not None:
        held.append(program.libraries_fd)
        variables["LD_LIBRARY_PATH"] = f"/proc/self/fd/{program.libraries_fd}"
    # By descriptor only where the path cannot be walked: a program's loader finds its libraries by path.
    path = program.path if user is None else f"/proc/self/fd/{program.fd}"
    dropping = [] if user is None or dropper is None else _dropping(dropper, user)
    first = [*before, *dropping]
    forks = None if dropping else user
    return subprocess.Popen(
        [*first, path, *arguments] if first else [os.path.basename(program.path), *arguments],
        executable=None if first else path,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        pass_fds=held,
        env=variables,
        cwd="/",
        start_new_session=True,
        user=None if forks is None else forks.uid,
        group=None if forks is None else forks.gid,
        extra_groups=None if forks is None else [],
    )


def _dropping(dropper: str, user: User) -> list[str]:
    # No group of root's may survive the drop: membership in disk or docker gives the whole host.
    if dropper.endswith("/chroot"):
        return [dropper, f"--userspec=+{user.uid}:+{user.gid}", "--groups=", "/"]
    return [dropper, f"--reuid={user.uid}", f"--regid={user.gid}", "--clear-groups", "--"]


def droppers() -> Iterator[str]:
    """Yield the programs that become a user and then another program, the faster one first."""
    for name in ("chroot", "setpriv") if _may_chroot() else ("setpriv",):
        for folder in TRUSTED_PATH.split(":"):
            path = f"{folder}/{name}"
            # One program with many names (busybox, uutils) may read the same arguments differently.
            if os.access(path, os.X_OK) and os.path.basename(os.path.realpath(path)) == name:
                yield path


def _may_chroot() -> bool:
    """Return whether root may do even this, which changes nothing: in a container that dropped it, it may not."""
    try:
        os.chroot("/")
    except OSError:
        return False
    return True


@cache
def dropper() -> str | None:
    """Return one of them.

    Without it Python has to fork, and the copy of a gateway's memory takes longer than all else here.
    """
    return next(droppers(), None)


async def run(argv: Sequence[str], *, timeout_s: float, fds: Sequence[int] = ()) -> Finished:
    """Run a program of the host to its end, as the gateway's own user, with nothing on its standard input."""
    with Fds() as own:
        reader, writer = own.pipe()
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=writer, stderr=writer, env={"LANG": "C.UTF-8"}, cwd="/", pass_fds=fds
        )
        own.close(writer)
        return await finish(process, reader, timeout_s=timeout_s)


async def finish(process: subprocess.Popen[bytes], reader: int, *, timeout_s: float, cap: int = 65536) -> Finished:
    """Read what a process prints until it ends; one that does not is killed when the time is up."""
    output = bytearray()
    try:
        async with asyncio.timeout(timeout_s):
            while len(output) < cap:
                await readable(reader)
                piece = os.read(reader, cap)
                if not piece:
                    break
                output += piece
            await ended(process)
    except TimeoutError:
        output += b"\n(it did not end in time, and was killed)"
    finally:
        kill(process)
    return Finished(code=process.returncode, output=bytes(output))


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a child and reap it, if it has not ended.

    At once, without awaiting: a cancelled caller must not leave a zombie.
    """
    if process.poll() is None:
        # If bwrap dies before it has told its child to continue, that child waits for ever.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.wait()


async def ended(process: subprocess.Popen[bytes]) -> None:
    """Wait until a child has ended, and reap it."""
    if process.poll() is not None:
        return
    pidfd = os.pidfd_open(process.pid)
    try:
        await readable(pidfd)
    finally:
        os.close(pidfd)
    process.wait()


def has_ended(pidfd: int) -> bool:
    """Return whether the process that a pidfd stands for has ended."""
    return _is_now(pidfd, select.POLLIN)


def hung_up(stream: int) -> bool:
    """Return whether the other end of a stream is closed."""
    return _is_now(stream, 0)


def _is_now(fd: int, events: int) -> bool:
    # Not by select(2), which knows no descriptor above 1023: a gateway of a thousand sandboxes has more.
    looking = select.poll()
    looking.register(fd, events)
    return bool(looking.poll(0))


async def readable(fd: int) -> None:
    """Wait until there is something to read, or end of file."""
    loop = asyncio.get_running_loop()
    future = loop.create_future()

    def wake() -> None:
        # At once: whoever waits may have to wait for its turn, and until then this would be called over and over.
        loop.remove_reader(fd)
        if not future.done():
            future.set_result(None)

    loop.add_reader(fd, wake)
    try:
        await future
    finally:
        loop.remove_reader(fd)


def send_signal(pidfd: int, number: signal.Signals) -> None:
    """Signal the one process that a pidfd stands for; a process that is gone is no error."""
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, number)
