"""A request of the plain protocol, one line each way: `{id, tool, args, cwd}`, `{id, success, stdout, stderr, …}`."""

from __future__ import annotations

from ..core.call import Call
from ..core.failure import ToolError
from ..core.frames import FrameError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from ..core.wire import Wire

NOT_ONE_LINE = "a request is one line of JSON, {id, tool, args, cwd}, with a line break after it and none inside"

# As a shell and `timeout` report it: a client that knows no codes knows these.
_EXIT_CODES = {"permission_denied": 126, "outside": 126, "timeout": 124, "not_found": 127}
_OWN_FAILURE = 125
_LONGEST_ID = 256
_SHORTEST_TEXT = 1024


class PlainCall(Call):
    """A call whose answer is one line, whole, whatever it has to leave out for that."""

    def __init__(self, number: int, header: dict[str, Any], wire: Wire, on_end: Callable[[Call], None]) -> None:
        super().__init__({**header, "id": str(number), "stream": False, "input": False}, wire, on_end)
        self.shown_id = shown_id(header)

    def finish(  # noqa: PLR0913  # the fields of a result
        self,
        *,
        stdout: bytes = b"",
        stderr: bytes = b"",
        exit_code: int | None = None,
        error: ToolError | None = None,
        truncated: bool = False,
        data: object = None,
        payload: bytes = b"",
    ) -> None:
        """Answer in one line."""
        self.job = None
        if payload and type(data) is dict:
            data = {**data, "content": _as_text(data.get("encoding"), payload)}
        success = error is None and exit_code in (None, 0)
        if exit_code is None:
            exit_code = 0 if error is None else _EXIT_CODES.get(error.code, _OWN_FAILURE)
        if error is not None and not stderr:
            stderr = error.message.encode("utf-8", "replace") + b"\n"
        header: dict[str, Any] = {
            "id": self.shown_id,
            "success": success,
            "stdout": "",
            "stderr": "",
            "exit_code": exit_code,
            "error": None if error is None else {"code": error.code, "message": error.message},
            "truncated": truncated,
            "data": data,
        }
        _send(self._wire, header, stdout, stderr)
        self._on_end(self)


def _send(wire: Wire, header: dict[str, Any], stdout: bytes, stderr: bytes) -> None:
    """Halve the text until the line fits: escaped as JSON it may be six times as long, though it rarely is."""
    while True:
        header["stdout"], header["stderr"] = stdout.decode("utf-8", "replace"), stderr.decode("utf-8", "replace")
        try:
            wire.send(header)
            return
        except FrameError as error:
            if len(stdout) + len(stderr) < _SHORTEST_TEXT:
                message = "the result is too large for one line: %s" % error
                header["error"] = {"code": "output_limit", "message": message}
                header.update(success=False, data=None, exit_code=_OWN_FAILURE)
                stderr = message.encode()
            stdout, stderr = stdout[: len(stdout) // 2], stderr[: max(len(stderr) // 2, _SHORTEST_TEXT // 2)]
            header["truncated"] = True


def refusal(message: str, request_id: object = None) -> dict[str, Any]:
    """Return the answer to what is not a request."""
    return {
        "id": request_id,
        "success": False,
        "stdout": "",
        "stderr": message + "\n",
        "exit_code": _OWN_FAILURE,
        "error": {"code": "invalid_arguments", "message": message},
        "truncated": False,
        "data": None,
    }


def shown_id(header: dict[str, Any]) -> object:
    """Return the id for the answer: as it came, if it is one."""
    given = header.get("id")
    if type(given) is str and len(given) <= _LONGEST_ID:
        return given
    return given if type(given) is int else None


def _as_text(encoding: object, payload: bytes) -> str:
    if encoding == "base64":
        import binascii  # noqa: PLC0415

        return binascii.b2a_base64(payload, newline=False).decode("ascii")
    return payload.decode("utf-8", "replace")


def words_of(header: dict[str, Any]) -> list[Any] | None:
    """Return the argv of a request whose args are a list: a command of the allow-list."""
    args = header.get("args")
    return [header.get("tool"), *args] if type(args) is list else None


def without_words(header: dict[str, Any]) -> dict[str, Any]:
    """Return the rest of such a request, shaped like all others."""
    if type(header.get("args")) is list or header.get("args") is None:
        return {**header, "args": {}}
    return header


def checked(command: list[Any]) -> list[str]:
    """Return a command's argv, all of it text."""
    if not all(type(word) is str for word in command):
        raise ToolError("invalid_arguments", "args is not a list of strings")
    return command
