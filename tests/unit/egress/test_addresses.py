"""Public addresses are the internet's; everything else belongs to somebody nearer, by whatever form it is written."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crabpot.egress.addresses import beneath, special

PUBLIC = ("8.8.8.8", "1.1.1.1", "93.184.216.34", "2606:4700::1111", "2a00:1450::1", "64:ff9b::808:808")
SPECIAL = {
    "127.0.0.1": "loopback",
    "127.255.255.254": "loopback",
    "0.0.0.0": "not a machine's address",
    "10.1.2.3": "private",
    "172.16.0.1": "private",
    "172.31.255.255": "private",
    "192.168.1.1": "private",
    "169.254.169.254": "credentials",
    "100.64.0.1": "shared",
    "100.100.100.200": "shared",
    "192.0.0.192": "metadata",
    "168.63.129.16": "cloud",
    "224.0.0.1": "multicast",
    "255.255.255.255": "reserved",
    "198.18.0.1": "benchmarks",
    "203.0.113.7": "documentation",
    "::": "not a machine's address",
    "::1": "loopback",
    "::ffff:127.0.0.1": "loopback",
    "::ffff:169.254.169.254": "credentials",
    "::127.0.0.1": "disguise",
    "64:ff9b::7f00:1": "loopback",
    "64:ff9b::a9fe:a9fe": "credentials",
    "64:ff9b:1::7f00:1": "disguise",
    "2002:7f00:1::": "disguise",
    "2001:0:7f00:1::": "disguise",
    "fd00:ec2::254": "metadata",
    "fe80::1": "link-local",
    "fec0::1": "private",
    "ff02::1": "multicast",
    "2001:db8::1": "documentation",
    "100::1": "outside",
    "5f00::1": "outside",
}


@pytest.mark.parametrize("text", PUBLIC)
def test_public_addresses_are_public(text):
    assert special(ipaddress.ip_address(text)) is None


@pytest.mark.parametrize("text", SPECIAL)
def test_others_are_called_what_they_are(text):
    found = special(ipaddress.ip_address(text))
    assert found is not None
    assert SPECIAL[text] in found.what


@given(st.ip_addresses())
def test_nothing_that_python_knows_to_be_private_is_public(address):
    if special(address) is None:
        judged = beneath(address)
        assert judged.is_global
        assert not any((judged.is_multicast, judged.is_link_local, judged.is_loopback, judged.is_unspecified))


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_is_judged_alike_in_all_its_wrappings(address):
    for wrapping in ("::ffff:0:0", "64:ff9b::"):
        wrapped = ipaddress.IPv6Address(int(ipaddress.IPv6Address(wrapping)) | int(address))
        assert special(wrapped) == special(address)
