"""A folder of this machine under review in a pod, and git of a pod's private folder: by way of the gateway alone."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any

from tests.support.suites import TOLD, open_gateway

if TYPE_CHECKING:
    from pathlib import Path

    from crabpot.gateway import Gateway
    from tests.cluster.conftest import Cluster

_COMMIT = "git -c user.name=a -c user.email=a@b commit -q"
# Of every kind, beside what a layer does not carry, and a link that leads to a file of the host's.
_CHANGES = f"""
printf more >> kept && rm gone && mkdir -p new/deep && printf new > new/deep/file && chmod 0700 program
ln -s /etc/passwd out && mkfifo fifo && printf x > locked && chmod 0 locked
{_COMMIT} -am second
"""


def git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", folder, *words], capture_output=True, text=True, check=True).stdout


def project(folder: Path) -> Path:
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "kept").write_text("kept")
    (folder / "gone").write_text("gone")
    (folder / "program").write_text("#!/bin/sh\n")
    git(folder, "add", "-A")
    git(folder, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "first")
    return folder


def configured(folder: Path, **more: Any) -> str:
    sandbox = {"mode": "all", "backend": "kubernetes", "workspace": "review", **TOLD["kubernetes"]}
    return json.dumps({"agents": {"defaults": {"workspace": str(folder), "sandbox": sandbox}}, **more})


async def run(gateway: Gateway, session: str, command: str, **args: Any) -> str:
    result = await gateway.call(session, "exec", {"command": command, **args})
    assert (result.exit_code, result.error) == (0, None), result
    return result.stdout


async def test_a_folder_is_complete_in_the_pod_and_its_changes_wait_here(cluster: Cluster, tmp_path: Path) -> None:
    folder, state = project(tmp_path / "project"), tmp_path / "state"
    session, text = f"agent:main:{os.urandom(4).hex()}", configured(tmp_path / "project")
    before = git(folder, "status", "--porcelain")
    gateway = open_gateway(text, str(state))
    try:
        assert await run(gateway, session, "git status --porcelain; cat kept") == "kept"
        await run(gateway, session, _CHANGES)
        review = gateway.review()
        layer = review.layer(session)
        assert layer is not None
        # The sandbox lives, and what its last call wrote is here.
        shown = await review.listed(layer)
        actions = {one["path"]: one["action"] for one in shown["files"]}
        assert shown["mechanism"] == "copy"
        assert actions["kept"] == "modified"
        assert (actions["gone"], actions["new/deep/file"], actions["out"]) == ("deleted", "added", "added")
        assert [one["count"] for one in shown["commits"]] == [1]
        assert git(folder, "status", "--porcelain") == before
        done = await review.apply(layer)
        assert {one["path"] for one in done["left"]} == {"out"}
        assert (folder / "kept").read_text() == "keptmore"
        assert not (folder / "gone").exists()
        assert git(folder, "log", "--format=%s", done["branches"][0]).split() == ["second", "first"]
        # The next pod begins from what this one left.
        assert await run(gateway, session, "cat kept new/deep/file") == "keptmorenew"
    finally:
        await gateway.close()
    assert [one for one in cluster.pods() if session.rpartition(":")[2] in one["metadata"]["name"]] == []


async def test_what_is_written_after_the_last_call_is_brought_back_too(tmp_path: Path) -> None:
    """A process in the background writes on until the sandbox ends."""
    folder, state = project(tmp_path / "project"), tmp_path / "state"
    session = f"agent:main:{os.urandom(4).hex()}"
    gateway = open_gateway(configured(folder), str(state))
    try:
        await run(gateway, session, "(while :; do date +%s%N > ticking; sleep 0.05; done) & echo begun", detach=True)
        await run(gateway, session, "while [ ! -s ticking ]; do sleep 0.01; done; cp ticking seen; sleep 0.3")
    finally:
        await gateway.close()
    (copy,) = state.glob("layers/*/copy")
    assert int((copy / "ticking").read_text()) > int((copy / "seen").read_text())


async def test_git_of_a_private_folder_reaches_its_remote_by_way_of_the_gateway(tmp_path: Path) -> None:
    remote = tmp_path / "remote.git"
    git(tmp_path, "init", "-q", "--bare", "-b", "main", str(remote))
    git(project(tmp_path / "project"), "push", "-q", str(remote), "main")
    elevated = {
        "enabled": True,
        "requireApproval": False,
        "patterns": ["git clone *", "git push *", "git fetch *", "cat *"],
    }
    sandbox = {"mode": "all", "backend": "kubernetes", **TOLD["kubernetes"]}
    text = json.dumps({"tools": {"elevated": elevated}, "agents": {"defaults": {"sandbox": sandbox}}})
    session = f"agent:main:{os.urandom(4).hex()}"
    gateway = open_gateway(text, str(tmp_path / "state"))
    try:
        await run(gateway, session, f"git clone {remote} cloned")
        await run(gateway, session, f"printf pushed > file; git add -A; {_COMMIT} -m second", cwd="cloned")
        await run(gateway, session, "git push origin HEAD:other", cwd="cloned")
        assert git(remote, "log", "--format=%s", "other").split() == ["second", "first"]
        await run(gateway, session, "git fetch origin", cwd="cloned")
        refused = await gateway.call(session, "exec", {"command": "cat file", "cwd": "cloned"})
        assert refused.error is not None
        assert "is in a pod and not on this machine" in refused.error.message
    finally:
        await gateway.close()
