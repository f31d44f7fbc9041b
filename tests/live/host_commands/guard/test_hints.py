"""Builds that a guard made fail: the result says what is absent and which setting adds it, and that setting does."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

IN_GUARD = "crabpot: it ran in a guard, "
ASK = "dbus-send {0} --print-reply --dest=org.freedesktop.DBus / org.freedesktop.DBus.ListNames"
OF = "of tools.elevated.patterns[0]"


async def made(machine: Any, recipe: str, **way: Any) -> tuple[int, str]:
    """Run `make` on a Makefile of the agent's; return its exit code, and the hint at the end of its errors."""
    (machine.workspace / "Makefile").write_text(f"all:\n\t{recipe}\n")
    reply = await machine.run("make", way=way)
    own, found, hint = reply.stderr.partition(IN_GUARD)
    assert reply.exit_code == 0 or own, "the program's own errors come first"
    return reply.exit_code, found + hint.rstrip("\n")


async def test_a_build_that_writes_into_the_home_is_told_which_places_it_may_write(machine: Any, home: Path) -> None:
    (home / "cache").mkdir()
    code, hint = await made(machine, f"touch {home}/cache/x")
    assert code == 2
    assert hint == (
        f"{IN_GUARD}which may write {machine.workspace}, a private /tmp; to add a place, name it in `writes` {OF}"
    )
    assert await made(machine, f"touch {home}/cache/x", writes=("~/cache",)) == (0, "")


@pytest.mark.parametrize("recipe", ["cat {0}/id_ed25519", "cd {0} && cat id_ed25519", "@ls {0}/id_*"])
async def test_a_build_that_reads_keys_is_told_that_they_are_absent(machine: Any, home: Path, recipe: str) -> None:
    ssh = home / ".ssh"
    code, hint = await made(machine, recipe.format(ssh))
    assert code == 2
    assert hint.startswith(f"{IN_GUARD}where {ssh}")
    assert hint.endswith(f"absent; name it in `credentials` {OF}")
    assert await made(machine, recipe.format(ssh), credentials=("~/.ssh",)) == (0, "")
    (home / ".ssh" / "id_ed25519").unlink()
    code, hint = await made(machine, recipe.format(ssh), credentials=("~/.ssh",))
    assert (code, hint) == (2, ""), "what is not on the host either is no matter of the guard"


@pytest.fixture
def bus(machine: Any, home: Path) -> Iterator[str]:
    """Return the socket of a real bus, which the machine's own environment names."""
    path = f"{machine.home}/bus"
    words = ["dbus-daemon", "--session", "--nofork", "--nopidfile", f"--address=unix:path={path}", "--print-address"]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as daemon:
        assert daemon.stdout is not None
        assert daemon.stdout.readline()
        # A client outside reaches it.
        subprocess.run(["sh", "-c", ASK.format(f"--bus=unix:path={path}")], check=True, capture_output=True)
        machine.host.environ = {**machine.host.environ, "TOKEN": f"unix:path={path}"}
        yield path
        daemon.kill()


async def test_a_build_that_talks_to_the_bus_is_told_that_it_is_absent(machine: Any, bus: str) -> None:
    for address in ("--session", "--bus=$(TOKEN)"):
        code, hint = await made(machine, ASK.format(address))
        assert code == 2
        assert hint.startswith(f"{IN_GUARD}where the bus is absent; name in `credentials` {OF} its socket")
    assert await made(machine, ASK.format("--bus=$(TOKEN)"), credentials=(bus,)) == (0, "")


@pytest.mark.parametrize(
    ("recipe", "named"),
    [
        ("systemctl --user status", "where the bus is absent"),
        ("busctl --user list", "where the bus is absent"),
        ("ssh-add -l", '"ssh" for the agent'),
        ("ls /run/none", "where /run/none is absent"),
    ],
)
async def test_a_build_that_needs_a_service_is_told_what_to_name(machine: Any, recipe: str, named: str) -> None:
    if not os.path.exists(f"/usr/bin/{recipe.split(maxsplit=1)[0]}"):
        pytest.skip(f"this machine has no {recipe.split(maxsplit=1)[0]}")
    code, hint = await made(machine, recipe)
    assert code == 2
    assert named in hint
