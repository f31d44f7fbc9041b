"""Headers that the gateway adds to encrypted requests: TLS begun at the gateway, and TLS that ends there."""

from __future__ import annotations

import asyncio
import json
import ssl

import pytest

from crabpot.egress.authority import Authority
from tests.support.places import Names, Server, certified, serving
from tests.unit.egress.test_proxy import SECRET, Out, connect, get

HOST = "ok.example"


def network(port, tls, host=HOST, **more):
    rule = {"host": f"{host}:{port}", "header": "Authorization", "valueFrom": {"env": "TOKEN"}, "tls": tls, **more}
    return {"allow": [f"127.0.0.1:{port}", f"{HOST}:{port}", f"other.example:{port}"], "inject": [rule]}


def trusting(folder):
    return lambda: ssl.create_default_context(cafile=str(folder / "cert.pem"))


def out(tmp_path, port, tls, authority=None, *, silent_s=900.0, **more):
    names = Names(ok_example="127.0.0.1", other_example="127.0.0.1")
    seams = {"trust": trusting(tmp_path), "silent_s": silent_s}
    return Out(tmp_path, network(port, tls, **more), names, authority=authority, **seams)


class Client:
    """TLS as a program inside speaks it, through a tunnel of the proxy's."""

    def __init__(self, program, authority, name=HOST):
        context = ssl.create_default_context(cadata=authority.certificate.decode())
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_hostname=name)
        self._program = program

    async def _do(self, step):
        while True:
            try:
                return step()
            except ssl.SSLWantReadError:
                self._program.say(self._out.read())
                await self._more()

    async def _more(self):
        program = self._program
        while not program.got:
            program.arrived.clear()
            if program.ended.is_set():
                self._in.write_eof()
                return
            await asyncio.wait_for(program.arrived.wait(), 10)
        self._in.write(bytes(program.got))
        program.got.clear()

    async def request(self, data):
        await self._do(self._tls.do_handshake)
        self._tls.write(data)
        self._program.say(self._out.read())
        answer = b""
        while piece := await self._do(lambda: self._tls.read(65536)):
            answer += piece
        return answer

    async def begin(self):
        await self._do(self._tls.do_handshake)


async def tunnel(way, port, host=HOST):
    program = way.connect(connect(host, port))
    await program.until(b"\r\n\r\n")
    program.got.clear()
    return program


async def test_a_plain_request_inside_is_tls_outside_with_the_key(tmp_path):
    async with serving(Server(), certified(tmp_path, HOST)) as server:
        way = out(tmp_path, server.port, "upgrade", format="Bearer {}")
        answer = await way.ask(get(f"http://{HOST}:{server.port}/v1", "Authorization: dummy"))
        assert answer.startswith(b"HTTP/1.1 200")
        assert server.heads[0].count(f"Authorization: Bearer {SECRET}".encode()) == 1
        assert b"dummy" not in server.heads[0]
        # Programs that make a tunnel for plain HTTP too, as Node's fetch does.
        await way.ask(connect(HOST, server.port), get("/v2", f"Host: {HOST}:{server.port}"))
        assert SECRET.encode() in server.heads[1]
        assert SECRET not in json.dumps(way.records) + str(way.call.hints)


async def test_the_port_of_plain_http_stands_for_that_of_tls(tmp_path):
    rule = {"host": HOST, "header": "X", "valueFrom": {"env": "TOKEN"}, "tls": "upgrade"}
    way = Out(tmp_path, {"allow": [f"{HOST}:443"], "inject": [rule]}, Names(ok_example="127.0.0.1"))
    answer = await way.ask(get(f"http://{HOST}/"))
    assert b"127.0.0.1 is " in answer, "the address is checked like any other"
    assert f"{HOST}:443" in json.dumps(way.records[-1])
    answer = await way.ask(get("http://ok.example:8080/"))
    assert answer.startswith(b"HTTP/1.1 403"), "another port is another place"


