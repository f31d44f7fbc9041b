"""Published ports: on the loopback, or not at all."""

from __future__ import annotations

import pytest

from crabpot.artefacts.ports import Port, parse


@pytest.mark.parametrize(
    ("text", "port"),
    [
        ("18789", Port(host=18789, container=18789)),
        ("8080:80", Port(host=8080, container=80)),
        ("127.0.0.1:8080:80", Port(host=8080, container=80)),
        ("localhost:53:5353/udp", Port(host=53, container=5353, protocol="udp")),
    ],
)
def test_a_port_is_read_in_the_usual_spellings(text: str, port: Port) -> None:
    assert parse(text) == port


@pytest.mark.parametrize(
    "text", ["0.0.0.0:80:80", "192.168.0.1:80:80", "127.0.0.1.evil:80:80", "[::]:80:80", ":80:80", "127.0.0.2:80:80"]
)
def test_no_other_address_than_the_loopback_is_published(text: str) -> None:
    with pytest.raises(ValueError, match=r"127\.0\.0\.1"):
        parse(text)


@pytest.mark.parametrize(
    "text", ["", "0", "65536", "80:0", "a", "80-90", "80:80/sctp", "80:80:80:80", "٨٠", "0.0.0.0:80"]
)
def test_what_is_no_port_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="port"):
        parse(text)


@pytest.mark.parametrize(
    ("text", "privileged"), [("8080:80", True), ("80:8080", False), ("1023", True), ("1024", False)]
)
def test_what_counts_is_the_port_that_the_program_inside_listens_on(text, privileged):
    assert parse(text).privileged is privileged
