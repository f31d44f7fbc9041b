"""Folders under review with real sandboxes: who may hold a layer, what stops one, and what never happens to the host."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import tempfile
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from crabpot.doors import sandboxes as door
from crabpot.errors import LayerBusy
from crabpot.layers import content, stamps
from crabpot.layers.store import LayerStore
from crabpot.sandboxes import under_review
from tests.support.suites import open_gateway
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from crabpot.gateway import Gateway
    from crabpot.layers.layer import Layer
    from crabpot.model import ToolResult

ONE, TWO = "agent:main:one", "agent:main:two"
WHO = ("-c", "user.name=x", "-c", "user.email=x@y")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    (made / "sub").mkdir(parents=True)
    (made / "file").write_text("the host's\n")
    (made / "sub" / "inner").write_text("inner\n")
    return made


@pytest.fixture
def below_tmp() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="crabpot-review-") as made:
        os.chmod(made, 0o755)
        yield Path(made)


@asynccontextmanager
async def opened(folder: Path, tools: dict[str, Any] | None = None, **sandbox: Any) -> AsyncIterator[Gateway]:
    settings = {"workspace": "review", "backend": "bubblewrap", **sandbox}
    defaults = {"workspace": str(folder / "project"), "sandbox": settings}
    text = json.dumps({"agents": {"defaults": defaults}, "tools": tools or {}})
    gateway = open_gateway(text, str(folder / "state"))
    try:
        yield gateway
    finally:
        await gateway.close()


async def run(gateway: Gateway, command: str, session: str = ONE) -> ToolResult:
    return await gateway.call(session, "exec", command=command)


def git(*words: str, at: Path) -> str:
    quiet = {"GIT_CONFIG_GLOBAL": "/dev/null", "PATH": "/usr/bin:/bin"}
    argv = ["git", "-C", str(at), *WHO, *words]
    return subprocess.run(argv, env=quiet, check=True, capture_output=True, text=True).stdout


def layer_of(folder: Path, session: str = ONE) -> Layer:
    found = LayerStore(str(folder / "state")).find(session)
    assert found is not None
    return found


async def test_a_folder_of_whoever_runs_the_gateway_is_below_an_overlay(tmp_path: Path, project: Path) -> None:
    # For root that is a folder of root's, shown as the sandbox's user's: another one could not be changed at all.
    async with opened(tmp_path) as gateway:
        done = await run(gateway, "echo more >> file; rm sub/inner; mv sub other; stat -c %U file; cat file")
        assert done.stdout == "agent\nthe host's\nmore\n", done
        assert layer_of(tmp_path).mechanism == "overlay"
    assert (project / "file").read_text() == "the host's\n"
    assert (project / "sub" / "inner").exists()


async def test_a_folder_with_odd_characters_is_shown_at_its_own_path(tmp_path: Path) -> None:
    place = tmp_path / "a,b:c\\d e"
    (place / "project").mkdir(parents=True)
    (place / "project" / "file").write_text("odd\n")
    async with opened(place, workspaceAt="same") as gateway:
        done = await run(gateway, "pwd; cat file; echo new > made")
        assert done.stdout == f"{place}/project\nodd\n", done
        assert layer_of(place).mechanism == "overlay"
    assert os.listdir(place / "project") == ["file"]


async def test_a_layer_is_held_by_one_gateway_at_a_time(
    tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(under_review, "START_S", 0.2)
    async with opened(tmp_path) as first:
        assert (await run(first, "echo mine > note")).success
        async with opened(tmp_path) as second:
            refused = await run(second, "cat note")
            assert refused.error is not None
            assert refused.error.code == "sandbox_unavailable"
            assert "in use" in refused.error.message
            # Another session's layer is its own.
            assert (await run(second, "test ! -e note", TWO)).success
    async with opened(tmp_path) as third:
        assert (await run(third, "cat note")).stdout == "mine\n"


async def test_a_layer_is_released_while_nothing_runs_and_not_before(tmp_path: Path, project: Path) -> None:
    store = LayerStore(str(tmp_path / "state"))
    async with opened(tmp_path) as gateway:
        await run(gateway, "echo mine > note")
        with pytest.raises(LayerBusy), store.hold(layer_of(tmp_path)):
            pass
        await gateway.execution.release_layer(ONE)
        with store.hold(layer_of(tmp_path)):
            assert stamps.mounts(layer_of(tmp_path).path)[-1].closed_ns is not None
        await gateway.call(ONE, "exec", command="sleep 60", background=True)
        with pytest.raises(LayerBusy, match="something runs"):
            await gateway.execution.release_layer(ONE)
        (running,) = (await gateway.call(ONE, "process", action="list")).data["processes"]
        await gateway.call(ONE, "process", action="kill", id=running["id"])
        await gateway.call(ONE, "process", action="wait", id=running["id"])
        await gateway.execution.release_layer(ONE)
        with store.hold(layer_of(tmp_path)):
            pass


@pytest.mark.parametrize("moved", ["replaced", "gone"])
async def test_a_folder_that_moved_stops_the_session_and_nothing_is_lost(
    tmp_path: Path, project: Path, moved: str
) -> None:
    async with opened(tmp_path) as gateway:
        await run(gateway, "echo precious > note")
    project.rename(tmp_path / "elsewhere")
    if moved == "replaced":
        project.mkdir()
    async with opened(tmp_path) as gateway:
        refused = await run(gateway, "cat note")
        assert refused.error is not None
        assert refused.error.code == "sandbox_unavailable"
        assert str(project) in refused.error.message
    if moved == "replaced":
        project.rmdir()
    (tmp_path / "elsewhere").rename(project)
    async with opened(tmp_path) as gateway:
        assert (await run(gateway, "cat note")).stdout == "precious\n"


async def test_a_layer_that_was_tampered_with_is_a_clear_answer(tmp_path: Path, project: Path) -> None:
    async with opened(tmp_path) as gateway:
        await run(gateway, "echo precious > note")
    record = os.path.join(layer_of(tmp_path).path, "layer.json")
    with open(record, "w", encoding="utf-8") as file:
        file.write("{")
    async with opened(tmp_path) as gateway:
        refused = await run(gateway, "cat note")
        assert refused.error is not None
        assert refused.error.code == "sandbox_unavailable"
        assert "cannot be read" in refused.error.message
    assert os.path.exists(os.path.join(os.path.dirname(record), "upper", "note"))


async def test_a_layer_beyond_the_disk_limit_is_not_opened_again(tmp_path: Path, project: Path) -> None:
    async with opened(tmp_path) as gateway:
        await run(gateway, "head -c 3000000 /dev/urandom > large")
    async with opened(tmp_path, limits={"disk": "2m"}) as gateway:
        refused = await run(gateway, "true")
        assert refused.error is not None
        assert "limits.disk" in refused.error.message
        assert "crabpot changes" in refused.error.message


async def test_commits_on_no_branch_arrive_too(tmp_path: Path, project: Path) -> None:
    for words in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-qm", "first")):
        git(*words, at=project)
    commit = f"git {' '.join(WHO)} commit -q --allow-empty -m"
    work = f"""set -e
