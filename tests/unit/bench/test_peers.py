"""A peer in a process of its own: asked, measured, failing, silent and ended."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from bench import peers
from bench.peers.peer import Peer, PeerFailed

ADAPTER = """
import os, time
class Adapter:
    def start(self):
        print("hello from a library")
        {start}
        open({mark!r}, "w").close()
        return "1.2"
    async def open(self):
        return "made"
    def shut(self, made):
        assert made == "made"
        time.sleep(0.05)
    def exec(self):
        {exec}
    def stop(self):
        os.unlink({mark!r})
"""


@pytest.fixture
def peer_of(tmp_path):
    def make(*, start="pass", exec_="time.sleep(0.001)", packages=()):
        file = tmp_path / "adapter.py"
        file.write_text(ADAPTER.format(start=start, exec=exec_, mark=str(tmp_path / "kept")), encoding="utf-8")
        return Peer(name="fake", file=str(file), packages=packages, npm=(), beyond="nothing")

    return make


async def test_a_peer_is_measured_and_leaves_nothing(peer_of, tmp_path):
    running = await peer_of().start(str(tmp_path), os.environ)
    try:
        assert (running.version, running.can) == ("1.2", ("open", "exec"))
        assert (tmp_path / "kept").exists()
        values = await running.measure("exec", 3)
        assert len(values) == 3
        assert all(value >= 0.001 for value in values)
        assert max(await running.measure("open", 2)) < 0.05, "ending what was opened does not count"
    finally:
        await running.end()
    assert not (tmp_path / "kept").exists()


async def test_a_peer_whose_benchmark_died_removes_what_it_made(peer_of, tmp_path):
    running = await peer_of().start(str(tmp_path), os.environ)
    running._process.stdin.close()
    assert await asyncio.wait_for(running._process.wait(), 10) == 0
    assert not (tmp_path / "kept").exists()


async def test_why_a_peer_cannot_run_is_told(peer_of, tmp_path):
    with pytest.raises(PeerFailed, match="OSError: no engine here"):
        await peer_of(start='raise OSError("no engine\\n here")').start(str(tmp_path), os.environ)


async def test_a_measurement_that_fails_leaves_the_peer_to_be_ended(peer_of, tmp_path):
    running = await peer_of(exec_="raise ValueError('broken')").start(str(tmp_path), os.environ)
    with pytest.raises(PeerFailed, match="broken"):
        await running.measure("exec", 1)
    await running.end()
    assert not (tmp_path / "kept").exists()


async def test_a_peer_that_dies_is_a_failure_and_no_wait(peer_of, tmp_path):
    running = await peer_of(exec_="os._exit(3)").start(str(tmp_path), os.environ)
    with pytest.raises(PeerFailed, match="no answer"):
        await running.measure("exec", 1)
    await running.end()


async def test_a_peer_that_was_not_installed_says_what_does_that(peer_of, tmp_path):
    with pytest.raises(PeerFailed, match="make bench"):
        await peer_of(packages=("docker==7.2.*",)).start(str(tmp_path), os.environ)


def test_every_peer_says_what_it_does_that_crabpot_does_not_and_none_shares_an_environment():
    assert len(peers.PEERS) == 12
    assert all(peer.beyond and Path(peer.file).exists() for peer in peers.PEERS)
    assert len({peer.home("/cache") for peer in peers.PEERS}) == 12
