"""The figures that are not contests of calls: large files, and whole commands."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING

from bench.contest import Entrant, contest, spawning
from bench.entrants import SESSION, seconds
from bench.figures import Comparison, Figure, Series
from crabpot.sandboxes.streams import Streams

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from crabpot.gateway import Gateway

_MIB = 1024**2


async def large_file(gateway: Gateway, size: int, rounds: int) -> list[Figure]:
    """Measure a large file in and out, as throughput, beside `cat` through a pipe."""
    inward, outward, pipes = [], [], []
    chunk = os.urandom(_MIB)

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(size // _MIB):
            yield chunk

    async def drop(_stream: str, _data: bytes) -> None:
        return

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "large")
        with open(path, "wb") as stream:
            stream.writelines(chunk for _ in range(size // _MIB))
        for _ in range(rounds):
            args = {"path": "large"}
            into = gateway.call(SESSION, "write", args, streams=Streams(source=pieces()))
            inward.append(size / _MIB / await seconds(into))
            args = {"path": "large", "encoding": "base64"}
            out = gateway.call(SESSION, "read", args, streams=Streams(sink=drop))
            outward.append(size / _MIB / await seconds(out))
            pipes.append(size / _MIB / _cat_seconds(path))
    other = Series(name="`cat` through a pipe", values=tuple(pipes), unit="MB/s")
    return [
        Figure(
            what=f"{size // _MIB} MB file {way}",
            ours=Series(name=way, values=tuple(values), unit="MB/s"),
            other=other,
            at_least=1 / 3,
        )
        for way, values in (("in", inward), ("out", outward))
    ]


def _cat_seconds(path: str) -> float:
    began = time.perf_counter()
    with subprocess.Popen(["cat", path], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        while process.stdout.read(256 * 1024):
            pass
    return time.perf_counter() - began


async def command_line(state: str, rounds: int, srt: Entrant | None) -> Comparison:
    """Measure whole commands, beside an interpreter that does nothing."""
    crabpot = [sys.executable, "-I", "-m", "crabpot", "--state", state]
    entrants = [
        Entrant(name="python3 -c pass", block=spawning([sys.executable, "-c", "pass"])),
        Entrant(name="crabpot --help", block=spawning([*crabpot, "--help"])),
        Entrant(name="crabpot explain", block=spawning([*crabpot, "explain"])),
        Entrant(name="crabpot exec true", block=spawning([*crabpot, "exec", "--", "true"])),
        *([] if srt is None else [srt]),
    ]
    series = await contest(entrants, rounds)
    return Comparison(id="commands", what="Whole commands", limit="python3 -c pass", series=series)
