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
from tests.support.places import Server, serving

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


# In namespaces of its own: a name server on the loopback that knows nothing but names below the search domain.
SEARCHING = r"""
import json, socket, sys, threading
from crabpot.egress.resolving import Unresolved, _look_up

server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 53))
asked = []

def serve():
    while True:
        query, sender = server.recvfrom(512)
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1 : at + 1 + query[at]].decode())
            at += 1 + query[at]
        question, name = query[12 : at + 5], ".".join(labels)
        asked.append(name)
        known = name.endswith(".evil.example") and question[-4:-2] == b"\0\1"
        answer = b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\x0a\6\6\6" if known else b""
        flags = b"\x81\x80" if name.endswith(".evil.example") else b"\x81\x83"
        server.sendto(query[:2] + flags + b"\0\1\0" + bytes((len(answer) > 0,)) + bytes(4) + question + answer, sender)

threading.Thread(target=serve, daemon=True).start()
found = {}
for name in ("ok.example", "intranet", "pi.lan", "pi"):
    try:
        found[name] = [str(one) for one in _look_up(name)]
    except Unresolved:
        found[name] = None
print(json.dumps({"found": found, "asked": sorted(set(asked))}))
"""


def test_a_name_is_never_looked_for_below_the_machines_search_domains(tmp_path):
    (tmp_path / "resolv.conf").write_text("nameserver 127.0.0.1\nsearch evil.example\noptions ndots:3\n")
    (tmp_path / "hosts").write_text("# pi.lan\n10.9.8.7\tPi.lan pi # the one\nfe80::1%eth0 pi\n10.9.8.8 pi.lan\n")
    (tmp_path / "nsswitch.conf").write_text("hosts: files dns\n")
    (tmp_path / "program.py").write_text(SEARCHING)
    mounts = " && ".join(
        f"mount --bind {tmp_path}/{name} $(realpath /etc/{name})" for name in ("resolv.conf", "hosts", "nsswitch.conf")
    )
    done = subprocess.run(
        [
            "unshare",
            "-Urnm",
            "sh",
            "-c",
            f"{mounts} && ip link set lo up && exec {sys.executable} {tmp_path}/program.py",
        ],
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH": str(Path(crabpot.__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    told = json.loads(done.stdout or "{}")
    assert told.get("found") == {
        "ok.example": None,
        "intranet": None,
        "pi.lan": ["10.9.8.7", "10.9.8.8"],
        "pi": ["10.9.8.7", "fe80::1"],
    }, done.stderr
    assert told["asked"] == ["intranet", "ok.example"]
