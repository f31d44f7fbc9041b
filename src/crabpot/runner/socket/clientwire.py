"""The stream of one client among many: its end, and whatever is wrong with it, concerns that client alone."""

from __future__ import annotations

from ..core.wire import Wire
from .plain import NOT_ONE_LINE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..core.frames import FrameError
    from .client import Client


class ClientWire(Wire):
    """A stream that tells its client instead of ending the runner."""

    client: Client

    @property
    def partial(self) -> bool:
        """Return whether an incomplete frame has begun."""
        return self._frames.partial

    def ended(self) -> None:
        """Handle the client's end of stream; it may still read."""
        self.client.stream_ended()

    def broken(self, error: FrameError) -> None:
        """Handle a broken frame."""
        self.client.refuse("%s; %s" % (error, NOT_ONE_LINE))

    def end_line(self) -> None:
        """Take what came last for a whole line: some clients end it with the stream instead."""
        for header, payload in self._frames.feed(b"\n"):
            self.handle(header, payload)

    def hold(self) -> None:
        """Read nothing more until `release`, but notice a hang-up."""
        self._held = True
        self._loop.watch(self._reader, 0, lambda: self.lose(""))

    def close(self) -> None:
        """Close the stream at the end of this round."""
        for fd in (self._reader, self._writer):
            self._loop.unwatch(fd)
            self._loop.close_soon(fd)
