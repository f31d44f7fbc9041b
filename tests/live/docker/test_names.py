"""Whose container it is: names, labels, orphans and strangers on a real engine, and endings that are cut short."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from crabpot.backends.docker import owner, watchdog
from crabpot.backends.docker.engine import EngineRefused
from crabpot.errors import SandboxUnavailable
from tests.live.docker.live import backend, containers, derived_image, gateway, left_of, nothing_left, opened, spec_in
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from crabpot.backends.docker.engine import Engine


async def test_a_container_says_whose_it_is(engine: Engine, tmp_path: Path) -> None:
    spec = spec_in(tmp_path)
    box = await backend(engine, tmp_path).open(spec)
    try:
        found = (await containers(engine, f"{owner.HASH}={spec.hash}"))[0]
        assert found["Names"] == [f"/{spec.name}"]
        assert found["Labels"][owner.OWNER] == owner.own()
        assert found["Labels"][owner.SCOPE] == spec.scope_key
    finally:
        await box.close()
        await box.close()
    await nothing_left(engine, tmp_path)


async def test_a_cancelled_opening_leaves_nothing(engine: Engine, tmp_path: Path) -> None:
    made = backend(engine, tmp_path)
    await made.probe(spec_in(tmp_path))
    for delay_s in (0.0, 0.01, 0.03, 0.08, 0.15, 0.25, 0.35):
        task = asyncio.create_task(made.open(spec_in(tmp_path)))
        await asyncio.wait([task], timeout=delay_s)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await (await task).close()
        await nothing_left(engine, tmp_path)


async def stranger(engine: Engine, name: str, **labels: str) -> str:
    image = (await engine.get("/images/crabpot-sandbox:latest/json"))["Id"]
    body = {"Image": image, "Cmd": ["sleep", "300"], "Labels": labels, "HostConfig": {"Init": True, "AutoRemove": True}}
    made = await engine.post("/containers/create", {"name": name}, body=body)
    await engine.post(f"/containers/{made['Id']}/start")
    return str(made["Id"])


async def test_a_strangers_container_of_that_name_stays(engine: Engine, tmp_path: Path) -> None:
    spec = spec_in(tmp_path)
    theirs = await stranger(engine, spec.name)
    try:
        box = await backend(engine, tmp_path).open(spec)
        assert (await left_of(engine, tmp_path))[0].startswith(f"/{spec.name}-")
        await box.close()
        assert (await engine.get(f"/containers/{theirs}/json"))["State"]["Running"]
    finally:
        await engine.delete(f"/containers/{theirs}", {"force": "1"})


async def test_a_dead_gateways_container_makes_way(engine: Engine, tmp_path: Path) -> None:
    state = owner.state_label(str(tmp_path / "state"))
    made = backend(engine, tmp_path)
    await made.probe(spec_in(tmp_path))
    spec = spec_in(tmp_path)
    dead = f"{os.getpid()}:1:{owner.own().split(':')[2]}"
    theirs = await stranger(engine, spec.name, **{owner.OWNER: dead, owner.STATE: state})
    box = await made.open(spec)
    assert await left_of(engine, tmp_path) == [f"/{spec.name}"]
    assert box.container != theirs
    await box.close()


async def test_a_live_gateways_container_is_an_error(engine: Engine, tmp_path: Path) -> None:
    state = owner.state_label(str(tmp_path / "state"))
    with open("/proc/1/stat", "rb") as file:
        started = file.read().rpartition(b")")[2].split()[19].decode()
    spec = spec_in(tmp_path)
    alive = f"1:{started}:{owner.own().split(':')[2]}"
    theirs = await stranger(engine, spec.name, **{owner.OWNER: alive, owner.STATE: state})
    try:
        with pytest.raises(SandboxUnavailable, match="open in another gateway over the same state, process 1"):
            await backend(engine, tmp_path).open(spec)
    finally:
        await engine.delete(f"/containers/{theirs}", {"force": "1"})


async def test_our_own_that_is_on_its_way_out_gives_its_name_up(engine: Engine, tmp_path: Path) -> None:
    made, spec = backend(engine, tmp_path), spec_in(tmp_path)
    first = await made.open(spec)
    second = await made.open(spec)
    assert sorted(await left_of(engine, tmp_path)) == [f"/{spec.name}", f"/{spec.name}-{first.container[:8]}"]
    await asyncio.gather(first.close(), second.close())
    await nothing_left(engine, tmp_path)


async def test_orphans_of_this_state_are_reaped_on_start_and_no_others(engine: Engine, tmp_path: Path) -> None:
    state = owner.state_label(str(tmp_path / "state"))
    boot = owner.own().split(":")[2]
    labels = {
        "dead": {owner.OWNER: f"999999999:7:{boot}", owner.STATE: state},
        "rebooted": {owner.OWNER: f"{os.getpid()}:7:0", owner.STATE: state},
        "alive": {owner.OWNER: owner.own(), owner.STATE: state},
        "odd": {owner.OWNER: "somebody", owner.STATE: state},
        "elsewhere": {owner.OWNER: f"999999999:7:{boot}", owner.STATE: "another"},
        "strange": {},
    }
    made = {name: await stranger(engine, f"crabpot-test-{os.urandom(4).hex()}", **one) for name, one in labels.items()}
    try:
        await backend(engine, tmp_path).probe(spec_in(tmp_path))
        running = {one["Id"] for one in await engine.get("/containers/json")}
        assert {name for name, one in made.items() if one in running} == {"alive", "odd", "elsewhere", "strange"}
    finally:
        for one in await engine.get("/containers/json", {"all": "1"}):
            if one["Id"] in made.values():
                await engine.delete(f"/containers/{one['Id']}", {"force": "1"})


async def test_no_label_of_an_image_makes_its_containers_ours(engine: Engine, tmp_path: Path) -> None:
    """Containers inherit the labels of their image, and whoever publishes one can write any into it."""
    state = str(tmp_path / "state")
    boot = owner.own().split(":")[2]
    told = {"guessed": hashlib.sha256(state.encode()).hexdigest()[:16], "committed": owner.state_label(state)}
    for how, label in told.items():
        labels = f"LABEL {owner.STATE}={label} {owner.OWNER}=999999999:7:{boot}"
        async with derived_image(engine, "true", labels) as image:
            body = {"Image": image, "Cmd": ["sleep", "300"], "HostConfig": {"Init": True, "AutoRemove": True}}
            theirs = (await engine.post("/containers/create", body=body))["Id"]
            try:
                await engine.post(f"/containers/{theirs}/start")
                await backend(engine, tmp_path).probe(spec_in(tmp_path))
                assert (await engine.get(f"/containers/{theirs}/json"))["State"]["Running"], how
                if how == "committed":
                    await asyncio.to_thread(
                        watchdog.clean_up, engine.path, engine.version, f"999999999:7:{boot}", away_s=5.0
                    )
                    assert (await engine.get(f"/containers/{theirs}/json"))["State"]["Running"], "by the watchdog"
            finally:
                with contextlib.suppress(EngineRefused):
                    await engine.delete(f"/containers/{theirs}", {"force": "1"})


async def test_a_state_folder_has_one_random_word_whoever_asks_first(tmp_path: Path) -> None:
    state = str(tmp_path / "state")
    with ThreadPoolExecutor(16) as threads:
        words = set(threads.map(lambda _: owner.state_label(state), range(64)))
    assert len(words) == 1
    assert len(words.pop()) == 32
    assert owner.state_label(str(tmp_path / "other")) != owner.state_label(state)
    assert os.stat(f"{state}/docker/id").st_mode & 0o777 == 0o600


async def test_closing_is_bounded_where_the_engine_is_away(tmp_path: Path) -> None:
    from crabpot.backends.docker import removal
    from crabpot.backends.docker.engine import Engine

    async with asyncio.timeout(5):
        await removal.remove(Engine(str(tmp_path / "none.sock")), "x", longest_s=0.2)


async def test_a_watchdog_is_one_for_a_process(engine: Engine, tmp_path: Path) -> None:
    async with opened(engine, tmp_path), opened(engine, tmp_path):
        pass

    async def running() -> list[str]:
        found = []
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    with open(f"/proc/{name}/cmdline", "rb") as file:
                        words = file.read().split(b"\0")
                except OSError:
                    continue
                if owner.own().encode() in words and engine.path.encode() in words:
                    found.append(name)
        return found

    assert len(await until(running)) == 1


async def test_a_spare_gets_the_name_of_who_takes_it_and_keeps_its_place_in_the_state(
    engine: Engine, tmp_path: Path
) -> None:
    made = gateway(tmp_path, f"unix://{engine.path}", warm=1)
    try:
        made.execution.warm_up(made.settings)

        async def waits() -> bool:
            return made.execution.opener.spares.count() == 1

        await until(waits)
        assert (await left_of(engine, tmp_path))[0].startswith("/spare-")
        assert (await made.call("agent:main:first", "exec", {"command": "true"})).success

        async def renamed() -> bool:
            return any(name.startswith("/crabpot-agent-main-first-") for name in await left_of(engine, tmp_path))

        await until(renamed)
    finally:
        await made.close()
    await nothing_left(engine, tmp_path)
