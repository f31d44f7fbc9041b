"""One connection from a program inside to a real server, or to a refusal, by each protocol of the proxy."""

from __future__ import annotations

import asyncio
import json
import ssl
from typing import Any

import pytest

from crabpot.approvals.requests import Answer, denied
from crabpot.config.load import from_text
from crabpot.decide.scope import Scope
from crabpot.egress.destinations import read_authority
from crabpot.egress.inspection import Disagreement, Speaks, check_kind
from crabpot.egress.proxy import serve
from crabpot.egress.reaching import Egress, EgressContext
from crabpot.egress.secrets import Secrets
from crabpot.spec.binds import Surroundings
from tests.support.places import Names, Server, certified, serving

SECRET = "s3cret-t0ken"


class Program:
    """The side of the sandbox: what a program writes to the proxy, and reads from it."""

    question = b""

    def __init__(self):
        self.sent: asyncio.Queue[bytes] = asyncio.Queue()
        self.got = bytearray()
        self.ended = asyncio.Event()
        self.arrived = asyncio.Event()

    async def read(self):
        return await self.sent.get()

    async def write(self, data):
        self.got += data
        self.arrived.set()

    def write_eof(self):
        self.arrived.set()

    def reply(self, **_fields):
        self.ended.set()

    def say(self, data):
        self.sent.put_nowait(data)

    async def until(self, wanted):
        while wanted not in self.got:
            self.arrived.clear()
            await asyncio.wait_for(self.arrived.wait(), 10)
        return bytes(self.got)


class Operator:
    """Somebody who has one answer to every question."""

    def __init__(self, answer):
        self.answer = answer
        self.asked = []

    async def decide(self, request):
        self.asked.append(request)
        return self.answer


class Out:
    """A sandbox's way out over a configuration, with every seam in a test's hands."""

    def __init__(self, tmp_path, network, names=None, desk=None, *, authority=None, **seams):
        self.config = tmp_path / "crabpot.json5"
        text = json.dumps({"agents": {"defaults": {"sandbox": {"network": network}}}})
        self.config.write_text(text)
        around = Surroundings(home=str(tmp_path), state=f"{tmp_path}/state", config=str(self.config))
        agent = from_text(text, str(self.config), around, {}).agent("main")
        self.names = names or Names()
        self.records: list[Any] = []
        self.scope = Scope(key="agent:main:one", agent=agent)
        self.call = self.scope.begin("agent:main:one")
        context = EgressContext(
            resolver=self.names,
            secrets=Secrets({"TOKEN": SECRET}, str(tmp_path)),
            record=self.records.append,
            desk=desk,
            config=lambda: str(self.config),
            **seams,
        )
        self._way = Egress(self.scope, context, authority)
        self._tasks = []

    def connect(self, *said):
        program: Any = Program()
        for data in said:
            program.say(data)
        self._tasks.append(asyncio.create_task(serve(self._way, program)))
        return program

    def leave(self):
        """Drop every connection, as the wire does for a program that has gone."""
        for task in self._tasks:
            task.cancel()

    async def ask(self, *said):
        """Say everything, end, and return all of the answer."""
        program = self.connect(*said)
        await asyncio.wait_for(program.ended.wait(), 20)
        return bytes(program.got)


def get(url, *headers):
    return "\r\n".join((f"GET {url} HTTP/1.1", *headers, "", "")).encode()


def listing(port, *more):
    return {"allow": [f"127.0.0.1:{port}", *more]}


async def test_a_plain_request_reaches_what_is_listed(tmp_path):
    async with serving(Server()) as server:
        out = Out(tmp_path, listing(server.port))
        answer = await out.ask(get(f"http://127.0.0.1:{server.port}/a?b", "Proxy-Connection: keep-alive"))
        assert answer.startswith(b"HTTP/1.1 200")
        expected = f"GET /a?b HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nConnection: close\r\n\r\n".encode()
        assert server.heads == [expected]
        assert out.records[0]["answer"] == "allowed"
        assert out.records[0]["address"] == "127.0.0.1"


