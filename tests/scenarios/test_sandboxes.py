"""`crabpot sandboxes`: what is kept and what lives, stopped, made anew and pruned."""

from __future__ import annotations

import json
import os
import time

import pytest

from tests.support.waiting import wait_until

NAME = "crabpot-agent-main-main-"


@pytest.fixture
def sandboxed(crabpot, tmp_path):
    """A program that makes real sandboxes; where this machine makes none, that is a reason to skip or to fail."""
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.getuid() and str(folder) != "/":
            folder.chmod(folder.stat().st_mode | 0o011)
    ended = crabpot("exec", "--", "echo kept > file")
    if "sandbox_unavailable" in ended.err:
        required = "bubblewrap" in os.environ.get("CRABPOT_REQUIRE_BACKENDS", "")
        (pytest.fail if required else pytest.skip)(ended.err)
    assert ended.code == 0, ended.err
    return crabpot


def rows(program):
    return program("sandboxes", "list", "--json").json


def test_without_any_the_list_says_how_one_comes_about(crabpot):
    ended = crabpot("sandboxes", "list")
    assert (ended.code, ended.out) == (0, "no sandboxes; a session's first call opens one\n")
    assert crabpot("sandboxes", "list", "--json").json == []


@pytest.mark.parametrize("action", ["stop", "recreate"])
def test_one_that_is_not_named_or_not_there_is_told(crabpot, action):
    ended = crabpot("sandboxes", action)
    assert ended.code == 2
    assert "sandboxes list" in ended.said()
    ended = crabpot("sandboxes", action, "nothing")
    assert ended.code == 1
    assert "no sandbox 'nothing'" in ended.said()


def test_what_a_sandbox_wrote_is_kept_and_listed(sandboxed):
    (row,) = rows(sandboxed)
    assert row["name"].startswith(NAME)
    assert (row["scope_key"], row["agent"], row["state"]) == ("agent:main:main", "main", "kept")
    assert "kept" in sandboxed("sandboxes", "list").out
    assert sandboxed("exec", "--", "cat file").out == "kept\n"
    assert sandboxed("sandboxes", "stop", row["name"]).out == f"{row['name']}: was not running\n"


def test_one_that_never_opened_is_not_listed_and_leaves_no_folder(sandboxed, tmp_path):
    (row,) = rows(sandboxed)
    missing = tmp_path / "missing"
    sandboxed.configure(f"{{agents: {{defaults: {{workspace: '{missing}', sandbox: {{workspace: 'ro'}}}}}}}}")
    before = sorted((sandboxed.state / "sandboxes").iterdir())
    ended = sandboxed("exec", "--session", "agent:main:other", "--", "true")
    assert (ended.code, "does not exist: mkdir -p" in ended.err) == (125, True)
    assert sandboxed("exec", "--", "true").code == 125
    assert [one["name"] for one in rows(sandboxed)] == [row["name"]]
    assert sorted((sandboxed.state / "sandboxes").iterdir()) == before


def test_made_anew_it_has_nothing_of_the_old(sandboxed):
    ended = sandboxed("sandboxes", "recreate", "agent:main:main")
    assert ended.code == 0
    assert "starts afresh" in ended.out
    assert rows(sandboxed) == []
    assert sandboxed("exec", "--", "cat file").code == 1


def test_those_that_are_stale_are_pruned_and_no_other(sandboxed):
    sandboxed("exec", "--session", "agent:main:other", "--", "touch kept")
    sandboxed("exec", "--session", "agent:main:empty", "--", "true")
    assert sandboxed("sandboxes", "prune").out == "pruned 0: nothing was stale\n"
    (old,) = [row for row in rows(sandboxed) if row["scope_key"] == "agent:main:main"]
    assert json.loads(sandboxed("sandboxes", "prune", "--json").out) == {"pruned": []}
    note = sandboxed.state / "sandboxes" / f"{old['name']}.json"
    os.utime(note, (0, time.time() - 25 * 3600))
    assert sandboxed("sandboxes", "prune").out == f"pruned 1: {old['name']}\n"
    assert [row["scope_key"] for row in rows(sandboxed)] == ["agent:main:other"]
    assert len(os.listdir(sandboxed.state / "sandboxes")) == 2


