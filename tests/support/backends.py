"""Which backends this machine has: one that is missing skips its tests, or fails them where the run requires it."""

from __future__ import annotations

import asyncio
import os
import tempfile
from functools import cache

import pytest

from tests.support.suites import configured, open_gateway, plain_name


def required(backend: str) -> bool:
    """Return whether $CRABPOT_REQUIRE_BACKENDS names a backend."""
    return backend in os.environ.get("CRABPOT_REQUIRE_BACKENDS", "").replace(",", " ").split()


def of_a_lane() -> tuple[str, ...]:
    """Return the backends that only a lane of their own tries, where this is that lane."""
    return tuple(filter(required, ("kubernetes",)))


def skip_or_fail(backend: str, reason: str) -> None:
    """Skip on a laptop; fail where the backend is required."""
    if required(backend):
        pytest.fail(f"{backend} is required here and does not work: {reason}", pytrace=False)
    pytest.skip(f"{backend}: {reason}")


def engine_host() -> str:
    """Return the address of the tests' own engine, which must be on this machine."""
    host = os.environ.get("DOCKER_HOST", "")
    if not host.startswith("unix:///"):
        skip_or_fail(
            "docker", "DOCKER_HOST names no local engine: scripts/docker-engine start, then scripts/test-image"
        )
    return host


def need(backend: str) -> None:
    """Skip or fail where this machine cannot make a sandbox of a backend."""
    backend = plain_name(backend)
    if reason := unavailable(backend):
        skip_or_fail(backend, reason)


@cache
def unavailable(backend: str) -> str:
    """Return why this machine cannot make a sandbox, or nothing."""
    with tempfile.TemporaryDirectory() as folder:
        if os.geteuid() == 0:
            os.chmod(folder, 0o711)
        return asyncio.run(_why_not(configured(backend), f"{folder}/state"))


async def _why_not(text: str, state: str) -> str:
    gateway = open_gateway(text, state)
    try:
        result = await gateway.call("agent:main:probe", "exec", command="true")
        return "" if result.error is None else result.error.message
    finally:
        await gateway.close()