@pytest.mark.parametrize("tls", ["upgrade", "terminate"])
@pytest.mark.parametrize("wrong", ["another name", "unknown authority", "no TLS at all"])
async def test_a_server_that_is_not_the_host_gets_nothing(tmp_path, tls, wrong):
    (tmp_path / "real").mkdir()
    context = certified(tmp_path, "evil.example") if wrong == "another name" else certified(tmp_path / "real", HOST)
    if wrong == "unknown authority":
        certified(tmp_path, "somebody.example")
    elif wrong == "no TLS at all":
        certified(tmp_path, HOST)
        context = None
    async with serving(Server(b"hello, in plain text\n" if context is None else b""), context) as server:
        way = out(tmp_path, server.port, tls, Authority([HOST]))
        said = [get(f"http://{HOST}:{server.port}/")] if tls == "upgrade" else [connect(HOST, server.port)]
        answer = await way.ask(*said)
        assert answer.startswith(b"HTTP/1.1 502")
        assert b"was not given anything" in answer
        assert server.heads == []
        assert way.records[-1]["answer"] == "failed"
        assert SECRET not in answer.decode() + json.dumps(way.records)


@pytest.mark.parametrize("header", ["Host: other.example", "Host: ok.example:1", "Host: evil.example"])
async def test_a_host_header_for_another_place_gets_no_key(tmp_path, header):
    async with serving(Server(), certified(tmp_path, HOST, "other.example")) as server:
        way = out(tmp_path, server.port, "upgrade")
        assert (await way.ask(get(f"http://{HOST}:{server.port}/", header))).startswith(b"HTTP/1.1 400")
        inside = await way.ask(connect(HOST, server.port), get("/", header))
        assert b"403 Forbidden" in inside
        assert server.heads == []


async def test_a_redirect_takes_no_key_along(tmp_path):
    async with serving(Server()) as plain, serving(Server(), certified(tmp_path, HOST)) as server:
        allowed = network(server.port, "upgrade")
        allowed["allow"] += [f"127.0.0.1:{plain.port}", f"other.example:{plain.port}"]
        names = Names(ok_example="127.0.0.1", other_example="127.0.0.1")
        way = Out(tmp_path, allowed, names, trust=trusting(tmp_path))
        await way.ask(get(f"http://{HOST}:{server.port}/"))
        await way.ask(get(f"http://other.example:{plain.port}/", "Authorization: dummy"))
        assert SECRET.encode() in server.heads[0]
        assert b"Authorization: dummy" in plain.heads[0]


async def test_tls_inside_ends_at_the_gateway_and_begins_there_anew(tmp_path):
    async with serving(Server(), certified(tmp_path, HOST)) as server:
        authority = Authority([HOST])
        way = out(tmp_path, server.port, "terminate", authority)
        program = await tunnel(way, server.port)
        body = b'{"a": 1}'
        head = f"POST /x HTTP/1.1\r\nHost: {HOST}:{server.port}\r\nAuthorization: dummy\r\nContent-Length: 8\r\n\r\n"
        answer = await Client(program, authority).request(head.encode() + body)
        assert answer.startswith(b"HTTP/1.1 200")
        assert server.bodies == [body]
        assert server.heads[0].count(f"Authorization: {SECRET}".encode()) == 1
        assert b"dummy" not in server.heads[0]
        assert SECRET not in json.dumps(way.records) + str(way.call.hints)


async def test_no_other_host_is_answered_for(tmp_path):
    async with serving(Server(), certified(tmp_path, HOST, "other.example")) as server:
        authority = Authority([HOST])
        way = out(tmp_path, server.port, "terminate", authority)
        program = await tunnel(way, server.port, "other.example")
        with pytest.raises(ssl.SSLCertVerificationError):
            await Client(program, authority, "other.example").begin()
        program.say(b"")
        await asyncio.wait_for(program.ended.wait(), 10)
        # In the tunnel to the one host, a hello for the other.
        program = await tunnel(way, server.port)
        with pytest.raises(ssl.SSLError):
            await Client(program, authority, "other.example").begin()
        program.say(b"")
        await asyncio.wait_for(program.ended.wait(), 10)
        assert server.heads == []
        with pytest.raises(KeyError):
            authority.context("other.example")


async def test_without_an_authority_of_its_own_nothing_is_answered(tmp_path):
    async with serving(Server(), certified(tmp_path, HOST)) as server:
        way = out(tmp_path, server.port, "terminate")
        answer = await way.ask(connect(HOST, server.port), b"\x16\x03\x01\x00\x05hello")
        assert answer.endswith(bytes((21, 3, 3, 0, 2, 2, 112)))
        assert "no authority" in way.call.hints[-1]
        assert server.heads == []


