"""The hello of a TLS stream: real ones of this machine's OpenSSL, and whatever else runs inside may send."""

from __future__ import annotations

import ssl
from contextlib import nullcontext
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crabpot.egress.destinations import read_authority
from crabpot.egress.inspection import Disagreement, Speaks, TlsCheck, check_kind, speaks
from crabpot.egress.tls import BadHello, HelloReader, read_hello
from tests.support.places import certified

PLACE = read_authority("example.com:443")


def real(name, alpn=()):
    """Return the first flight that OpenSSL sends for a host."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    if alpn:
        context.set_alpn_protocols(list(alpn))
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


def hello(*extensions, tail=b""):
    """Make the record of a hello from extensions of (kind, content)."""
    listed = b"".join(kind.to_bytes(2, "big") + vector(content, 2) for kind, content in extensions)
    body = bytes(34) + b"\0" + vector(b"\x13\x01", 2) + vector(b"\0", 1) + vector(listed, 2) + tail
    return record(b"\x01" + vector(body, 3))


def vector(content, width):
    return len(content).to_bytes(width, "big") + content


def record(content, kind=22):
    return bytes((kind, 3, 1)) + vector(content, 2)


def naming(*names):
    return 0, vector(b"".join(b"\0" + vector(name, 2) for name in names), 2)


def test_the_hello_of_a_real_client_names_its_host():
    for name in ("example.com", "a" * 60 + ".example.com"):
        (found,) = HelloReader().feed(real(name, ["h2", "http/1.1"]))
        assert found.name == name
        assert not found.encrypted
    (found,) = HelloReader().feed(real(None))
    assert found.name is None


@given(st.lists(st.integers(1, 100), max_size=30))
def test_a_hello_is_read_however_it_is_cut_into_reads_and_records(cuts):
    data = real("example.com")
    reader, found, rest = HelloReader(), [], data
    for cut in (*cuts, len(data)):
        found += reader.feed(rest[:cut])
        rest = rest[cut:]
    assert [one.name for one in found] == ["example.com"]
    message = data[5:]
    split = b"".join(record(message[at : at + 7]) for at in range(0, len(message), 7))
    assert [one.name for one in HelloReader().feed(split)] == ["example.com"]


BROKEN = {
    "not TLS": b"\x16\x02\x00\x00\x05abcde",
    "an empty record": b"\x16\x03\x01\x00\x00",
    "a record too long": b"\x16\x03\x01\xff\xff",
    "an alert first": record(b"\x02\x28", kind=21),
    "another message first": record(b"\x02" + vector(b"x" * 40, 3)),
    "a hello too long": record(b"\x01\xff\xff\xff"),
    "a hello that ends early": record(b"\x01" + vector(b"x" * 10, 3)),
    "something behind the hello": record(hello()[5:] + b"x"),
    "something behind the extensions": hello(tail=b"x"),
    "two names": hello(naming(b"example.com", b"evil.example")),
    "names twice": hello(naming(b"example.com"), naming(b"evil.example")),
    "a name of another kind": hello((0, vector(b"\1" + vector(b"example.com", 2), 2))),
    "a name beyond ASCII": hello(naming(b"\xc3\xa9.example")),
    "no name in the list": hello((0, vector(b"", 2))),
    "something behind the list": hello((0, vector(b"\0" + vector(b"a.example", 2), 2) + b"x")),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_not_to_the_letter_is_refused(name):
    with pytest.raises(BadHello):
        HelloReader().feed(BROKEN[name])


DISAGREE = {
    "another name": hello(naming(b"evil.example")),
    "no name": hello(),
    "a name with a NUL": hello(naming(b"example.com\0evil.example")),
    "a hidden name": hello(naming(b"example.com"), (0xFE0D, b"x")),
    "an address": hello(naming(b"127.0.0.1")),
    "a name below": hello(naming(b"www.example.com")),
    "not TLS at all": b"\x16\x02" + bytes(20),
}


@pytest.mark.parametrize("name", DISAGREE)
def test_a_stream_for_another_host_than_its_tunnel_ends(name):
    with pytest.raises(Disagreement) as told:
        TlsCheck(PLACE, everything=False).feed(DISAGREE[name])
    assert str(told.value).isascii()


def test_a_stream_for_the_host_of_its_tunnel_passes_in_any_letter_case():
    for name in (b"example.com", b"EXAMPLE.com", b"example.com."):
        check = TlsCheck(PLACE, everything=False)
        said = hello(naming(name))
        assert check.feed(said[:9]) == b""
        assert check.feed(said[9:]) == said


BETWEEN = {
    "nothing": b"",
    "a change of ciphers": record(b"\1", kind=20),
    "an alert that servers ignore": record(b"\1\x5a", kind=21),
    "early data": record(b"x" * 100, kind=23) * 3,
    "a heartbeat": record(b"\1", kind=24),
    "a hello for the right host": hello(naming(b"example.com")),
}


@pytest.mark.parametrize("name", BETWEEN)
def test_a_second_hello_cannot_name_another_host(name):
    for cut in (1, 3, 10_000):
        check = TlsCheck(PLACE, everything=False)
        check.feed(hello(naming(b"example.com")))
        rest = BETWEEN[name] + hello(naming(b"evil.example"))
        with pytest.raises(Disagreement):
            _feed(check, rest, cut)


def _feed(check, data, cut):
    for start in range(0, len(data), cut):
        check.feed(data[start : start + cut])


@pytest.mark.parametrize("between", [b"", record(b"\1\x5a", kind=21)], ids=["nothing", "an alert"])
def test_a_real_server_that_asks_again_is_told_no_other_name(tmp_path, between):
    """Without the check OpenSSL takes the second name: it ignores the alert in between."""
    for checked in (True, False):
        heard: list[str] = []
        server = certified(tmp_path, "example.com")
        server.sni_callback = partial(_hear, heard)
        server.set_ecdh_curve("secp384r1")  # Not the client's first choice, so the server asks again.
        check = TlsCheck(PLACE, everything=False)
        pass_on = check.feed if checked else bytes
        with pytest.raises(Disagreement) if checked else nullcontext():
            _ask_twice(server, lambda second, send=pass_on: send(between + second), first=pass_on)
        assert heard == ["example.com"] if checked else ["example.com", "exampl3.com"]


def _hear(heard, _tls, name, _context):
    heard.append(name)


def _ask_twice(server, then, *, first):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    to_server, from_server, to_client, from_client = (ssl.MemoryBIO() for _ in range(4))
    inside = context.wrap_bio(to_client, from_client, server_hostname="example.com")
    outside = server.wrap_bio(to_server, from_server, server_side=True)
    _step(inside)
    to_server.write(first(from_client.read()))
    _step(outside)
    to_client.write(from_server.read())
    _step(inside)
    to_server.write(then(from_client.read().replace(b"example.com", b"exampl3.com")))
    _step(outside)


def _step(side):
    with pytest.raises(ssl.SSLWantReadError):
        side.do_handshake()


def test_records_are_followed_without_being_held():
    check = TlsCheck(PLACE, everything=False)
    check.feed(hello(naming(b"example.com")))
    data = record(b"x" * 16_000, kind=23) * 20
    for start in range(0, len(data), 4099):
        assert check.feed(data[start : start + 4099]) == data[start : start + 4099]
    with pytest.raises(Disagreement):
        check.feed(b"GET / HTTP/1.1\r\n")


def test_nothing_is_looked_at_once_no_further_hello_can_come():
    check = TlsCheck(PLACE, everything=False)
    check.feed(hello(naming(b"example.com")))
    check.feed(record(b"\x10" + vector(b"key", 3)))
    assert check.done
    check.feed(hello(naming(b"evil.example")))


def test_by_address_a_stream_names_nobody_unless_everything_public_may_be_reached():
    place = read_authority("8.8.8.8:443")
    TlsCheck(place, everything=False).feed(hello())
    with pytest.raises(Disagreement):
        TlsCheck(place, everything=False).feed(hello(naming(b"dns.google")))
    TlsCheck(place, everything=True).feed(hello(naming(b"dns.google"), (0xFE0D, b"x")))
    TlsCheck(PLACE, everything=True).feed(hello(naming(b"example.com"), (0xFE0D, b"x")))
    with pytest.raises(Disagreement):
        TlsCheck(PLACE, everything=True).feed(hello(naming(b"evil.example")))


SPOKEN = {
    b"": Speaks.UNKNOWN,
    b"\x16\x03\x01": Speaks.TLS,
    b"GET / HTTP/1.1\r\n": Speaks.HTTP,
    b"GET / HTTP/1.1": Speaks.UNKNOWN,
    b"\r\n\r\nGET / HTTP/1.1\r\n": Speaks.HTTP,
    b" \tGET\t/ HTTP/1.1\r\n": Speaks.HTTP,
    b"get / http/1.1\n": Speaks.HTTP,
    b"PRI * HTTP/2.0\r\n": Speaks.HTTP,
    b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n": Speaks.SSH,
    b"SSH-2.0-OpenSSH_9.2p1": Speaks.UNKNOWN,
    b" SSH-2.0-x\r\n": Speaks.OTHER,
    b"SSH-2.0-x /etc\r\n": Speaks.OTHER,
    b"SSH-2.0-x\n": Speaks.OTHER,
    b"SSH-1.5-x\r\n": Speaks.OTHER,
    b"EHLO me\r\n": Speaks.OTHER,
    b"AMQP\0\0\x09\x01": Speaks.OTHER,
    b"\0\0\0\x08\x04\xd2\x16/": Speaks.OTHER,
    b"\r\n": Speaks.UNKNOWN,
}


@pytest.mark.parametrize("start", SPOKEN)
def test_the_first_bytes_tell_what_a_stream_is(start):
    assert speaks(start) is SPOKEN[start]


def test_a_first_line_without_an_end_is_refused_rather_than_passed_unread():
    with pytest.raises(Disagreement):
        speaks(b"GET /" + b"a" * 10_000)


def test_on_the_webs_ports_of_a_name_only_the_web_is_spoken():
    for port, fits in ((443, Speaks.TLS), (80, Speaks.HTTP)):
        place = read_authority(f"example.com:{port}")
        check_kind(fits, place, everything=False)
        for other in {Speaks.TLS, Speaks.HTTP, Speaks.SSH, Speaks.OTHER} - {fits}:
            for everything in (False, True):
                with pytest.raises(Disagreement):
                    check_kind(other, place, everything=everything)


def test_on_other_ports_and_by_address_only_what_can_be_read_is_spoken():
    for place in ("example.com:22", "10.0.0.7:443", "10.0.0.7:22"):
        for kind in (Speaks.TLS, Speaks.HTTP, Speaks.SSH):
            check_kind(kind, read_authority(place), everything=False)
        check_kind(Speaks.OTHER, read_authority(place), everything=True)
        with pytest.raises(Disagreement, match=r"network\.raw"):
            check_kind(Speaks.OTHER, read_authority(place), everything=False)


@given(st.binary(max_size=600), st.booleans())
def test_any_bytes_are_a_hello_or_refused(data, framed):
    try:
        HelloReader().feed(hello()[:5] + data if framed else data)
        read_hello(data)
    except BadHello:
        return


@given(st.binary(max_size=300))
def test_any_extensions_are_read_or_refused(data):
    body = bytes(34) + b"\0" + vector(b"\x13\x01", 2) + vector(b"\0", 1) + vector(data, 2)
    try:
        found = read_hello(body)
    except BadHello:
        return
    assert found.name is None or found.name.isascii()
