"""Requests as they pass: read to the letter or refused, written anew, and no byte beyond their body."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crabpot.egress.destinations import BadDestination, read_authority
from crabpot.egress.messages import BadRequest, Body, check_host, check_inside, destination_of, read_head, write_head

PLACE = read_authority("example.com:80")


def head(*lines):
    return b"\r\n".join((*lines, b"", b""))


def test_a_request_of_a_proxy_goes_where_it_says_by_its_path_alone():
    request = read_head(head(b"GET http://EXAMPLE.com./a?b=c HTTP/1.1", b"Host: example.com", b"Accept: */*"))
    destination, path = destination_of(request)
    assert (str(destination), path) == ("example.com:80", b"/a?b=c")
    written = write_head(request, destination, path)
    assert written == head(b"GET /a?b=c HTTP/1.1", b"Host: example.com", b"Accept: */*", b"Connection: close")


@pytest.mark.parametrize(
    ("target", "path"),
    [
        (b"http://a.example", b"/"),
        (b"http://a.example?x=/y", b"/?x=/y"),
        (b"http://a.example:8080/x#frag", b"/x"),
        (b"HTTP://a.example/http://b.example/", b"/http://b.example/"),
    ],
)
def test_a_target_is_cut_after_its_host(target, path):
    request = read_head(head(b"GET " + target + b" HTTP/1.0"))
    assert destination_of(request)[1] == path
    assert destination_of(request)[0].host == "a.example"


REFUSED = {
    "no version": (b"GET http://a.example/",),
    "another version": (b"GET http://a.example/ HTTP/2.0",),
    "two spaces": (b"GET  http://a.example/ HTTP/1.1",),
    "a tab": (b"GET\thttp://a.example/ HTTP/1.1",),
    "a leading space": (b" GET http://a.example/ HTTP/1.1",),
    "a control character": (b"GET http://a.example/\x01 HTTP/1.1",),
    "a NUL": (b"GET http://a.example\x00.b/ HTTP/1.1",),
    "bytes beyond ASCII": (b"GET http://\xc3\xa9.example/ HTTP/1.1",),
    "TRACE": (b"TRACE http://a.example/ HTTP/1.1",),
    "a header that continues": (b"GET http://a.example/ HTTP/1.1", b"X: a", b" b"),
    "a space before the colon": (b"GET http://a.example/ HTTP/1.1", b"Host : a.example"),
    "no colon": (b"GET http://a.example/ HTTP/1.1", b"Host"),
    "a nameless header": (b"GET http://a.example/ HTTP/1.1", b": x"),
    "a bare line feed": (b"GET http://a.example/ HTTP/1.1", b"X: a\nHost: b"),
    "a bare carriage return": (b"GET http://a.example/ HTTP/1.1", b"X: a\rHost: b"),
    "too many headers": (b"GET http://a.example/ HTTP/1.1", *[b"A: b"] * 200),
    "two lengths": (b"POST http://a.example/ HTTP/1.1", b"Content-Length: 1", b"Content-Length: 1"),
    "a list of lengths": (b"POST http://a.example/ HTTP/1.1", b"Content-Length: 1, 1"),
    "a signed length": (b"POST http://a.example/ HTTP/1.1", b"Content-Length: +1"),
    "an endless length": (b"POST http://a.example/ HTTP/1.1", b"Content-Length: " + b"9" * 40),
    "a length and chunks": (b"POST http://a.example/ HTTP/1.1", b"Content-Length: 1", b"Transfer-Encoding: chunked"),
    "another coding": (b"POST http://a.example/ HTTP/1.1", b"Transfer-Encoding: xchunked"),
    "two codings": (b"POST http://a.example/ HTTP/1.1", b"Transfer-Encoding: gzip, chunked"),
    "coding twice": (b"POST http://a.example/ HTTP/1.1", b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"),
    "chunks of 1.0": (b"POST http://a.example/ HTTP/1.0", b"Transfer-Encoding: chunked"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_can_be_read_in_two_ways_is_refused(name):
    with pytest.raises(BadRequest):
        read_head(head(*REFUSED[name]))


@pytest.mark.parametrize(
    "target", [b"/path", b"*", b"https://a.example/", b"ftp://a.example/", b"http:/a.example/", b"a.example:80"]
)
def test_a_proxy_takes_whole_addresses_of_plain_http(target):
    with pytest.raises(BadRequest):
        destination_of(read_head(head(b"GET " + target + b" HTTP/1.1")))


@pytest.mark.parametrize("target", [b"http://u:p@a.example/", b"http:///x", b"http://a.example:x/", b"http://0x7f.1/"])
def test_a_target_without_a_proper_host_is_refused(target):
    with pytest.raises(BadDestination):
        destination_of(read_head(head(b"GET " + target + b" HTTP/1.1")))


HOSTS = {
    "another host": (b"Host: b.example",),
    "another port": (b"Host: example.com:81",),
    "two": (b"Host: example.com", b"Host: example.com"),
    "two that differ": (b"Host: example.com", b"host: b.example"),
    "a list": (b"Host: example.com, b.example",),
    "no host": (b"Host: ",),
    "an address": (b"Host: 127.0.0.1",),
    "beyond ASCII": (b"Host: \xc3\xa9.example",),
}


@pytest.mark.parametrize("name", HOSTS)
def test_a_host_header_that_disagrees_is_refused(name):
    request = read_head(head(b"GET / HTTP/1.1", *HOSTS[name]))
    with pytest.raises(BadRequest):
        check_host(request, PLACE)


def test_in_a_tunnel_a_host_header_is_needed_and_another_proxys_request_refused():
    for lines in ((b"GET / HTTP/1.1",), (b"GET http://b.example/ HTTP/1.1", b"Host: example.com")):
        with pytest.raises(BadRequest):
            check_inside(read_head(head(*lines)), PLACE)
    with pytest.raises(BadRequest):
        check_inside(read_head(head(b"CONNECT example.com:80 HTTP/1.1", b"Host: example.com")), PLACE)
    check_inside(read_head(head(b"GET /x HTTP/1.1", b"Host: EXAMPLE.com:80")), PLACE)


def test_what_belongs_to_one_hop_stays_there_and_what_is_added_replaces_what_the_agent_sent():
    request = read_head(
        head(
            b"POST http://example.com/ HTTP/1.1",
            b"Connection: keep-alive, X-Gone, Content-Length",
            b"X-Gone: 1",
            b"Proxy-Authorization: Basic x",
            b"Upgrade: h2c",
            b"authorization: mine",
            b"Content-Length: 3",
        )
    )
    written = write_head(request, PLACE, b"/", [(b"Authorization", b"Bearer token")])
    assert written == head(
        b"POST / HTTP/1.1",
        b"Host: example.com",
        b"Content-Length: 3",
        b"Authorization: Bearer token",
        b"Connection: close",
    )


def test_a_host_on_another_port_or_by_address_is_written_as_such():
    request = read_head(head(b"GET / HTTP/1.1"))
    assert b"Host: example.com:8080\r\n" in write_head(request, read_authority("example.com:8080"), b"/")
    assert b"Host: [::1]\r\n" in write_head(request, read_authority("[::1]:80"), b"/")


CHUNKED = b"3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n"


@given(st.lists(st.integers(1, 12), max_size=40), st.binary(max_size=30))
def test_a_body_passes_whole_and_what_hides_behind_it_never_however_it_is_cut(cuts, behind):
    for size, whole in ((None, CHUNKED), (10, b"0123456789")):
        body, passed, data = Body(size), b"", whole + behind
        for cut in (*cuts, len(data)):
            if body.complete:
                break
            passed += body.feed(data[:cut])
            data = data[cut:]
        assert body.complete
        assert passed == whole


@pytest.mark.parametrize(
    "data",
    [
        b"3\nabc\r\n",
        b"3 \r\nabc",
        b"-3\r\n",
        b"0x3\r\n",
        b"\r\n",
        b"3;x=y\r\nabc",
        b"3\r\nabcd\r\n",
        b"3\r\nabc\n0\r\n",
        b"0\r\nTrailer: x\r\n",
        b"f" * 300,
        b"ffffffffffffffffff\r\n",
    ],
)
def test_chunks_that_are_not_to_the_letter_are_refused(data):
    with pytest.raises(BadRequest):
        Body(None).feed(data)


def test_no_body_is_complete_at_once():
    assert Body(0).complete


@given(st.binary(max_size=400))
def test_any_head_is_a_request_that_reads_the_same_when_it_is_written_or_refused(data):
    try:
        request = read_head(b"GET http://example.com/ HTTP/1.1\r\n" + data + b"\r\n\r\n")
    except BadRequest:
        return
    again = read_head(write_head(request, PLACE, b"/"))
    assert again.size == request.size
    assert again.values(b"host") == [b"example.com"]


@given(st.binary(max_size=200))
def test_any_first_line_is_understood_or_refused(data):
    try:
        destination_of(read_head(data + b"\r\n\r\n"))
    except (BadRequest, BadDestination):
        return
