"""The host's own resolver and routes, for real."""

from __future__ import annotations

import ipaddress
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import crabpot
from crabpot.egress.dialling import Unreachable, dial
from crabpot.egress.resolving import SystemResolver, Unresolved
from crabpot.egress.routes import is_own

from .places import Server, serving

LOOPBACK = ipaddress.ip_address("127.0.0.1")


async def test_a_name_of_the_hosts_own_files_is_found_with_all_its_addresses():
    resolver = SystemResolver()
    try:
        found = await resolver.resolve("localhost")
        assert all(address.is_loopback for address in found)
        assert len(found) == len(set(found)) > 0
        with pytest.raises(Unresolved):
            await resolver.resolve("does-not-exist.invalid")
    finally:
        resolver.close()


@pytest.mark.parametrize(
    ("text", "own"), [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("198.51.100.77", False)]
)
def test_the_kernel_says_which_addresses_are_the_machines_own(text, own):
    assert is_own(ipaddress.ip_address(text)) is own


async def test_the_first_address_that_answers_is_taken():
    async with serving(Server()) as server:
        closed = ipaddress.ip_address("127.0.0.77")
        sock, address = await dial((closed, LOOPBACK), server.port)
        with sock:
            assert address == LOOPBACK
            assert sock.getpeername() == ("127.0.0.1", server.port)
        port = server.port
    with pytest.raises(Unreachable):
        await dial((LOOPBACK,), port)
    with pytest.raises(Unreachable):
        await dial((), port)


def test_names_that_nobody_answers_are_the_trouble_of_the_agent_that_asked(tmp_path):
    (tmp_path / "resolv.conf").write_text("nameserver 127.0.0.1\noptions timeout:30 attempts:5\n")
    (tmp_path / "hosts").write_text("127.0.0.9 listed.example\n")
    (tmp_path / "nsswitch.conf").write_text("hosts: files dns\n")
    source = os.path.dirname(os.path.dirname(crabpot.__file__))
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--net", "--mount", sys.executable, Path(__file__).with_name("silent.py"), tmp_path],
        env={**os.environ, "PYTHONPATH": source}, capture_output=True, timeout=60, check=True,
    )  # fmt: skip
    said = json.loads(done.stdout)
    assert said["found"] == ["127.0.0.9"]
    assert said["took_s"] < 5
