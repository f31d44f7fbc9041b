"""What leaves the sandbox, on a machine with a real systemd: programs that read it work, an agent's Makefile reaches none of it."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.guest.place import KEY
from tests.guest.test_limits import SLOW_S
from tests.support.suites import open_gateway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

HOME = Path.home()
# Where the manager that may start programs for this user listens.
MANAGER = ["--system"] if os.geteuid() == 0 else ["--user"]
# What the seeds' patterns say, as they are written there.
PATTERNS = ["systemctl status *", "journalctl *", "make *"]


@asynccontextmanager
async def working_on(workspace: Path, state: Path) -> AsyncIterator[Any]:
    """Open a gateway whose agent writes a folder, and whose commands leave unasked."""
    workspace.mkdir()
    if os.geteuid() == 0:
        os.chown(workspace, 65534, 65534)
    elevated = {"enabled": True, "requireApproval": False, "patterns": PATTERNS}
    sandbox = {"backend": "bubblewrap", "workspaceAccess": "rw"}
    text = {
        "agents": {"defaults": {"workspace": str(workspace), "sandbox": sandbox}},
        "tools": {"elevated": elevated},
    }
    gateway = open_gateway(json.dumps(text), str(state))
    try:
        yield gateway
    finally:
        await gateway.close()


@pytest.fixture
def secret() -> Any:
    """Put a key where people keep theirs."""
    folder = HOME / ".ssh"
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / "id_of_a_test"
    path.write_text("key-of-the-person\n", encoding="utf-8")
    yield path
    path.unlink()


def succeed_outside(recipes: Iterable[str]) -> None:
    """Run each recipe as the person would."""
    for recipe in recipes:
        subprocess.run(["sh", "-c", recipe], check=True, timeout=SLOW_S, stdout=subprocess.DEVNULL)


async def test_what_reads_systemd_works_as_the_seeds_write_it(tmp_path: Path, state: Path) -> None:
    async with working_on(tmp_path / "work", state) as gateway:
        unit = await gateway.call(KEY, "exec", command="systemctl status ssh.service", timeout=SLOW_S)
        assert "Active: active (running)" in unit.stdout, unit
        lines = await gateway.call(KEY, "exec", command="journalctl --no-pager -n 3", timeout=SLOW_S)
        assert lines.success, lines
        assert lines.stdout.strip(), lines


async def test_a_makefile_reaches_neither_the_manager_nor_the_keys_nor_the_home(
    tmp_path: Path, state: Path, secret: Path
) -> None:
    """Outside, each of the three succeeds; from the guard none does, and the answer names what was missing."""
    planted = HOME / "planted-by-a-makefile"
    run = f"systemd-run {' '.join(MANAGER)} --wait --quiet touch {planted}"
    recipes = {"manager": run, "keys": f"cat {secret}", "home": f"touch {planted}"}
    succeed_outside(recipes.values())
    assert planted.exists()
    planted.unlink()
    async with working_on(tmp_path / "work", state) as gateway:
        made = "".join(f"{name}:\n\t@{recipe}\n" for name, recipe in recipes.items())
        written = await gateway.call(KEY, "write", path="Makefile", content=made)
        assert written.success, written
        told = {name: await gateway.call(KEY, "exec", command=f"make {name}", timeout=SLOW_S) for name in recipes}
    assert not planted.exists()
    assert [one.success for one in told.values()] == [False] * 3, told
    assert "key-of-the-person" not in str(told)
    assert "where the bus is absent" in str(told["manager"]), told["manager"]
    assert f"where {secret} is absent" in str(told["keys"]), told["keys"]
    assert "which may write" in str(told["home"]), told["home"]
