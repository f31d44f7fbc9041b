"""Private folders: noted once, held while in use, and gone when they are stale."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import time
from dataclasses import replace

import pytest

from crabpot.errors import SandboxUnavailable
from crabpot.sandboxes import private_folders
from crabpot.settings import Prune
from crabpot.spec.build import build

HOUR, DAY = 3600, 86400


@pytest.fixture
def state(tmp_path):
    return str(tmp_path / "state")


@pytest.fixture
def spec_of(agent_of, around):
    return lambda key="agent:main:one": build(agent_of("{}"), key, around)


def folder_of(state, spec, *files):
    path = os.path.join(state, private_folders.FOLDER, spec.name)
    os.makedirs(path, exist_ok=True)
    for name in files:
        with open(os.path.join(path, name), "w") as stream:
            stream.write("the agent's")
    return path


async def test_a_hold_notes_whose_folder_it_is(state, spec_of):
    spec = spec_of()
    held = await private_folders.hold(state, spec, "main")
    (kept,) = private_folders.listed(state)
    assert (kept.name, kept.scope_key, kept.agent) == (spec.name, "agent:main:one", "main")
    assert kept.folder == os.path.join(state, "sandboxes", spec.name)
    assert abs(kept.created - time.time()) < 60
    assert os.stat(os.path.join(state, "sandboxes")).st_mode & 0o777 == 0o700
    assert os.stat(kept.folder + ".json").st_mode & 0o777 == 0o600
    held.release()
    held.release()


async def test_a_second_hold_keeps_the_day_on_which_it_was_made(state, spec_of):
    spec = spec_of()
    (await private_folders.hold(state, spec, "main")).release()
    (first,) = private_folders.listed(state)
    os.utime(first.folder + ".json", (0, 0))
    (await private_folders.hold(state, spec, "main")).release()
    (second,) = private_folders.listed(state)
    assert second.created == first.created
    assert second.used > time.time() - 60


async def test_many_that_hold_at_once_write_one_whole_note(state, spec_of):
    spec = spec_of()
    holds = await asyncio.gather(
        *(asyncio.to_thread(asyncio.run, private_folders.hold(state, spec, "main")) for _ in range(16))
    )
    assert len(list(private_folders.listed(state))) == 1
    assert os.listdir(os.path.join(state, "sandboxes")) == [spec.name + ".json"]
    for held in holds:
        held.release()


async def test_a_folder_that_is_held_is_not_removed(state, spec_of):
    spec = spec_of()
    folder = folder_of(state, spec, "file")
    held = await private_folders.hold(state, spec, "main")
    assert private_folders.remove(state, lambda _: True) == []
    assert os.path.isdir(folder)
    held.release()
    assert [kept.name for kept in private_folders.remove(state, lambda _: True)] == [spec.name]
    assert os.listdir(os.path.join(state, "sandboxes")) == []


async def test_a_hold_waits_for_a_removal_and_then_notes_afresh(state, spec_of):
    spec = spec_of()
    (await private_folders.hold(state, spec, "main")).release()
    note = os.path.join(state, "sandboxes", spec.name + ".json")
    remover = os.open(note, os.O_RDWR)
    fcntl.flock(remover, fcntl.LOCK_EX)
    waiting = asyncio.create_task(private_folders.hold(state, spec, "main"))
    for _ in range(5):
        await asyncio.sleep(0.01)
    assert not waiting.done()
    os.unlink(note)
    os.close(remover)
    held = await waiting
    assert os.path.exists(note)
    assert private_folders.remove(state, lambda _: True) == []
    held.release()


async def test_holding_and_removing_at_once_never_leaves_a_held_folder_without_its_note(state, spec_of):
    spec = spec_of()
    stop = False

    def keep_removing():
        while not stop:
            private_folders.remove(state, lambda _: True)

    remover = asyncio.create_task(asyncio.to_thread(keep_removing))
    try:
        for _ in range(200):
            held = await private_folders.hold(state, spec, "main")
            folder_of(state, spec)
            assert len(list(private_folders.listed(state))) == 1
            held.release()
    finally:
        stop = True
        await remover


async def test_only_the_stale_are_pruned_each_by_its_agents_settings(state, spec_of, load_text):
    settings = load_text(
        "{agents: {defaults: {sandbox: {prune: {idleHours: 1, maxAgeDays: 2}}},"
        " entries: {ops: {sandbox: {prune: {idleHours: 100, maxAgeDays: 100}}}}}}"
    )
    now = time.time()
    cases = {
        "agent:main:fresh": ("main", 0, 0),
        "agent:main:idle": ("main", 2 * HOUR, 2 * HOUR),
        "agent:main:old": ("main", 0, 3 * DAY),
        "agent:ops:idle": ("ops", 2 * HOUR, 3 * DAY),
        "agent:ops:ancient": ("ops", 0, 101 * DAY),
    }
    for key, (agent, idle, age) in cases.items():
        spec = spec_of(key)
        folder_of(state, spec, "file")
        (await private_folders.hold(state, spec, agent)).release()
        note = os.path.join(state, "sandboxes", spec.name + ".json")
        with open(note, "w") as stream:
            json.dump({"scope_key": key, "agent": agent, "created": now - age}, stream)
        os.utime(note, (now - idle, now - idle))
    pruned = {kept.scope_key for kept in private_folders.prune(state, settings, now=now)}
    assert pruned == {"agent:main:idle", "agent:main:old", "agent:ops:ancient"}
    assert {kept.scope_key for kept in private_folders.listed(state)} == {"agent:main:fresh", "agent:ops:idle"}
    assert len(os.listdir(os.path.join(state, "sandboxes"))) == 4


@pytest.mark.parametrize(
    ("used", "made", "stale"),
    [(0, 0, False), (59 * 60, 0, False), (61 * 60, 0, True), (0, 2 * DAY - 1, False), (0, 2 * DAY + 1, True)],
)
def test_idle_or_old_is_stale(used, made, stale):
    prune = Prune(idle_hours=1, max_age_days=2)
    assert private_folders.is_stale(prune, used=-used, made=-made, now=0) is stale


async def test_what_an_interrupted_removal_left_goes_with_the_next_one(state, spec_of):
    spec = spec_of()
    left = os.path.join(state, "sandboxes", f"{spec.name}.0123abcd.gone")
    os.makedirs(os.path.join(left, "deep", "er"))
    assert private_folders.remove(state, lambda _: False) == []
    assert not os.path.exists(left)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"agent": "main"}', '{"scope_key": 1, "agent": 2, "created": "x"}']
)
def test_a_note_that_is_none_is_passed_over(state, text):
    os.makedirs(os.path.join(state, "sandboxes"))
    with open(os.path.join(state, "sandboxes", "crabpot-x-00000000.json"), "w") as stream:
        stream.write(text)
    assert list(private_folders.listed(state)) == []
    assert private_folders.remove(state, lambda _: True) == []


def test_a_state_that_was_never_used_keeps_nothing(state):
    assert list(private_folders.listed(state)) == []
    assert private_folders.remove(state, lambda _: True) == []


async def test_a_key_that_is_no_text_is_kept_as_it_is(state, spec_of):
    (await private_folders.hold(state, spec_of("caf\udce9\n"), "main")).release()
    assert [kept.scope_key for kept in private_folders.listed(state)] == ["caf\udce9\n"]


async def test_a_folder_in_which_nothing_was_written_goes_when_its_sandbox_ends(state, spec_of):
    for number in range(3):
        folder_of(state, spec_of(f"agent:main:{number}"), *["file"] * (number == 1))
        (await private_folders.hold(state, spec_of(f"agent:main:{number}"), "main")).release()
    assert [kept.scope_key for kept in private_folders.listed(state)] == ["agent:main:1"]
    assert len(os.listdir(os.path.join(state, "sandboxes"))) == 2
    folder_of(state, spec_of("agent:main:named-build 7"))
    (await private_folders.hold(state, spec_of("agent:main:named-build 7"), "main")).release()
    assert len(list(private_folders.listed(state))) == 2, "what a program named is found again by its name"


async def test_an_empty_folder_that_somebody_else_holds_stays(state, spec_of):
    folder = folder_of(state, spec_of())
    first, second = [await private_folders.hold(state, spec_of(), "main") for _ in range(2)]
    first.release()
    assert os.path.isdir(folder)
    assert len(list(private_folders.listed(state))) == 1
    second.release()
    assert os.listdir(os.path.join(state, "sandboxes")) == []


# Keys of other agents that have one name: 32 bits of a digest are a second's search.
COLLIDING = [
    ("agent:a-b:0123456789-0123456789ab20430", "agent:a:b-0123456789-0123456789ab158853"),
    ("agent:ops:0123456789-0123456789ab21673", "agent-ops-0123456789-0123456789ab139190"),
]


@pytest.mark.parametrize(("first", "second"), COLLIDING)
async def test_a_session_whose_name_was_made_to_collide_gets_neither_the_others_folder_nor_its_key(
    state, spec_of, first, second
):
    assert spec_of(first).name == spec_of(second).name
    held = await private_folders.hold(state, spec_of(first), "main")
    with pytest.raises(SandboxUnavailable, match="another key") as refused:
        await private_folders.hold(state, spec_of(second), "main")
    held.release()
    with pytest.raises(SandboxUnavailable, match="crabpot sandboxes list") as again:
        await private_folders.hold_alone(state, spec_of(second), "main")
    assert first not in f"{refused.value} {again.value}"


@pytest.mark.parametrize("workspace", ["none", "review"])
@pytest.mark.parametrize(("first", "second"), COLLIDING)
async def test_an_agent_that_squats_a_name_is_not_told_whose_it_is(bench, tmp_path, workspace, first, second):
    (tmp_path / "project").mkdir()
    text = '{agents: {defaults: {workspace: "%s", sandbox: {mode: "all", workspace: "%s"}}}}'
    async with bench(text % (tmp_path / "project", workspace)) as made:
        assert (await made.gateway.call(first, "write", path="mine", content="x")).success
        refused = await made.gateway.call(second, "ls")
        assert refused.error.code == "sandbox_unavailable"
        assert "belongs to another session" in refused.error.message
        assert first not in refused.error.message


async def test_a_folder_that_is_passed_on_takes_its_files_its_note_and_its_lock_along(state, spec_of):
    waiting, wanted = [
        replace(spec_of(key), workspace=f"{state}/sandboxes/{spec_of(key).name}") for key in ("a" * 90, "b")
    ]
    held = await private_folders.hold_alone(state, waiting, "main")
    inode = os.stat(folder_of(state, waiting, "file")).st_ino
    assert held.pass_on(wanted, "ops")
    (kept,) = private_folders.listed(state)
    assert (kept.name, kept.scope_key, kept.agent) == (wanted.name, "b", "ops")
    assert os.stat(kept.folder).st_ino == inode
    assert private_folders.remove(state, lambda _: True) == [], "nobody prunes what is in use"
    shared = await asyncio.wait_for(private_folders.hold(state, wanted, "ops"), 5)
    shared.release()
    held.release()
    assert [one.name for one in private_folders.remove(state, lambda _: True)] == [wanted.name]


@pytest.mark.parametrize("there", ["a folder", "a note"])
async def test_nothing_is_passed_on_over_what_a_session_has_already(state, spec_of, there):
    waiting, wanted = [replace(spec_of(key), workspace=f"{state}/sandboxes/{spec_of(key).name}") for key in ("a", "b")]
    held = await private_folders.hold_alone(state, waiting, "main")
    folder_of(state, waiting)
    other = None
    if there == "a folder":
        folder_of(state, wanted)
    else:
        other = await private_folders.hold(state, wanted, "main")
    assert not held.pass_on(wanted, "main")
    assert os.path.isdir(waiting.workspace), "the one that waits is still there for somebody else"
    (found,) = [kept for kept in private_folders.listed(state) if kept.name == waiting.name]
    assert found.folder == waiting.workspace
    for one in (held, other):
        if one is not None:
            one.release()