def test_under_a_gateway_that_serves_they_live_and_can_be_stopped(sandboxed):
    with sandboxed.serving():
        assert sandboxed("exec", "--", "echo $$").code == 0
        (row,) = rows(sandboxed)
        assert row["state"] == "live"
        assert sandboxed("sandboxes", "stop", row["name"]).out == f"{row['name']}: stopped\n"
        (row,) = rows(sandboxed)
        assert row["state"] == "kept"
        assert sandboxed("exec", "--", "cat file").out == "kept\n"
        ended = sandboxed("sandboxes", "recreate", row["name"])
        assert (ended.code, rows(sandboxed)) == (0, [])
        assert sandboxed("sandboxes", "prune").out == "pruned 0: nothing was stale\n"


def test_one_without_a_private_folder_is_listed_while_it_lives(sandboxed):
    workspace = sandboxed.home / "agent"
    workspace.mkdir()
    if os.geteuid() == 0:
        os.chown(workspace, 65534, 65534)
    sandboxed.configure('{agents: {defaults: {sandbox: {workspace: "rw", scope: "shared"}}}}')
    with sandboxed.serving():
        assert sandboxed("exec", "--", "true").code == 0
        live = [row for row in rows(sandboxed) if row["state"] == "live"]
        assert [(row["scope_key"], row["used"]) for row in live] == [("shared", None)]
        assert "in use" in sandboxed("sandboxes", "list").out
        ended = sandboxed("sandboxes", "recreate", "shared")
        assert (ended.code, "starts afresh" in ended.out) == (0, True)
    assert [row["scope_key"] for row in rows(sandboxed)] == ["agent:main:main"]


def test_one_that_another_process_uses_is_left_alone(sandboxed):
    started = sandboxed.start("exec", "--", "echo on; sleep 1000", stdout=-1)
    try:
        assert started.stdout.readline() == b"on\n"
        ended = sandboxed("sandboxes", "recreate", "agent:main:main")
        assert ended.code == 1
        assert "in use elsewhere" in ended.out
        assert [row["scope_key"] for row in rows(sandboxed)] == ["agent:main:main"]
    finally:
        started.kill()
        started.wait()
        started.stdout.close()
    wait_until(lambda: sandboxed("sandboxes", "recreate", "agent:main:main").code == 0)


def test_the_list_is_json_for_programs(sandboxed):
    (row,) = json.loads(sandboxed("sandboxes", "list", "--json").out)
    assert list(row) == ["name", "scope_key", "agent", "state", "created", "used"]


def test_what_a_session_wrote_is_kept_put_back_and_forked(sandboxed):
    sandboxed("exec", "--", "echo before > note")
    assert sandboxed("snapshots", "save", "first").out == "saved first of agent:main:main\n"
    sandboxed("exec", "--", "echo after > note")
    assert sandboxed("snapshots", "restore", "first").code == 0
    assert sandboxed("exec", "--", "cat note").out == "before\n"
    assert sandboxed("fork", "agent:main:main", "agent:main:a", "agent:main:b").out.endswith("to 2 sessions\n")
    assert sandboxed("exec", "--session", "agent:main:b", "--", "cat note").out == "before\n"
    (one,) = json.loads(sandboxed("snapshots", "list", "--json").out)["snapshots"]
    assert (one["name"], one["folder"]) == ("first", None)
    refused = sandboxed("snapshots", "restore", "none")
    assert (refused.code, refused.out) == (1, "")
    assert "has no snapshot 'none' (first)" in refused.err
    assert sandboxed("snapshots", "save").code == 2