async def test_a_refusal_is_told_to_the_program_to_the_audit_log_and_to_the_call(tmp_path):
    out = Out(tmp_path, {"allow": ["example.com"]})
    answer = (await out.ask(get("http://evil.example/"))).decode()
    assert answer.startswith("HTTP/1.1 403")
    for text in (answer, out.records[0]["because"], out.call.hints[0]):
        assert "evil.example:80 is not listed (agents.defaults.sandbox.network.allow)" in text
        assert 'add "evil.example:80"' in text
    assert out.records[0]["kind"] == "connection"
    # Its name was asked of nobody: whoever owns it would have heard.
    assert out.names.asked == []


@pytest.mark.parametrize("asked", [b"CONNECT evil.example:443 HTTP/1.1\r\n\r\n", get("http://evil.example/")])
async def test_a_thousand_refusals_are_hinted_at_once(tmp_path, asked):
    out = Out(tmp_path, {"allow": []})
    for _ in range(1000):
        await out.ask(asked)
    assert len(out.call.hints) == 1


REFUSED = (
    "CONNECT 127.1:{port} HTTP/1.1",
    "CONNECT 2130706433:{port} HTTP/1.1",
    "CONNECT 0x7f000001:{port} HTTP/1.1",
    "CONNECT 0177.0.0.1:{port} HTTP/1.1",
    "CONNECT [::1]:{port} HTTP/1.1",
    "CONNECT [::127.0.0.1]:{port} HTTP/1.1",
    "CONNECT [64:ff9b::7f00:1]:{port} HTTP/1.1",
    "CONNECT [2002:7f00:1::]:{port} HTTP/1.1",
    "CONNECT localhost:{port} HTTP/1.1",
    "CONNECT 0.0.0.0:{port} HTTP/1.1",
    "CONNECT loop.example:{port} HTTP/1.1",
    "CONNECT mixed.example:{port} HTTP/1.1",
    "CONNECT meta.example:{port} HTTP/1.1",
    "CONNECT six.example:{port} HTTP/1.1",
    "CONNECT mapped.example:{port} HTTP/1.1",
    "CONNECT LOOP.example.:{port} HTTP/1.1",
    "CONNECT loop.example\0.ok.example:{port} HTTP/1.1",
    "CONNECT ok.example@127.0.0.1:{port} HTTP/1.1",
    "GET http://loop.example:{port}/ HTTP/1.1",
    "GET http://ok.example:{port}@127.0.0.1:{port}/ HTTP/1.1",
    "GET http://169.254.169.254/latest/meta-data/ HTTP/1.1",
)


@pytest.mark.parametrize("network", ["internet", "list"])
@pytest.mark.parametrize("line", REFUSED)
async def test_no_deception_leads_to_the_loopback_or_to_metadata(tmp_path, line, network):
    names = Names(
        loop_example="127.0.0.1",
        mixed_example="93.184.216.34 127.0.0.1",
        meta_example="169.254.169.254",
        six_example="::1",
        mapped_example="::ffff:127.0.0.1",
        localhost="127.0.0.1",
    )
    async with serving(Server()) as server:
        listed = {"allow": [f"*.example:{server.port}", f"localhost:{server.port}", f"93.184.216.34:{server.port}"]}
        out = Out(tmp_path, network if network == "internet" else listed, names)
        answer = await out.ask(line.format(port=server.port).encode() + b"\r\n\r\n")
        assert answer[:12] in (b"HTTP/1.1 403", b"HTTP/1.1 400")
        assert server.connections == 0


async def test_a_name_that_leads_elsewhere_the_second_time_is_asked_once(tmp_path):
    async with serving(Server()) as server:
        names = Names(flip_example=["127.0.0.1", "169.254.169.254"])
        out = Out(tmp_path, listing(server.port, f"flip.example:{server.port}"), names)
        answer = await out.ask(get(f"http://flip.example:{server.port}/"))
        assert answer.startswith(b"HTTP/1.1 200")
        assert names.asked == ["flip.example"]
        again = await out.ask(get(f"http://flip.example:{server.port}/"))
        assert again.startswith(b"HTTP/1.1 403")
        assert b"flip.example leads to 169.254.169.254" in again


