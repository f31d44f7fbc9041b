"""For a machine with systemd, cgroup v2 and AppArmor: `make test-vm` runs these, in each place where a gateway may run.

A place is where the process of the tests itself is: it is the gateway. Nothing here skips: what is missing fails.
"""

from __future__ import annotations

import json
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.guest.place import PLACE
from tests.support.suites import open_gateway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from pathlib import Path

LIMITS = {"memory": "96m", "cpus": 1.5, "pids": 40}


def pytest_configure(config: pytest.Config) -> None:
    """Refuse to run where nobody said what this place is."""
    del config
    if not PLACE:
        raise pytest.UsageError("these tests need the machine that `make test-vm` makes (CRABPOT_GUEST_PLACE)")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Give a state folder that root's sandboxes can reach as well."""
    if os.geteuid() == 0:
        for folder in (tmp_path, *tmp_path.parents[:2]):
            folder.chmod(0o711)
    return tmp_path / "state"


@pytest.fixture
def opened(state: Path) -> Callable[..., Any]:
    """Open a gateway with small limits for as long as a block lasts."""

    @asynccontextmanager
    async def make(limits: Mapping[str, Any] = {}, **sandbox: Any) -> AsyncIterator[Any]:
        config = {
            "agents": {"defaults": {"sandbox": {"backend": "bubblewrap", **sandbox, "limits": {**LIMITS, **limits}}}}
        }
        gateway = open_gateway(json.dumps(config), str(state))
        try:
            yield gateway
        finally:
            await gateway.close()

    return make
