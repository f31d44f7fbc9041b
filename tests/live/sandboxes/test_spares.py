"""Sandboxes kept ready, with real ones."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from crabpot.sandboxes import private_folders
from crabpot.sandboxes.spares import PREFIX
from tests.support.suites import open_gateway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from crabpot.gateway import Gateway

WARM = "{ agents: { defaults: { sandbox: { warm: 2 } } } }"


@asynccontextmanager
async def warm_gateway(
    state: Path, count: int = 2, *, text: str = WARM, by_default: bool = False
) -> AsyncIterator[Gateway]:
    gateway = open_gateway(text, str(state))
    try:
        gateway.execution.spare_by_default = by_default
        gateway.execution.warm_up(gateway.settings)
        async with asyncio.timeout(30):
            while gateway.execution.opener.spares.count() < count:
                await asyncio.sleep(0.01)
        yield gateway
    finally:
        await gateway.close()


def folders(state: Path) -> set[str]:
    return {entry.name for entry in (state / private_folders.FOLDER).iterdir()}


def test_a_first_call_takes_a_spare_and_its_folder(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with warm_gateway(tmp_path) as gateway:
            waiting = {name for name in folders(tmp_path) if not name.endswith(".json")}
            assert len(waiting) == 2
            inodes = {(tmp_path / private_folders.FOLDER / name).stat().st_ino for name in waiting}
            result = await gateway.call("agent:main:first", "exec", command="echo kept > note; cat note")
            assert result.stdout == "kept\n"
            own = [
                name for name in folders(tmp_path) if name.startswith("crabpot-agent-main-first") and "json" not in name
            ]
            assert (tmp_path / private_folders.FOLDER / own[0]).stat().st_ino in inodes

    asyncio.run(scenario())


def test_a_session_that_has_a_folder_finds_its_files_again_and_takes_no_spare(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with warm_gateway(tmp_path) as gateway:
            await gateway.call("agent:main:again", "write", path="note", content="kept")
        async with warm_gateway(tmp_path) as gateway:
            result = await gateway.call("agent:main:again", "read", path="note")
            assert result.data is not None
            assert result.data["content"] == "kept"
            assert gateway.execution.opener.spares.count() == 2

    asyncio.run(scenario())


def test_two_sessions_never_get_the_same_spare(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with warm_gateway(tmp_path) as gateway:
            calls = [
                gateway.call(f"agent:main:{n}", "exec", command=f"echo {n} > mine; sleep 0.1; cat mine") for n in "abcd"
            ]
            results = await asyncio.gather(*calls)
            assert [result.stdout for result in results] == ["a\n", "b\n", "c\n", "d\n"]

    asyncio.run(scenario())


def test_a_spare_that_died_is_not_given_out_and_leaves_no_folder(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with warm_gateway(tmp_path) as gateway:
            dead = folders(tmp_path)
            for waiting in gateway.execution.opener.spares._ready.values():
                for spare in waiting:
                    spare.wire.lose("killed by the test")
            result = await gateway.call("agent:main:x", "exec", command="echo alive")
            assert result.stdout == "alive\n"
            async with asyncio.timeout(30):
                while folders(tmp_path) & dead:
                    await asyncio.sleep(0.01)

    asyncio.run(scenario())


def test_closing_leaves_nothing_of_the_spares(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with warm_gateway(tmp_path):
            pass
        assert folders(tmp_path) == set()

    asyncio.run(scenario())


def test_spares_of_a_gateway_that_died_are_swept_and_those_of_a_live_one_stay(tmp_path: Path) -> None:
    async def scenario() -> None:
        dead = tmp_path / private_folders.FOLDER / f"{PREFIX}0123456789abcdef"
        async with warm_gateway(tmp_path) as first:
            dead.mkdir()
            note = '{"scope_key": "x", "agent": "main", "created": 1}'
            dead.with_name(dead.name + ".json").write_text(note, encoding="utf-8")
            async with warm_gateway(tmp_path):
                assert not dead.exists()
                assert first.execution.opener.spares.count() == 2
                assert (await first.call("agent:main:y", "exec", command="echo here")).stdout == "here\n"

    asyncio.run(scenario())


def test_a_gateway_for_one_call_keeps_none_ready(tmp_path: Path) -> None:
    async def scenario() -> None:
        gateway = open_gateway(WARM, str(tmp_path))
        try:
            assert (await gateway.call("agent:main:once", "exec", command="echo one")).stdout == "one\n"
            assert gateway.execution.opener.spares.count() == 0
            assert not [name for name in folders(tmp_path) if name.startswith(PREFIX)]
        finally:
            await gateway.close()

    asyncio.run(scenario())


async def test_one_is_kept_for_each_configured_agent_that_does_not_say(tmp_path: Path) -> None:
    text = "{ agents: { entries: { ops: {}, none: { sandbox: { warm: 0 } }, away: { sandbox: { mode: 'off' } } } } }"
    async with warm_gateway(tmp_path, 2, text=text, by_default=True) as gateway:
        spares = gateway.execution.opener.spares
        assert {name: spares.count(name) for name in ("main", "ops", "none", "away")} == {
            "main": 1,
            "ops": 1,
            "none": 0,
            "away": 0,
        }
        assert (await gateway.call("agent:main:first", "exec", command="echo here")).stdout == "here\n"


async def test_a_spare_of_one_agent_is_never_given_to_another(tmp_path: Path) -> None:
    async with warm_gateway(tmp_path, 2, text="{ agents: { entries: { ops: {} } } }", by_default=True) as gateway:
        spares = gateway.execution.opener.spares
        main, ops = (spares._ready[family][0] for family in sorted(spares._ready))
        assert main.wanted.spec is not None
        assert ops.wanted.spec is not None
        assert main.wanted.spec.family == ops.wanted.spec.family
        assert (await gateway.call("agent:ops:first", "exec", command="true")).success
        assert (spares.count("main"), ops.agent, ops.key[1]) == (1, "ops", "agent:ops:first")
        # An agent that no entry names has the same settings, and opens its own.
        assert (await gateway.call("agent:other:first", "exec", command="true")).success
        assert spares._ready["main", main.wanted.spec.family] == [main]


async def test_spares_count_towards_the_limits_and_go_first(tmp_path: Path) -> None:
    text = "{ gateway: { maxSandboxes: 2 }, agents: { entries: { ops: {} } } }"
    async with warm_gateway(tmp_path, 2, text=text, by_default=True) as gateway:
        spares, fleet = gateway.execution.opener.spares, gateway.execution.fleet
        for name in ("one", "two"):
            assert (await gateway.call(f"agent:other:{name}", "exec", command="true")).success
        assert (len(fleet.listed()), spares.count()) == (2, 0)
        settings = gateway.settings.agent("ops")
        spec, _ = gateway.execution.describe(settings, "agent:ops")
        assert spares._wanted(spec, settings) == 0


async def test_a_spare_that_waited_for_too_long_is_ended(tmp_path: Path) -> None:
    async with warm_gateway(tmp_path, 1, text="{}", by_default=True) as gateway:
        await gateway.execution.reap(time.time())
        assert gateway.execution.opener.spares.count() == 1
        await gateway.execution.reap(time.time() + 25 * 3600)
        assert gateway.execution.opener.spares.count() == 0


async def test_where_memory_is_short_only_those_that_were_asked_for_are_kept(tmp_path: Path) -> None:
    text = "{ agents: { entries: { ops: { sandbox: { warm: 1 } } } } }"
    gateway = open_gateway(text, str(tmp_path))
    gateway.execution.spare_by_default = True
    spares = gateway.execution.opener.spares
    spares.least_memory_bytes = 1 << 60
    try:
        gateway.execution.warm_up(gateway.settings)
        await asyncio.gather(*spares._filling.values())
        assert (spares.count("main"), spares.count("ops")) == (0, 1)
    finally:
        await gateway.close()