async def test_what_cannot_be_reached_is_a_failure_and_not_a_refusal(tmp_path):
    async with serving(Server()) as server:
        port = server.port
    out = Out(tmp_path, listing(port, "gone.example"))
    assert (await out.ask(get(f"http://127.0.0.1:{port}/"))).startswith(b"HTTP/1.1 502")
    assert (await out.ask(get("http://gone.example/"))).startswith(b"HTTP/1.1 502")
    assert [record["answer"] for record in out.records] == ["failed", "failed"]
    (hint,) = out.call.hints
    assert "gone.example:80 is allowed, but its name leads nowhere" in hint


# --- tunnels ----------------------------------------------------------------------------------------------------------


def connect(host, port):
    return f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode()


def socks(host, port):
    name = host.encode()
    return b"\x05\x01\x00", b"\x05\x01\x00\x03" + bytes((len(name),)) + name + port.to_bytes(2, "big")


@pytest.mark.parametrize("how", ["connect", "socks"])
async def test_a_tunnel_carries_what_a_server_says_first_and_what_is_said_to_it(tmp_path, how):
    async with serving(Server(b"SSH-2.0-here\r\n")) as server:
        out = Out(tmp_path, listing(server.port))
        begin = (connect("127.0.0.1", server.port),) if how == "connect" else socks("127.0.0.1", server.port)
        program = out.connect(*begin)
        await program.until(b"SSH-2.0-here\r\n")
        assert program.got.startswith(b"HTTP/1.1 200" if how == "connect" else b"\x05\x00\x05\x00\x00\x01")
        program.say(b"SSH-2.0-OpenSSH_9.2p1 Debian\r\n")
        await program.until(b"you said SSH-2.0-OpenSSH_9.2p1 Debian\r\n")
        program.say(KEXINIT[:3])
        program.say(KEXINIT[3:] + b"\n")
        await program.until(b"you said " + KEXINIT + b"\n")
        program.say(b"")
        await asyncio.wait_for(program.ended.wait(), 10)


KEXINIT = b"\0\0\x05\xdc\x07\x14" + b"k" * 1500
FOR_ANOTHER = b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"
UNREADABLE = {
    "a TLS alert before the hello": bytes((21, 3, 1, 0, 2, 1, 0)) + b"\x16\x03\x01" + FOR_ANOTHER,
    "a control character in the first line": b"GET /\x01 HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    "a line of HTTP/0.9": b"GET http://evil.example/\r\n",
    "a line that is none": b"hello\r\n" + FOR_ANOTHER,
    "a NUL": b"\0" + FOR_ANOTHER,
    "ssh, and then a request": b"SSH-2.0-x\r\n" + FOR_ANOTHER,
    "ssh, and then a NUL and a request": b"SSH-2.0-x\r\n\0" + FOR_ANOTHER,
    "a path that calls itself ssh": b"SSH-2.0-x http://evil.example/\r\n" + KEXINIT,
    "ssh without a version": b"SSH-\r\n" + KEXINIT,
}


@pytest.mark.parametrize("what", UNREADABLE)
@pytest.mark.parametrize("by", ["name", "address"])
async def test_what_cannot_be_read_is_not_carried(tmp_path, what, by):
    async with serving(Server(b"welcome\n")) as server:
        host = "ok.example" if by == "name" else "127.0.0.1"
        out = Out(tmp_path, listing(server.port, f"ok.example:{server.port}"), Names(ok_example="127.0.0.1"))
        program = out.connect(connect(host, server.port), UNREADABLE[what], b"")
        await asyncio.wait_for(program.ended.wait(), 20)
        assert b"evil" not in program.got
        assert out.records[-1]["answer"] == "refused"
        assert f'add "{host}:{server.port}" to network.raw' in out.call.hints[-1]


