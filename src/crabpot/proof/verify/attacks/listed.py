"""Attacks by the open way out: what is sent to a listed place, and in whose name."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from crabpot.proof.verify.claims import Group, NotCarriedOut, Outcome
from crabpot.settings import Network
from crabpot.spec.network import PROXY_PORT

if TYPE_CHECKING:
    from crabpot.proof.verify.target import Target

claim = Group("network")

_HONEST, _OTHER = b"for the listed host", b"for another host"
_WAIT_S = 5.0
_LONGEST = 65536


@claim.about("network", threats=("host-names",))
async def cannot_send_a_listed_place_a_request_for_another_host(target: Target) -> Outcome:
    """One address serves many hosts: a stream that began oddly was not read, and carried a request for another one."""
    heard: list[bytes] = []

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        said = b""
        try:
            async with asyncio.timeout(_WAIT_S * target.pace):
                while not any(one in said for one in (_HONEST, _OTHER)) and (data := await reader.read(_LONGEST)):
                    said += data
        except (TimeoutError, OSError):
            pass
        heard.append(said)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nheard")
        writer.close()

    async with await asyncio.start_server(hear, "127.0.0.1", 0) as server:
        place = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        session = target.listing(Network(name="allow", allow=(place,)))
        try:
            outcome = await session.attack(
                """
import socket
def sends(*stream):
    with socket.create_connection(("127.0.0.1", given["proxy"]), 20) as one:
        one.sendall(b"CONNECT " + place + b" HTTP/1.1\\r\\n\\r\\n")
        if b" 200 " not in one.recv(4096):
            raise OSError("not connected")
        one.sendall(b"".join(stream))
        answer = b""
        while data := one.recv(4096):
            answer += data
        if b"heard" not in answer:
            raise OSError("refused: %.60r" % answer)
        return "it was carried"
place = given["place"].encode()
lines = b" HTTP/1.1\\r\\nHost: %s\\r\\nX-Marked: %s\\r\\n\\r\\n"
other = lines % (b"other.example", given["other"].encode())
sends(b"GET /", lines % (place, given["honest"].encode()))
attempt("a plain request", sends, b"GET /", other)
attempt("one behind a TLS alert", sends, b"\\x15\\x03\\x01\\x00\\x02\\x01\\x00GET /", other)
attempt("one with an odd byte", sends, b"GET /\\x01", other)
attempt("one behind a line of HTTP/0.9", sends, b"GET /\\r\\nGET /", other)
attempt("one behind a line of ssh", sends, b"SSH-2.0-x\\r\\nGET /", other)
attempt("one for a whole address", sends, b"GET http://other.example/", lines % (place, given["other"].encode()))
""",
                place=place,
                proxy=PROXY_PORT,
                honest=_HONEST.decode(),
                other=_OTHER.decode(),
            )
        finally:
            await session.stop()
    if not any(_HONEST in said for said in heard):
        raise NotCarriedOut(f"{place} is listed, and was not reached")
    arrived = sum(_OTHER in said for said in heard)
    came_back = f"{outcome.came_back}; {f'{arrived} of them ARRIVED' if arrived else 'none of them arrived'}"
    return Outcome(held=outcome.held and not arrived, tried=outcome.tried, came_back=came_back)
