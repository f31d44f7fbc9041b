"""Attacks on what is kept for an agent outside: a key that the gateway adds, and a private home."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabpot.proof.verify.bait import VARIABLE
from crabpot.proof.verify.claims import Group, NotCarriedOut, Outcome
from crabpot.proof.verify.hearing import hearing
from crabpot.settings import Inject, Network, ValueFrom
from crabpot.spec.network import PROXY_PORT

if TYPE_CHECKING:
    from crabpot.proof.verify.target import Target

keys, homes = Group("network"), Group("filesystem")


@keys.about("network", threats=("environment",))
async def cannot_have_a_key_sent_anywhere_but_to_its_host(target: Target) -> Outcome:
    """The gateway adds a key for one host: a redirect, a Host header or another port would take it elsewhere."""
    given: list[bytes] = []
    leaked: list[bytes] = []
    ended = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nheard"
    async with hearing(leaked, ended) as other_port:
        other = f"127.0.0.1:{other_port}"
        redirect = b"HTTP/1.1 302 Found\r\nLocation: http://%s/\r\nContent-Length: 0\r\n\r\n" % other.encode()
        async with hearing(given, redirect) as port:
            place = f"127.0.0.1:{port}"
            rule = Inject(host=place, header="Authorization", value_from=ValueFrom(env=VARIABLE))
            session = target.listing(Network(name="allow", allow=(place, other), inject=(rule,)))
            try:
                outcome = await session.attack(
                    """
import socket
def sends(*stream):
    answer = b""
    with socket.create_connection(("127.0.0.1", given["proxy"]), 20) as one:
        for data in stream:
            one.sendall(data)
            answer += one.recv(4096)
        one.shutdown(socket.SHUT_WR)
        while data := one.recv(4096):
            answer += data
    return answer
def asks(line, host, *more):
    lines = [line + b" HTTP/1.1", b"Host: " + host, *more, b"Connection: close", b"", b""]
    return b"\\r\\n".join(lines)
def follows():
    answer = sends(asks(b"GET http://" + place + b"/", place))
    lines = dict(line.split(b": ", 1) for line in answer.split(b"\\r\\n") if b": " in line)
    sends(asks(b"GET " + lines.get(b"Location", b"http://" + other + b"/"), other, *[
        name + b": " + value for name, value in lines.items() if name.lower() == b"authorization"]))
place, other = given["place"].encode(), given["other"].encode()
tunnel = b"CONNECT %s HTTP/1.1\\r\\n\\r\\n"
attempt("follow its host's redirect", follows)
tries = {
    "name its host to another port": [asks(b"GET http://" + other + b"/", place)],
    "the same through a tunnel": [tunnel % other, asks(b"GET /", place)],
    "name another port to its host": [asks(b"GET http://" + place + b"/", other)],
    "ask its host for another port": [tunnel % place, asks(b"GET http://" + other + b"/", other)],
}
for what, stream in tries.items():
    attempt(what, lambda: sends(*stream) and None)
""",
                    place=place,
                    other=other,
                    proxy=PROXY_PORT,
                )
            finally:
                await session.stop()
    key = target.bait.secret.encode()
    if not any(key in said for said in given):
        raise NotCarriedOut(f"the key of {place} was not added to any request, so nothing could take it elsewhere")
    arrived = sum(key in said for said in leaked)
    came_back = (
        f"{outcome.came_back}; the key {f'ARRIVED elsewhere in {arrived}' if arrived else 'went to its host alone'}"
    )
    return Outcome(held=outcome.held and not arrived, tried=outcome.tried, came_back=came_back)


@homes.about("filesystem", threats=("own-files",))
async def cannot_find_what_an_agent_left_in_another_home(target: Target) -> Outcome:
    """A private home outlives its sandbox: what one project's agent plants there, the next would obey."""
    name = f"planted-{target.bait.token}"
    first = target.at_home("verify-first")
    try:
        await first.must_run(f"echo planted > ~/{name} && ls ~/{name}")
        await first.stop()
        # It is kept: what is not found elsewhere was there to be found.
        await first.must_run(f"cat ~/{name}")
        folder = first.spec.home
    finally:
        await first.stop()
    second = target.at_home("verify-second")
    try:
        return await second.attack(
            """
home, name = os.path.expanduser("~"), given["name"]
for place in (home, home + "/..", "/home", "/workspace", given["folder"], "/proc/1/root" + given["folder"],
              home + "/../verify-first"):
    attempt("read %s/%s" % (place, name), read, place + "/" + name)
""",
            name=name,
            folder=str(folder),
        )
    finally:
        await second.stop()
