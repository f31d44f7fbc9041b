"""One place has one form, whatever it is dressed up as; what is no place is refused."""

from __future__ import annotations

import ipaddress
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crabpot.egress.destinations import BadDestination, read, read_authority

SAME = {
    "example.com": ("EXAMPLE.com", "example.com.", "ＥＸＡＭＰＬＥ.com", "example。com", "eXaMpLe.CoM."),
    "xn--bcher-kva.example": ("bücher.example", "BÜCHER.EXAMPLE", "xn--bcher-kva.example", "XN--BCHER-KVA.example."),
    "127.0.0.1": ("127.0.0.1", "[::ffff:127.0.0.1]", "::ffff:7f00:1", "１２７.0.0.1"),
    "::1": ("[::1]", "::1", "0:0:0:0:0:0:0:1", "[0000:0000::0001]"),
    "fe80::1": ("FE80:0::1", "[fe80::1]"),
    "_dmarc.a-b.example": ("_dmarc.A-B.example",),
}


@pytest.mark.parametrize(("form", "text"), [(form, text) for form, texts in SAME.items() for text in texts])
def test_every_spelling_of_a_place_becomes_the_same(form, text):
    assert read(text, 443).host == form


REFUSED = (
    "",
    ".",
    "..",
    "example..com",
    "example.com..",
    ".example.com",
    "-example.com",
    "example-.com",
    "exa mple.com",
    "example.com\0.evil.org",
    "example.com\r\nX: y",
    "example.com\t",
    "example.com\u200b",
    "example.com\u202e",
    "*.example.com",
    "*",
    "a" * 64 + ".com",
    "a." * 127 + "ab",
    "x" * 256,
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "0177.0.0.1",
    "127.1",
    "127.0.1",
    "127.0.0.01",
    "127.0.0.1.",
    "1.2.3.4.5",
    "256.1.1.1",
    "1e3.0x10",
    "a.0x",
    "a.1",
    "fe80::1%eth0",
    "[fe80::1%25eth0]",
    "[127.0.0.1]",
    "[::1",
    "::1]",
    "[example.com]",
    "1:2:3",
    "user@example.com",
    "example.com/path",
    "example.com#",
    "ex%61mple.com",
    "\udc80.com",
    "ß" * 300,
    "xn--\u00fc.com",
)


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_place_is_refused_in_words_that_are_safe_to_print(text):
    with pytest.raises(BadDestination) as told:
        read(text, 443)
    assert str(told.value).isascii()
    assert str(told.value).isprintable()


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_a_port_is_from_1_to_65535(port):
    with pytest.raises(BadDestination):
        read("example.com", port)


AUTHORITIES = {
    "example.com:443": ("example.com", 443),
    "[::1]:22": ("::1", 22),
    "[::ffff:10.0.0.7]:22": ("10.0.0.7", 22),
    "10.0.0.7:00022": ("10.0.0.7", 22),
}


@pytest.mark.parametrize("text", AUTHORITIES)
def test_an_authority_is_a_host_and_a_port(text):
    found = read_authority(text)
    assert (found.host, found.port) == AUTHORITIES[text]
    assert read_authority(str(found)) == found


@pytest.mark.parametrize(
    "text",
    [
        "example.com",
        "example.com:",
        "example.com:x",
        "example.com:443:443",
        "example.com:+443",
        "example.com: 443",
        "example.com:443 ",
        "example.com:٤٤٣",
        "example.com:4431234",
        "a@b:443",
        "::1:443:",
        "[::1]443",
        "[::1]:",
        "[]:443",
        ":443",
    ],
)
def test_what_is_no_authority_is_refused(text):
    with pytest.raises(BadDestination):
        read_authority(text)


def test_a_port_may_be_understood_where_a_protocol_has_one():
    assert read_authority("example.com", default_port=80).port == 80
    assert read_authority("[::1]", default_port=80).host == "::1"
    with pytest.raises(BadDestination):
        read_authority("example.com:", default_port=80)


@given(st.text(max_size=300), st.integers(-5, 70000))
def test_any_text_is_a_canonical_place_or_refused(text, port):
    try:
        found = read(text, port)
    except BadDestination:
        return
    assert read(found.host, port) == found
    assert set(found.host) <= set(string.ascii_lowercase + string.digits + "-._:")
    if found.address is None:
        # Nothing that a resolver would take for an address in one of its old spellings.
        assert not found.host.rpartition(".")[2].isdigit()
        assert not found.host.rpartition(".")[2].startswith("0x")


@given(st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)))
def test_any_address_is_read_as_itself_or_as_what_it_wraps(address):
    found = read(str(address), 22).address
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    assert found == (mapped or address)