async def test_a_place_that_is_listed_as_raw_is_carried_unread_and_no_other(tmp_path):
    async with serving(Server(b"welcome\n")) as server, serving(Server(b"welcome\n")) as beside:
        names = Names(db_example="127.0.0.1")
        network = {
            "allow": [f"127.0.0.1:{server.port}", f"127.0.0.1:{beside.port}", f"db.example:{beside.port}"],
            "raw": [f"db.example:{server.port}"],
        }
        out = Out(tmp_path, network, names)
        program = out.connect(connect("db.example", server.port))
        await program.until(b"welcome\n")
        program.say(b"\0anything\n")
        await program.until(b"you said \0anything\n")
        program.say(b"")
        await asyncio.wait_for(program.ended.wait(), 10)
        assert b"you said" not in await out.ask(connect("db.example", beside.port), b"\0anything\n", b"")


async def test_under_internet_other_protocols_need_no_line(tmp_path):
    """Any public name may be reached there, so that a name that hides behind another gains nothing."""
    check_kind(Speaks.OTHER, read_authority("db.example:5432"), everything=True)
    with pytest.raises(Disagreement):
        check_kind(Speaks.OTHER, read_authority("db.example:443"), everything=True)


async def test_socks_refuses_by_its_own_codes(tmp_path):
    out = Out(tmp_path, {"allow": ["gone.example:22"]})
    assert await out.ask(*socks("evil.example", 22)) == b"\x05\x00\x05\x02\x00\x01" + bytes(6)
    assert await out.ask(*socks("gone.example", 22)) == b"\x05\x00\x05\x04\x00\x01" + bytes(6)
    assert await out.ask(b"\x05\x01\x02") == b"\x05\xff"
    assert (await out.ask(b"\x05\x01\x00", b"\x05\x02\x00\x01aaaabb"))[3:4] == b"\x07"


def handshake(name):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    return context.wrap_bio(incoming, outgoing, server_hostname=name), incoming, outgoing


async def test_tls_for_the_host_of_its_tunnel_works_to_the_end(tmp_path):
    async with serving(Server(), certified(tmp_path, "ok.example")) as server:
        names = Names(ok_example="127.0.0.1")
        out = Out(tmp_path, listing(server.port, f"ok.example:{server.port}"), names)
        program = out.connect(connect("ok.example", server.port))
        await program.until(b"\r\n\r\n")
        program.got.clear()
        tls, incoming, outgoing = handshake("ok.example")
        for step in (tls.do_handshake, lambda: tls.write(b"GET / HTTP/1.1\r\n\r\n"), lambda: tls.read(4096)):
            while True:
                try:
                    answer = step()
                    break
                except ssl.SSLWantReadError:
                    for byte in outgoing.read():
                        program.say(bytes((byte,)))
                    while not program.got:
                        program.arrived.clear()
                        await asyncio.wait_for(program.arrived.wait(), 10)
                    incoming.write(bytes(program.got))
                    program.got.clear()
            if outgoing.pending:
                program.say(outgoing.read())
        assert answer.startswith(b"HTTP/1.1 200")
        assert server.heads == [b"GET / HTTP/1.1\r\n\r\n"]


@pytest.mark.parametrize("name", ["evil.example", None])
async def test_tls_for_another_host_ends_before_the_server_hears_of_it(tmp_path, name):
    async with serving(Server(b"hello\n")) as server:
        names = Names(ok_example="127.0.0.1")
        out = Out(tmp_path, listing(server.port, f"ok.example:{server.port}"), names)
        tls, _, outgoing = handshake(name)
        with pytest.raises(ssl.SSLWantReadError):
            tls.do_handshake()
        answer = await out.ask(connect("ok.example", server.port), outgoing.read())
        # What OpenSSL reads as "tlsv1 unrecognized name".
        assert answer.endswith(bytes((21, 3, 3, 0, 2, 2, 112)))
        assert b"you said" not in answer
        assert out.records[-1]["answer"] == "refused"
        assert "SNI" in out.call.hints[-1]


