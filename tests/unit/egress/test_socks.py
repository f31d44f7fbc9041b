"""SOCKS 5, from whatever runs inside."""

from __future__ import annotations

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crabpot.egress.socks import BadSocks, Reply, read_greeting, read_request, reply


def asked(kind, raw, port=443, command=1):
    return bytes((5, command, 0, kind)) + raw + port.to_bytes(2, "big")


def test_a_greeting_is_read_when_it_is_whole():
    assert read_greeting(b"\x05") is None
    assert read_greeting(b"\x05\x02\x00") is None
    assert read_greeting(b"\x05\x02\x00\x02rest") == (4, True)
    assert read_greeting(b"\x05\x01\x02") == (3, False)
    assert read_greeting(b"\x05\x00") == (2, False)


def test_names_and_addresses_are_read_in_their_one_form():
    name = bytes((11,)) + b"EXAMPLE.com"
    for data, place in (
        (asked(3, name), "example.com:443"),
        (asked(1, socket.inet_aton("10.0.0.7")), "10.0.0.7:443"),
        (asked(4, socket.inet_pton(socket.AF_INET6, "::ffff:10.0.0.7")), "10.0.0.7:443"),
        (asked(4, socket.inet_pton(socket.AF_INET6, "::1"), 22), "[::1]:22"),
        (asked(3, bytes((8,)) + b"10.0.0.7"), "10.0.0.7:443"),
    ):
        for short in range(5, len(data)):
            assert read_request(data[:short]) is None
        size, destination = read_request(data + b"more")
        assert (size, str(destination)) == (len(data), place)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (asked(3, b"\x01a", command=2), Reply.NO_SUCH_COMMAND),
        (asked(3, b"\x01a", command=3), Reply.NO_SUCH_COMMAND),
        (asked(9, b"aaaa"), Reply.NO_SUCH_ADDRESS),
        (b"\x04" + asked(1, b"aaaa")[1:], Reply.FAILED),
        (asked(3, b"\x00"), Reply.NOT_ALLOWED),
        (asked(3, b"\x0aexample\x00.c"), Reply.NOT_ALLOWED),
        (asked(3, b"\x04\xff\xfe.a"), Reply.NOT_ALLOWED),
        (asked(3, b"\x050x7f1"), Reply.NOT_ALLOWED),
        (asked(3, b"\x01a", 0), Reply.NOT_ALLOWED),
    ],
)
def test_what_is_not_offered_is_refused_by_its_code(data, code):
    with pytest.raises(BadSocks) as told:
        read_request(data)
    assert told.value.reply is code


def test_an_answer_has_ten_bytes():
    assert reply(Reply.NOT_ALLOWED) == b"\x05\x02\x00\x01" + bytes(6)


@given(st.binary(max_size=300))
def test_any_bytes_are_a_request_a_part_of_one_or_refused(data):
    read_greeting(data)
    try:
        found = read_request(data)
    except BadSocks:
        return
    assert found is None or found[0] <= len(data)
