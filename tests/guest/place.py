"""Where the gateway of these tests runs, and what the kernel says about its sandboxes there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crabpot.gateway import Gateway

# ssh: a login with a session · desktop: a terminal's scope · user-unit, system-unit, root-unit: with Delegate=yes ·
# root: a login of root's.
PLACE = os.environ.get("CRABPOT_GUEST_PLACE", "")
ROOT = Path("/sys/fs/cgroup")
KEY = "agent:main:x"
# What of a sandbox's group must be in its path, by place.
WITHIN = {
    "ssh": "/user@1000.service/app.slice/crabpot-",
    "desktop": "/user@1000.service/app.slice/crabpot-",
    "user-unit": "/user@1000.service/app.slice/crabpot-test.service/crabpot-",
    "system-unit": "/system.slice/crabpot-test.service/crabpot-",
    "root-unit": "/system.slice/crabpot-test.service/crabpot-",
    "root": "/crabpot/crabpot-",
}


def group_of(pid: int) -> Path:
    """Return the group of a process."""
    text = Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8")
    return ROOT / next(line[4:] for line in text.splitlines() if line.startswith("0::/"))


async def sandbox_of(gateway: Gateway) -> int:
    """Return the first process of the session's sandbox, opening it."""
    result = await gateway.call(KEY, "exec", command="true", timeout=120)
    assert result.success, result
    (live,) = gateway.execution.fleet.listed()
    assert live.sandbox.pid is not None
    return live.sandbox.pid


def gone(pid: int) -> bool:
    """Return whether a process has ended."""
    return not Path(f"/proc/{pid}").exists()
