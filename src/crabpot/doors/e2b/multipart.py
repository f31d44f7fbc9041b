"""A form of files as it arrives: each file is passed on piece by piece, and nothing is kept on the host's disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from python_multipart import MultipartParser
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header

from crabpot.doors.http.access.refusals import bad_request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_LONGEST_HEADER = 16 * 1024
# As browsers and the SDKs escape a name in a form.
_ESCAPED = {"%22": '"', "%0D": "\r", "%0A": "\n"}


class Form:
    """The files of one form, in their order."""

    def __init__(self, content_type: str, body: AsyncIterator[bytes]) -> None:
        boundary = parse_options_header(content_type)[1].get(b"boundary")
        if not boundary:
            raise bad_request("the form has no boundary")
        self._body = body
        self._name: str | None = None
        self._header = [bytearray(), bytearray()]
        self._disposition = b""
        # What the last piece of the body held: names that begin, pieces, and ends.
        self._found: list[tuple[str, bytes]] = []
        self._ended = False
        self._parser = MultipartParser(
            boundary,
            callbacks={
                "on_part_begin": self._begin,
                "on_header_field": lambda data, start, end: self._add(0, data[start:end]),
                "on_header_value": lambda data, start, end: self._add(1, data[start:end]),
                "on_header_end": self._header_ended,
                "on_headers_finished": lambda: self._found.append(("begin", self._disposition)),
                "on_part_data": lambda data, start, end: self._found.append(("data", data[start:end])),
                "on_part_end": lambda: self._found.append(("end", b"")),
                "on_end": self._end,
            },
        )

    def _begin(self) -> None:
        self._disposition = b""
        self._header = [bytearray(), bytearray()]

    def _add(self, which: int, data: bytes) -> None:
        self._header[which] += data
        if len(self._header[which]) > _LONGEST_HEADER:
            raise bad_request("a header of the form is too long")

    def _header_ended(self) -> None:
        name, value = self._header
        if bytes(name).strip().lower() == b"content-disposition":
            self._disposition = bytes(value)
        self._header = [bytearray(), bytearray()]

    def _end(self) -> None:
        self._ended = True

    async def files(self) -> AsyncIterator[tuple[str, AsyncIterator[bytes]]]:
        """Yield the name of each file, and its content, which must be read before the next."""
        while (found := await self._next()) is not None:
            kind, data = found
            if kind == "begin":
                name = parse_options_header(data)[1].get(b"filename")
                content = self._content()
                if name is not None:
                    yield _unescaped(name), content
                async for _ in content:
                    pass

    async def _content(self) -> AsyncIterator[bytes]:
        while (found := await self._next()) is not None:
            kind, data = found
            if kind == "end":
                return
            yield data
        raise bad_request("the form is not complete")

    async def _next(self) -> tuple[str, bytes] | None:
        while not self._found:
            piece = await anext(self._body, None)
            if not piece:
                if piece is None:
                    if not self._ended:
                        raise bad_request("the form is not complete")
                    return None
                continue
            try:
                self._parser.write(piece)
            except FormParserError:
                raise bad_request("the form cannot be read") from None
        return self._found.pop(0)


def _unescaped(name: bytes) -> str:
    text = name.decode("utf-8", "surrogateescape")
    for escape, meant in _ESCAPED.items():
        text = text.replace(escape, meant)
    if not text or "\0" in text:
        raise bad_request("a file of the form has no name")
    return text