git checkout -q --detach; {commit} tagged; git {" ".join(WHO)} tag -a v1 -m v1; git tag of-a-tree HEAD^{{tree}}
git checkout -q main; {commit} second; git tag on-main; git checkout -q --detach; {commit} third"""
    async with opened(tmp_path) as gateway:
        assert (await run(gateway, work)).success
        review = gateway.review()
        told = (await review.listed(layer_of(tmp_path)))["commits"]
        assert [(one["branch"], one["count"]) for one in told] == [("main", 1), ("detached-HEAD", 1), ("tag-v1", 1)]
        names = (await review.apply(layer_of(tmp_path)))["branches"]
    shown = git("log", "--no-walk=unsorted", "--format=%s", *names, at=project)
    assert shown.split() == ["second", "third", "tagged"]


async def test_a_layer_that_outgrows_the_disk_limit_ends_its_sandbox(tmp_path: Path, project: Path) -> None:
    # A folder that nobody may list hides nothing.
    flood = "mkdir deep; cd deep; exec 9> f; chmod 0 .; while :; do head -c 500000 /dev/urandom >&9; sleep 0.1; done"
    async with opened(tmp_path, limits={"disk": "2m"}) as gateway:
        assert (await run(gateway, "head -c 1000000 /dev/urandom > allowed")).success
        ended = await run(gateway, flood)
        assert ended.error is not None
        assert (ended.error.code, "limits.disk" in ended.error.message) == ("disk_limit", True)
        refused = await run(gateway, "true")
        assert refused.error is not None
        assert "limits.disk" in refused.error.message
        review = gateway.review()
        await review.discard(layer_of(tmp_path))
        assert (await run(gateway, "ls")).stdout == "file\nsub\n"


async def test_a_flooded_layer_is_discarded_at_once_though_its_sandbox_is_still_ending(
    tmp_path: Path, project: Path
) -> None:
    async with opened(tmp_path, limits={"disk": "2m"}) as gateway:
        ended = await run(gateway, "while :; do head -c 500000 /dev/urandom >> f; sleep 0.1; done")
        assert ended.error is not None
        assert ended.error.code == "disk_limit"
        await gateway.review().discard(layer_of(tmp_path))
        assert (await run(gateway, "ls")).stdout == "file\nsub\n"


async def test_what_runs_in_the_background_outgrows_no_limit_either(tmp_path: Path, project: Path) -> None:
    flood = "while :; do head -c 500000 /dev/urandom >> f; sleep 0.1; done"
    async with opened(tmp_path, limits={"disk": "2m"}) as gateway:
        assert (await gateway.call(ONE, "exec", command=flood, background=True)).success
        await until(lambda: not gateway.execution.fleet.listed(), 60)
        assert layer_of(tmp_path).mechanism == "overlay"


async def test_unseen_changes_are_never_pruned_and_a_warning_says_so(tmp_path: Path, project: Path) -> None:
    async with opened(tmp_path) as gateway:
        await run(gateway, "echo precious > note")
        await run(gateway, "true", TWO)
        await gateway.execution.release_layer(ONE)
        await gateway.execution.release_layer(TWO)
        state, settings, later = str(tmp_path / "state"), gateway.settings, time.time() + 30 * 86400
        assert under_review.prune(state, settings, now=later) == [LayerStore(state).path_of(TWO).rpartition("/")[2]]
        (left,) = under_review.unseen(state, settings, now=later)
        assert left.scope_key == ONE
        for name in (content.SEEN, "lock"):
            with open(os.path.join(left.path, name), "a", encoding="utf-8"):
                pass
        os.utime(os.path.join(left.path, "lock"), (1, 1))
        assert door.unseen(state, settings) == []
        assert door.prune(state, settings, now=later) == [left.name]
        assert LayerStore(state).all() == []


async def test_a_command_that_would_look_at_the_hosts_folder_is_refused(tmp_path: Path, project: Path) -> None:
    elevated = {"enabled": True, "patterns": ["uptime", "touch *"], "requireApproval": False}
    async with opened(tmp_path, {"elevated": elevated}) as gateway:
        refused = await run(gateway, "touch planted")
        assert refused.error is not None
        assert refused.error.code == "denied"
        assert "apply first" in refused.error.message
        left = await run(gateway, "uptime")
        assert left.place.value == "host", left
        assert left.success, left
    assert sorted(os.listdir(project)) == ["file", "sub"]
    assert not os.listdir(tmp_path / "state" / "empty")


async def test_a_sandbox_killed_with_its_gateway_leaves_a_layer_that_opens(tmp_path: Path, project: Path) -> None:
    async with opened(tmp_path) as gateway:
        await run(gateway, "echo kept > note")
        (live,) = gateway.execution.fleet.listed()
        assert live.sandbox.pid is not None
        os.kill(live.sandbox.pid, 9)
        async with asyncio.timeout(20):
            while not live.lost:
                await asyncio.sleep(0.01)
        assert (await run(gateway, "cat note")).stdout == "kept\n"


async def test_a_remount_is_of_the_overlay_alone_whatever_the_agent_put_in_its_place(below_tmp: Path) -> None:
    # The folders on the way are the agent's there, and one that holds a mount can be renamed.
    place, project = below_tmp, below_tmp / "project"
    project.mkdir()
    first = str(place).split("/")[2]
    swap = f"cd /; mv /tmp/{first} /tmp/moved && mkdir -p {place} && ln -s / {project} && ls -d {project}/usr"
    mounts = """awk '$5 == "/" || $5 == "/tmp"' /proc/self/mountinfo"""
    async with opened(place, workspaceAt="same") as gateway:
        before = await run(gateway, mounts)
        assert (await run(gateway, swap)).success
        (live,) = gateway.execution.fleet.listed()
        assert await live.sandbox.remount() is False
        await gateway.call(ONE, "exec", command=f"rm {project}; ln -s /tmp {project}", cwd="/tmp")
        assert await live.sandbox.remount() is False
        after = await gateway.call(ONE, "exec", command=mounts, cwd="/tmp")
        assert after.stdout == before.stdout
        assert " ro," in after.stdout
        assert "noexec" in after.stdout


async def test_git_pushes_what_was_committed_in_a_layer_and_the_hosts_repository_stays(
    tmp_path: Path, project: Path
) -> None:
    remote = tmp_path / "remote.git"
    remote.mkdir()
    git("init", "-q", "--bare", at=remote)
    git("init", "-q", "-b", "main", at=project)
    git("remote", "add", "origin", str(remote), at=project)
    git("add", ".", at=project)
    git("commit", "-qm", "first", at=project)
    before = git("rev-parse", "main", at=project)
    elevated = {"enabled": True, "patterns": ["git push *"], "requireApproval": False}
    async with opened(tmp_path, {"elevated": elevated}) as gateway:
        done = await run(gateway, f"echo more >> file; git {' '.join(WHO)} commit -qam second; git rev-parse main")
        assert done.success, done
        pushed = await run(gateway, "git push origin main")
        assert pushed.success, pushed
        assert pushed.place.value == "host"
    assert git("rev-parse", "main", at=remote) == done.stdout
    assert git("rev-parse", "main", at=project) == before
    assert git("status", "--porcelain", at=project) == ""
