"""Which connections a configuration lists, and which addresses it lets a name lead to."""

from __future__ import annotations

import ipaddress
import json

import pytest

from crabpot.config.load import from_text
from crabpot.egress.destinations import read_authority
from crabpot.egress.rules import Reach, rules
from crabpot.spec.binds import Surroundings

AROUND = Surroundings(home="/home/x", state="/home/x/state", config="/home/x/c.json5")


def agent(network):
    text = json.dumps({"agents": {"defaults": {"sandbox": {"network": network}}}})
    return from_text(text, "/home/x/c.json5", AROUND, {}).agent("main")


def listing(*places, **more):
    return rules(agent({"allow": list(places), **more}))


def nobody(_address):
    return False


def everybody(_address):
    return True


ALLOWED = {
    "example.com": ("example.com:443", "example.com:80", "EXAMPLE.com.:443"),
    "example.com:8443": ("example.com:8443",),
    "*.example.org": ("a.example.org:443", "a.b.example.org:80", "A.EXAMPLE.ORG.:443"),
    "xn--bcher-kva.example": ("bücher.example:443",),
    "10.0.0.7:22": ("10.0.0.7:22", "[::ffff:10.0.0.7]:22"),
    "10.0.0.0/8:22": ("10.255.0.1:22",),
    "[fd00::/8]:22": ("[fd00::1]:22",),
    "[::1]:22": ("[::1]:22", "[0:0::1]:22"),
}


@pytest.mark.parametrize(("place", "text"), [(place, text) for place, texts in ALLOWED.items() for text in texts])
def test_what_is_listed_is_allowed_by_the_rule_that_lists_it(place, text):
    verdict = listing("unrelated.example", place).decide(read_authority(text))
    assert verdict.answer is Reach.ALLOWED
    assert verdict.because == f'listed as "{place}"'
    assert verdict.source == "agents.defaults.sandbox.network.allow[1]"


REFUSED = {
    "example.com": ("example.com:22", "example.com:8443", "www.example.com:443", "example.com.evil.org:443"),
    "*.example.org": ("example.org:443", "evilexample.org:443", "a.example.org:22", "example.org.evil.com:443"),
    "10.0.0.7:22": ("10.0.0.8:22", "10.0.0.7:443", "10.0.0.7.nip.io:22"),
    "10.0.0.0/8:22": ("11.0.0.1:22", "[64:ff9b::a00:7]:22"),
    "example.com:443": ("93.184.216.34:443", "[::1]:443"),
}


@pytest.mark.parametrize(("place", "text"), [(place, text) for place, texts in REFUSED.items() for text in texts])
def test_what_is_not_listed_is_refused(place, text):
    verdict = listing(place).decide(read_authority(text))
    assert verdict.answer is Reach.REFUSED
    assert verdict.source == "agents.defaults.sandbox.network.allow"


def test_an_empty_list_is_nothing_and_says_so():
    verdict = listing().decide(read_authority("example.com:443"))
    assert verdict.answer is Reach.REFUSED
    assert "empty" in verdict.because


def test_a_near_miss_is_named():
    assert "not for 22" in listing("example.com").decide(read_authority("example.com:22")).because
    assert "not for that name itself" in listing("*.a.example").decide(read_authority("a.example:443")).because


def test_internet_is_every_public_address_and_no_other():
    found = rules(agent("internet"))
    for text in ("example.com:443", "anything.at.all:25", "8.8.8.8:53", "[2606:4700::1111]:443"):
        assert found.decide(read_authority(text)).answer is Reach.ALLOWED
    for text in ("10.0.0.1:22", "127.0.0.1:80", "169.254.169.254:80", "[::1]:80", "100.64.0.1:80", "[fd00::1]:80"):
        assert found.decide(read_authority(text)).answer is Reach.REFUSED
    for text in ("10.0.0.1", "127.0.0.1", "169.254.169.254", "::1", "fd00:ec2::254", "100.64.0.1", "64:ff9b::7f00:1"):
        assert found.forbid(ipaddress.ip_address(text), 443, nobody)
    assert found.forbid(ipaddress.ip_address("8.8.8.8"), 443, nobody) is None
    assert "this machine itself" in str(found.forbid(ipaddress.ip_address("8.8.8.8"), 443, everybody))


def test_networks_that_are_not_crabpots_are_said_to_be_unchecked():
    for name in ("host", "bridge", "mine"):
        assert rules(agent(name)).decide(read_authority("a.example:1")).answer is Reach.UNCHECKED
    assert rules(agent("none")).decide(read_authority("a.example:1")).answer is Reach.REFUSED


def test_unlisted_names_are_asked_for_where_that_is_set_and_nearer_addresses_never():
    found = listing("example.com", ask=True)
    assert found.decide(read_authority("other.example:443")).answer is Reach.ASKS
    assert found.decide(read_authority("8.8.8.8:53")).answer is Reach.ASKS
    for text in ("127.0.0.1:80", "169.254.169.254:80", "10.0.0.1:22", "[::1]:80"):
        assert found.decide(read_authority(text)).answer is Reach.REFUSED


FORBIDDEN = {
    ("example.com", "10.0.0.7", 443): "private",
    ("example.com", "127.0.0.1", 443): "loopback",
    ("example.com", "169.254.169.254", 443): "credentials",
    ("10.0.0.7:22", "10.0.0.7", 443): "private",
    ("10.0.0.7:22", "10.0.0.8", 22): "private",
    ("0.0.0.0/1:443", "127.0.0.1", 443): "loopback",
    ("0.0.0.0/1:443", "10.0.0.1", 443): "private",
    ("0.0.0.0:443", "0.0.0.0", 443): "not a machine's address",
    ("224.0.0.1:443", "224.0.0.1", 443): "multicast",
    ("[2002::/16]:443", "2002:7f00:1::", 443): "disguise",
}


@pytest.mark.parametrize(("place", "address", "port"), FORBIDDEN)
def test_an_address_that_is_not_the_internets_needs_its_own_line(place, address, port):
    wrong = listing(place).forbid(ipaddress.ip_address(address), port, nobody)
    assert FORBIDDEN[place, address, port] in str(wrong)


@pytest.mark.parametrize(
    ("place", "address"),
    [("10.0.0.7:22", "10.0.0.7"), ("10.0.0.0/8:22", "10.0.0.7"), ("127.0.0.1:22", "127.0.0.1"), ("[::1]:22", "::1")],
)
def test_an_address_that_is_listed_itself_is_dialled_whichever_name_led_to_it(place, address):
    assert listing("pi.example:22", place).forbid(ipaddress.ip_address(address), 22, nobody) is None


def test_the_hosts_own_address_needs_a_line_for_it_alone():
    own = ipaddress.ip_address("192.168.1.5")
    assert "this machine itself" in str(listing("192.168.1.0/24:22").forbid(own, 22, everybody))
    assert listing("192.168.1.5:22").forbid(own, 22, everybody) is None
    assert listing("127.0.0.0/8:22").forbid(ipaddress.ip_address("127.0.0.9"), 22, everybody) is None
