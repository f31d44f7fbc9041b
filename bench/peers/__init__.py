"""What Crabpot is measured beside: one adapter for each peer, run in the peer's own interpreter."""

from __future__ import annotations

from bench.peers import (
    bare_bubblewrap,
    codex,
    docker_cli,
    docker_py,
    e2b_sdk,
    inspect_docker,
    kubectl_cli,
    llm_sandbox,
    nono,
    runsc,
    srt,
    swe_rex,
)
from bench.peers.peer import Peer

PEERS: tuple[Peer, ...] = tuple(
    Peer(
        name=adapter.NAME,
        file=str(adapter.__file__),
        packages=adapter.PACKAGES,
        npm=adapter.NPM,
        beyond=adapter.BEYOND,
    )
    for adapter in (
        *(bare_bubblewrap, docker_cli, docker_py, srt, codex, nono, runsc),
        *(swe_rex, llm_sandbox, inspect_docker, kubectl_cli, e2b_sdk),
    )
)
