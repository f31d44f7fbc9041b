"""One call, its streams connected to ours, until its result. MCP is one too, with messages as its streams."""

from __future__ import annotations

import os
import select

from crabpot.doors.local.identity import digest
from crabpot.doors.thin.client import Ended, Sending, end_by_signals, is_in_background, write
from crabpot.runner.core.frames import ACK_EVERY, WINDOW, FrameError, encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from crabpot.doors.thin.asking import Asking
    from crabpot.doors.thin.claude import Handed
    from crabpot.doors.thin.client import Connection
    from crabpot.doors.thin.command import Command

_PIECE, _READ = 64 << 10, 256 << 10
# The gateway ends the call long before, and whoever is impatient sends the signal again.
_CANCEL_S = 30_000
# The gateway has the limit; this one is only there because a call has one.
_LONGEST_S = 30 * 24 * 3600.0
_TIMEOUT, _OWN_FAILURE, _DENIED, _CLOSED_PIPE, _INTERRUPTED, _BY_SIGNAL = 124, 125, 126, 141, 130, 128 + 15
_REFUSALS = ("denied", "approval_denied", "approval_timeout")


def run(gateway: Connection, command: Command) -> int:
    """Run the command, and return its exit code or ours."""
    call = Call(gateway, alone=command.handed is not None, quiet=command.handed is not None and command.handed.quiet)
    try:
        end_by_signals()
        call.begin({"session": command.session, **gateway.brought(), **_what(command)})
        code = _code(call.finish())
        if code == 0 and command.handed is not None and command.handed.report is not None:
            _report(gateway, command, command.handed)
        return code
    except Ended as ended:
        return call.cancel(_INTERRUPTED if ended.args[0] == 2 else _BY_SIGNAL)  # noqa: PLR2004  SIGINT
    except BrokenPipeError:
        return _CLOSED_PIPE
    except (OSError, FrameError) as error:
        _complain(f"the serving gateway is gone: {error or 'its stream ended'}")
        return _OWN_FAILURE
    finally:
        call.close()


def _what(command: Command) -> dict[str, Any]:
    if command.name != "mcp":
        return {"tool": "exec", "args": command.args(), "asks": True, "paced": True}
    sender = command.options.get("--sender")
    asked = {"elicits": "--elicit" in command.options, "structured": "--structured" in command.options}
    return {"mcp": {"sender": sender, **asked}}


def _report(gateway: Connection, command: Command, handed: Handed) -> None:
    """Write down for Claude Code to which folder the command changed."""
    from crabpot.doors.thin import claude  # noqa: PLC0415  few commands change it

    asked = Call(gateway, call_id="2", quiet=True)
    where = {"session": command.session, **gateway.brought(), "stream": False}
    asked.begin({**where, "tool": "read", "args": {"path": handed.inside}})
    claude.report(handed, asked.finish(), command.options.get("--workspace"))


def _code(result: dict[str, Any]) -> int:
    error, code = result.get("error"), result.get("exit_code")
    if error is not None:
        # One line, whatever file names the message contains: more lines would look like messages of ours.
        _complain(f"{error['code']}: {error['message']}")
        if error["code"] == "timeout":
            return _TIMEOUT
        if error["code"] in _REFUSALS:
            return _DENIED
    return code if type(code) is int else _OWN_FAILURE


def _complain(text: str) -> None:
    from crabpot.doors.cli.frame import complain  # noqa: PLC0415  only needed for errors
    from crabpot.doors.cli.show import visible  # noqa: PLC0415

    complain(visible(text))