@pytest.mark.parametrize(
    "inside",
    [
        get("/", "Host: evil.example"),
        get("/"),
        get("http://evil.example/", "Host: ok.example:{port}"),
        b"\r\n" + get("/", "Host: evil.example"),
        b" GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"GET\t/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"get / http/1.1\nhost: evil.example\n\n\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x80GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    ],
)
async def test_plain_http_for_another_host_does_not_pass_a_tunnel(tmp_path, inside):
    async with serving(Server()) as server:
        names = Names(ok_example="127.0.0.1")
        out = Out(tmp_path, listing(server.port, f"ok.example:{server.port}"), names)
        said = inside.replace(b"{port}", str(server.port).encode())
        answer = await out.ask(connect("ok.example", server.port), said)
        assert b"HTTP/1.1 403" in answer
        assert server.heads == []


async def test_a_second_request_in_a_tunnel_does_not_pass_whatever_it_names(tmp_path):
    async with serving(Server()) as server:
        names = Names(ok_example="127.0.0.1")
        out = Out(tmp_path, listing(server.port, f"ok.example:{server.port}"), names)
        first = get("/1", f"Host: ok.example:{server.port}")
        await out.ask(connect("ok.example", server.port), first + get("/2", "Host: evil.example"))
        program = out.connect(connect("ok.example", server.port), first)
        await program.until(b"Connection: close")
        program.say(get("/2", "Host: evil.example"))
        await asyncio.wait_for(program.ended.wait(), 10)
        assert all(b"evil" not in head for head in server.heads)
        assert all(b"Connection: close" in head for head in server.heads)


async def test_on_the_webs_ports_nothing_else_is_spoken(tmp_path):
    out = Out(tmp_path, {"allow": ["ok.example", "127.0.0.1:443"]}, Names(ok_example="127.0.0.1"))
    answer = await out.ask(connect("ok.example", 443))
    # Nobody listens on 443 here; the claim itself is in test_tls, on the function that decides it.
    assert answer.startswith(b"HTTP/1.1 502")


async def test_a_body_arrives_whole_and_nothing_behind_it(tmp_path):
    async with serving(Server()) as server:
        out = Out(tmp_path, listing(server.port))
        head = f"POST http://127.0.0.1:{server.port}/ HTTP/1.1\r\nContent-Length: 100000\r\n\r\n".encode()
        answer = await out.ask(head + b"x" * 50_000, b"x" * 50_000)
        assert answer.startswith(b"HTTP/1.1 200")
        assert server.bodies == [b"x" * 100_000]


# --- secrets ----------------------------------------------------------------------------------------------------------


def injecting(port, header="Authorization", **value_from):
    rule = {"host": f"127.0.0.1:{port}", "header": header, "valueFrom": value_from or {"env": "TOKEN"}}
    return {"allow": [f"127.0.0.1:{port}", f"other.example:{port}"], "inject": [rule]}


async def test_a_secret_reaches_its_host_and_nobody_else(tmp_path):
    async with serving(Server()) as server:
        out = Out(tmp_path, injecting(server.port), Names(other_example="127.0.0.1"))
        await out.ask(get(f"http://127.0.0.1:{server.port}/", "authorization: forged"))
        assert server.heads[0].count(SECRET.encode()) == 1
        assert b"forged" not in server.heads[0]
        inside = get("/", f"Host: 127.0.0.1:{server.port}")
        await out.ask(connect("127.0.0.1", server.port), inside)
        assert SECRET.encode() in server.heads[1]
        await out.ask(get(f"http://other.example:{server.port}/"))
        assert SECRET.encode() not in server.heads[2]
        assert SECRET not in json.dumps(out.records)
        assert SECRET not in str(out.call.hints)


@pytest.mark.parametrize("name", ["X_Api_Key", "x_api_key", "X-Api_Key", "x.api.key", "X-API-KEY"])
async def test_no_spelling_of_an_added_header_stands_beside_it(tmp_path, name):
    """Many servers turn dashes, underscores and dots into one character, and then take the first or the last."""
    async with serving(Server()) as server:
        out = Out(tmp_path, injecting(server.port, header="X-Api-Key"))
        await out.ask(get(f"http://127.0.0.1:{server.port}/", f"{name}: forged", "X-Other_Key: kept"))
        assert server.heads[0].count(SECRET.encode()) == 1
        assert b"forged" not in server.heads[0]
        assert b"X-Other_Key: kept" in server.heads[0]


@pytest.mark.parametrize("name", ["Content_Length", "Transfer_Encoding", "Host_", "transfer.encoding"])
async def test_no_spelling_of_a_header_that_frames_the_request_is_passed_on(tmp_path, name):
    async with serving(Server()) as server:
        out = Out(tmp_path, listing(server.port))
        answer = await out.ask(get(f"http://127.0.0.1:{server.port}/", f"{name}: 5"))
        assert answer.startswith(b"HTTP/1.1 400" if name != "Host_" else b"HTTP/1.1 200")


@pytest.mark.parametrize("method", ["TRACE", "TRACK", "trace", "Trace", "pri"])
async def test_no_request_that_sends_back_what_it_got_is_passed_on(tmp_path, method):
    async with serving(Server()) as server:
        out = Out(tmp_path, injecting(server.port))
        answer = await out.ask(f"{method} http://127.0.0.1:{server.port}/ HTTP/1.1\r\n\r\n".encode())
        assert answer.startswith(b"HTTP/1.1 400")
        assert server.heads == []


@pytest.mark.parametrize("value_from", [{"env": "MISSING"}, {"file": "/nonexistent"}, {"file": "~/open"}])
async def test_a_secret_that_cannot_be_had_stops_the_request_and_only_the_operator_hears_why(tmp_path, value_from):
    (tmp_path / "open").write_text(SECRET)
    (tmp_path / "open").chmod(0o644)
    async with serving(Server()) as server:
        out = Out(tmp_path, injecting(server.port, **value_from))
        answer = (await out.ask(get(f"http://127.0.0.1:{server.port}/"))).decode()
        assert answer.startswith("HTTP/1.1 502")
        (place,) = value_from.values()
        for told in (answer, str(out.call.hints)):
            assert place not in told
            assert "inject" not in told
        assert "the audit log says why" in answer
        assert place in out.records[0]["because"]
        assert "agents.defaults.sandbox.network.inject[0]" in out.records[0]["because"]
        assert SECRET not in answer + json.dumps(out.records)
        assert server.heads == []


# --- asking -----------------------------------------------------------------------------------------------------------


async def test_an_unlisted_host_is_asked_for_and_reached_once_allowed(tmp_path):
    async with serving(Server()) as server:
        desk = Operator(Answer(allowed=True, by="me"))
        out = Out(tmp_path, listing(server.port) | {"ask": True}, Names(new_example="127.0.0.1"), desk)
        assert (await out.ask(get(f"http://new.example:{server.port}/"))).startswith(b"HTTP/1.1 200")
        (request,) = desk.asked
        assert (request.kind, request.host, request.port) == ("connection", "new.example", server.port)
        assert (request.scope_key, request.agent) == ("agent:main:one", "main")
        assert out.records[-1]["because"] == "allowed by me"
        await out.ask(get(f"http://new.example:{server.port}/"))
        assert len(desk.asked) == 2


async def test_an_answer_to_add_it_is_written_into_the_configuration_and_not_asked_again(tmp_path):
    async with serving(Server()) as server:
        desk = Operator(Answer(allowed=True, grant="config", by="me"))
        out = Out(tmp_path, listing(server.port) | {"ask": True}, Names(new_example="127.0.0.1"), desk)
        for _ in range(2):
            assert (await out.ask(get(f"http://new.example:{server.port}/"))).startswith(b"HTTP/1.1 200")
        assert len(desk.asked) == 1
        entry = f'entries: {{ main: {{ sandbox: {{ network: {{ allow: ["new.example:{server.port}"] }} }} }} }}'
        assert entry in out.config.read_text()


async def test_denied_or_unasked_is_refused_and_agreeing_to_a_name_opens_no_private_address(tmp_path):
    async with serving(Server()) as server:
        place = f"http://new.example:{server.port}/"
        names = Names(new_example="127.0.0.1")
        for desk in (Operator(denied("me", "no")), None):
            out = Out(tmp_path, {"allow": [], "ask": True}, names, desk)
            assert (await out.ask(get(place))).startswith(b"HTTP/1.1 403")
        assert names.asked == []
        out = Out(tmp_path, {"allow": [], "ask": True}, names, Operator(Answer(allowed=True, by="me")))
        assert b"leads to 127.0.0.1" in await out.ask(get(place))
        assert server.connections == 0
