"""Signals by number and name, from the C module beneath `signal`: the latter would import `enum` into every start."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
else:
    import _signal as signal

__all__ = ["name_of", "signal"]


def name_of(number: int) -> str:
    """Return the name of a signal: SIGKILL for 9."""
    # Two numbers have a second, older name (SIGCLD, SIGPOLL).
    for name in ("SIGCHLD", "SIGIO", *dir(signal)):
        if name.startswith("SIG") and not name.startswith("SIG_") and getattr(signal, name, None) == number:
            return name
    return "SIGRTMIN+%d" % (number - signal.SIGRTMIN)