async def test_plain_text_where_tls_ends_is_refused(tmp_path):
    async with serving(Server(), certified(tmp_path, HOST)) as server:
        way = out(tmp_path, server.port, "terminate", Authority([HOST]))
        await way.ask(connect(HOST, server.port), get("/", f"Host: {HOST}:{server.port}"))
        assert server.heads == []
        assert way.records[-1]["answer"] == "refused"


async def test_a_second_request_behind_the_first_does_not_pass(tmp_path):
    async with serving(Server(), certified(tmp_path, HOST)) as server:
        authority = Authority([HOST])
        way = out(tmp_path, server.port, "terminate", authority)
        program = await tunnel(way, server.port)
        one = get("/1", f"Host: {HOST}:{server.port}")
        await Client(program, authority).request(one + get("/2", "Host: evil.example"))
        assert [head.split()[1] for head in server.heads] == [b"/1"]


class Endless(Server):
    """Begins an answer, or not even that, and never ends it."""

    def __init__(self, *pieces):
        super().__init__()
        self.pieces = pieces
        self.left = asyncio.Event()

    async def _answer(self, reader, writer):
        self.heads.append(await reader.readuntil(b"\r\n\r\n"))
        for piece in self.pieces:
            writer.write(piece)
            await writer.drain()
        # Until the gateway hangs up.
        await reader.read()
        self.left.set()


async def asked(way, port, tls, authority):
    """Ask as a program does whose TLS begins, or ends, at the gateway; return all of the answer."""
    if tls == "upgrade":
        return await way.ask(get(f"http://{HOST}:{port}/"))
    program = await tunnel(way, port)
    return await Client(program, authority).request(get("/", f"Host: {HOST}:{port}"))


@pytest.mark.parametrize("tls", ["upgrade", "terminate"])
@pytest.mark.parametrize("begins", [b"", b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n"])
async def test_an_answer_that_never_ends_is_given_up_and_its_connection_too(tmp_path, tls, begins):
    authority = Authority([HOST])
    server = Endless(begins)
    async with serving(server, certified(tmp_path, HOST)):
        way = out(tmp_path, server.port, tls, authority, silent_s=0.3)
        answer = await asked(way, server.port, tls, authority)
        await asyncio.wait_for(server.left.wait(), 10)
    if begins:
        assert answer == begins, "what there was of it came, and then its end"
    else:
        assert answer.startswith(b"HTTP/1.1 504 Gateway Timeout")
        assert f"the answer of {HOST}:{server.port} was given up: it sent nothing for 0.3 s".encode() in answer
    assert way.records[-1]["answer"] == "failed"
    assert SECRET not in answer.decode() + json.dumps(way.records)


async def test_an_answer_in_drops_is_not_given_up(tmp_path):
    class Dripping(Endless):
        async def _answer(self, reader, writer):
            self.heads.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            for _ in range(8):
                await asyncio.sleep(0.1)
                writer.write(b".")

    async with serving(Dripping(), certified(tmp_path, HOST)) as server:
        way = out(tmp_path, server.port, "upgrade", silent_s=0.5)
        answer = await way.ask(get(f"http://{HOST}:{server.port}/"))
        assert answer.endswith(b"........")


async def test_a_program_that_leaves_an_endless_answer_takes_its_connection_along(tmp_path):
    server = Endless(b"HTTP/1.1 200 OK\r\n\r\n")
    async with serving(server, certified(tmp_path, HOST)):
        way = out(tmp_path, server.port, "upgrade")
        program = way.connect(get(f"http://{HOST}:{server.port}/"))
        await program.until(b"200 OK")
        # As the wire does when the program's own end is closed.
        way.leave()
        await asyncio.wait_for(server.left.wait(), 10)


def test_an_authority_vouches_for_its_hosts_alone_and_no_two_are_one(tmp_path):
    from cryptography import x509

    one, other = Authority([HOST, "127.0.0.1"]), Authority([HOST])
    assert one.certificate != other.certificate
    read = x509.load_pem_x509_certificate(one.certificate)
    allowed = read.extensions.get_extension_for_class(x509.NameConstraints)
    assert allowed.critical
    assert [name.value for name in allowed.value.permitted_subtrees if isinstance(name, x509.DNSName)] == [HOST]
    assert b"PRIVATE" not in one.certificate
