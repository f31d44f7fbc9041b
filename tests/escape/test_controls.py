"""The same attacks where a wall is missing: each claim is seen to fall. An attack that cannot succeed proves nothing."""

from __future__ import annotations

import ast
import asyncio
import json
import os
from functools import cache
from pathlib import Path

import pytest

import crabpot
from crabpot.errors import CrabpotError
from crabpot.proof.verify.catalogue import CLAIMS, chosen
from crabpot.proof.verify.run import carry_out, targets, verify
from tests.escape.walls import ON_THE_HOST, WALLS, Wall, without
from tests.support.backends import need
from tests.support.ordinary_user import as_ordinary_user
from tests.support.suites import open_gateway, run_suite

# All claims of a wall are tried at one opening without it, so they stay in one process.
CASES = [
    pytest.param(wall, name, id=f"{wall.name}-{name}", marks=pytest.mark.xdist_group(f"without {wall.name}"))
    for wall in WALLS
    for name in wall.falls.split()
]
HOST = ON_THE_HOST.split()
NEEDED = {
    "cannot_press_the_kernels_emergency_keys": "/proc/sysrq-trigger",
    "cannot_load_a_kernel_module_or_another_kernel": "/proc/modules",
}
SOURCE = Path(crabpot.__file__).parent

# A container's own filter would refuse what is to succeed here.
CONFINED = "Seccomp:\t0" not in Path("/proc/self/status").read_text(encoding="ascii")

pytestmark = pytest.mark.skipif(CONFINED, reason="these tests are themselves confined by a system call filter")


async def attack(wall: Wall, *names: str) -> dict[str, dict[str, str]]:
    async with without(wall) as target:
        return {claim.name: (await carry_out(claim, target)).as_json() for claim in chosen(names)}


@cache
def findings(name: str) -> dict[str, dict[str, str]]:
    wall = next(wall for wall in WALLS if wall.name == name)
    return asyncio.run(attack(wall, *wall.falls.split()))


def finding(wall: Wall, name: str) -> dict[str, str]:
    """Return what came of an attack; a test that is tried again attacks again."""
    return findings(wall.name).pop(name, None) or asyncio.run(attack(wall, name))[name]


@cache
def on_the_host() -> dict[str, dict[str, str]]:
    """As somebody who has something to gain by a setuid program."""
    if os.geteuid() == 0:
        return as_ordinary_user("unconfined", "host")
    return {line["name"]: line for line in asyncio.run(run_suite("unconfined", "host"))}


@pytest.mark.parametrize(("wall", "name"), CASES)
def test_a_claim_falls_without_its_wall(wall: Wall, name: str) -> None:
    need("bubblewrap")
    if wall.as_root and os.geteuid() != 0:
        pytest.skip("only root can make a sandbox whose root is the host's")
    if not os.path.exists(NEEDED.get(name, "/")):
        pytest.skip(f"this kernel was built without {NEEDED[name]}, so there is nothing to gain")
    found = finding(wall, name)
    assert found["state"] in ("broken", "degraded"), found["came_back"]


@pytest.mark.parametrize("name", HOST)
def test_a_claim_falls_where_there_is_no_sandbox(name: str) -> None:
    found = on_the_host()[name]
    assert found["state"] == "broken", found["told"]


def test_every_claim_has_a_control() -> None:
    controlled = [name for wall in WALLS for name in wall.falls.split()] + HOST
    assert sorted(controlled) == sorted(claim.name for claim in CLAIMS)


def test_nothing_in_the_program_makes_other_walls_than_the_ones_there_are() -> None:
    made = []
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
                given = {keyword.arg for keyword in node.keywords}
                made += (
                    [path.name]
                    if name == "Walls" or "walls" in given or (name == "prepare" and "runner" in given)
                    else []
                )
    assert made == []


def test_a_session_on_the_host_is_not_attacked_by_accident(tmp_path: Path) -> None:
    text = json.dumps({"agents": {"defaults": {"workspace": f"{tmp_path}/agent", "sandbox": {"mode": "off"}}}})

    async def refused() -> None:
        async with targets(lambda: open_gateway(text, f"{tmp_path}/state")) as target:
            with pytest.raises(CrabpotError, match="runs on the host"):
                await verify(target)

    asyncio.run(refused())
