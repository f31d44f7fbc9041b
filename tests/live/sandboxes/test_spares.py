"""Sandboxes kept ready, with real ones."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from crabpot import app
from crabpot.sandboxes import private_folders
from crabpot.sandboxes.spares import PREFIX

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from crabpot.gateway import Gateway

WARM = "{ agents: { defaults: { sandbox: { warm: 2 } } } }"


@asynccontextmanager
async def warm_gateway(state: Path, count: int = 2) -> AsyncIterator[Gateway]:
    gateway = app.start(config=None, state=str(state), environ=os.environ).gateway(WARM)
    try:
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
        gateway = app.start(config=None, state=str(tmp_path), environ=os.environ).gateway(WARM)
        try:
            assert (await gateway.call("agent:main:once", "exec", command="echo one")).stdout == "one\n"
            assert gateway.execution.opener.spares.count() == 0
            assert not [name for name in folders(tmp_path) if name.startswith(PREFIX)]
        finally:
            await gateway.close()

    asyncio.run(scenario())
