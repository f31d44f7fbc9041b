"""What the runner's process inherits: its wire, other descriptors and signals, put in order before it serves."""

from __future__ import annotations

import posix

from .signals import signal

_STDERR = 2


def take_wire(argv: list[str]) -> tuple[int, int]:
    """Return the two directions of the wire, as descriptors that no child inherits, and close all others."""
    if argv and not (argv[1:] and "".join(argv[1:]).isdigit()):
        raise SystemExit("usage: runner [--fd N]")
    null = 0
    while null <= _STDERR:  # 0 to 2 are taken first, so that the pipes of children get higher numbers.
        null = posix.open("/dev/null", posix.O_RDWR)
    reader, writer = (posix.dup(int(argv[1])) for _ in "rw") if argv else (posix.dup(0), posix.dup(1))
    for fd in (0, 1):  # Nothing may print into the wire.
        posix.dup2(null, fd)
    close_all_but(reader, writer)
    return reader, writer


def close_all_but(*kept: int) -> None:
    """Close inherited descriptors, except for standard input and output and `kept`."""
    for name in posix.listdir("/proc/self/fd"):
        if int(name) > _STDERR and int(name) not in kept:
            try:
                posix.close(int(name))
            except OSError:
                continue  # The one that the listing itself used.


def reset_signals() -> None:
    """Reset signals to what the children of this process expect."""
    for number in range(1, signal.NSIG):
        if number not in (signal.SIGPIPE, signal.SIGXFSZ) and signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