class Call:
    """One call and its streams. `held`: a person is being asked, and the terminal is for the question alone.

    `alone`: the terminal is another program's, and nobody is asked there. `quiet`: the call has no input.
    """

    def __init__(self, gateway: Connection, *, call_id: str = "1", alone: bool = False, quiet: bool = False) -> None:
        self.state = gateway.state
        self.held = False
        self.alone = alone
        self._id = call_id
        self._gateway = gateway
        self._sending = Sending(gateway)
        self._room, self._fed = WINDOW, quiet
        self._taken = 0
        self._output: list[tuple[int, bytes]] = []
        self._result: dict[str, Any] | None = None
        self._asking: Asking | None = None
        self._poll = select.poll()
        self._listens = False

    def begin(self, header: dict[str, Any]) -> None:
        """Send the call."""
        self._send({"id": self._id, "stream": True, "input": not self._fed, "timeout": _LONGEST_S, **header})

    def _send(self, header: dict[str, Any], payload: bytes = b"") -> None:
        self._sending.send(encode(header, payload))

    def finish(self) -> dict[str, Any]:
        """Pass input, output and questions until the result is here."""
        while self._result is None or self._output:
            self._wait(None)
        return self._result

    def cancel(self, code: int) -> int:
        """End the call, and wait for its end: whoever started us must find nothing running."""
        try:
            self._fed = True
            self._send({"op": "cancel", "id": self._id})
            while self._result is None and self._wait(_CANCEL_S):
                self._output.clear()
        except (Ended, OSError, FrameError):
            pass
        return code

    def close(self) -> None:
        """Restore the terminal."""
        if self._asking is not None:
            self._asking.close()

    def _wait(self, timeout_ms: int | None) -> bool:
        poll, asking = self._poll, self._asking
        poll.register(self._gateway.socket, self._sending.events)
        listens = not (self._fed or self.held) and self._room >= _PIECE and len(self._sending.waiting) < _READ
        # Not merely left without events: the other end of a pipe that is gone would be reported for ever.
        if listens:
            poll.register(0, select.POLLIN)
        elif self._listens:
            poll.unregister(0)
        self._listens = listens
        if asking is not None:
            poll.register(asking.bell, select.POLLIN)
        found = poll.poll(timeout_ms)
        for fd, _ in found:
            if fd == 0:
                self._feed()
            elif asking is not None and fd == asking.bell:
                for frame in asking.answers():
                    self._sending.send(frame)
            else:
                self._sending.go_on()
                self._receive()
        self._write_output()
        return bool(found)

    def _feed(self) -> None:
        data = self._read_input()
        if data is None:
            return
        if data:
            self._room -= len(data)
            self._send({"op": "input", "id": self._id}, data)
        else:
            self._fed = True
            self._send({"op": "input", "id": self._id, "eof": True})

    def _read_input(self) -> bytes | None:
        if self._asking is not None:
            return self._asking.read_input(_PIECE)
        try:
            return b"" if is_in_background(0) else os.read(0, _PIECE)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def _receive(self) -> None:
        try:
            data = self._gateway.socket.recv(_READ)
        except BlockingIOError:
            return
        if not data:
            raise ConnectionResetError("its stream ended")
        for header, payload in self._gateway.reader.feed(data):
            self._take(header, payload)

    def _take(self, header: dict[str, Any], payload: bytes) -> None:
        kind = header.get("op")
        if kind == "output":
            self._output.append((2 if header.get("stream") == "stderr" else 1, payload))
        elif kind == "ack":
            self._room += int(header["n"])
        elif kind in ("ask", "withdraw"):
            if self._asking is None:
                from crabpot.doors.thin.asking import Asking  # noqa: PLC0415  few calls ask

                self._asking = Asking(self)
            self._asking.take(header, payload)
        elif kind == "remark":
            self._remark(header)
        elif kind is None:
            self._result = header
            if payload and isinstance(header.get("data"), dict):
                header["data"]["content"] = payload.decode("utf-8", "replace")
        else:
            raise FrameError("a frame of unknown kind")

    def _remark(self, header: dict[str, Any]) -> None:
        """Show a remark. Most were shown before, or are for a terminal, and importing takes longer than the call."""
        text, once, quiet = str(header.get("text")), header.get("once") is True, header.get("quiet") is True
        if (quiet and not os.isatty(2)) or (
            once and os.path.lexists(f"{self.state}/shown/{digest(text.encode())[:16]}")
        ):
            return
        from crabpot.doors.cli.remarks import shower  # noqa: PLC0415
        from crabpot.sandboxes.remarks import Remark  # noqa: PLC0415

        shower(self.state)(Remark(text=text, once=once, quiet=quiet))

    def _write_output(self) -> None:
        while self._output and not self.held:
            fd, data = self._output.pop(0)
            left = write(fd, data) if self._asking is None else self._asking.write_output(fd, data)
            if left:
                self._output.insert(0, (fd, left))
            self._taken += len(data) - len(left)
        if self._taken >= ACK_EVERY and self._result is None:
            self._send({"op": "ack", "id": self._id, "n": self._taken})
            self._taken = 0
