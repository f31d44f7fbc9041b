"""`init` and `config get|set`: a start that is clean, and edits that keep all that they do not mean."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

TEXT = """// mine
{
  agents: {
    list: [
      { id: "ops", tools: { deny: ["exec"] } },   // careful
      { id: "dev" },
    ],
  },
  tools: { deny: ["cron", /* why */ "tts"] },
}
"""


def test_init_writes_a_start_that_checks_clean_and_means_the_defaults(crabpot: Any) -> None:
    before = crabpot("explain", "--json").json
    ended = crabpot("init")
    assert (ended.code, ended.err) == (0, "")
    assert f"wrote {crabpot.usual_file}" in ended.out
    assert crabpot.usual_file.stat().st_mode & 0o777 == 0o600
    checked = crabpot("check", "--strict")
    assert (checked.code, checked.out) == (0, f"{crabpot.usual_file}: 0 errors, 0 warnings\n")
    after = crabpot("explain", "--json").json
    assert after["sandbox"]["hash"] == before["sandbox"]["hash"]
    assert after["tools"] == before["tools"]


def test_init_leaves_a_file_alone_that_is_there(crabpot: Any) -> None:
    file = crabpot.configure(TEXT)
    ended = crabpot("init")
    assert ended.code == 1
    assert "already exists" in ended.said()
    assert file.read_text() == TEXT


def test_init_writes_where_it_is_told_and_not_into_a_workspace(crabpot: Any) -> None:
    assert crabpot("init", "--config", "conf/c.json5").code == 0
    assert (crabpot.home / "conf/c.json5").exists()
    (crabpot.home / "agent").mkdir()
    ended = crabpot("init", "--config", "agent/c.json5")
    assert ended.code == 2
    assert "is inside the workspace" in ended.said()
    assert os.listdir(crabpot.home / "agent") == []


def test_an_edit_keeps_comments_order_and_neighbours(crabpot: Any) -> None:
    file = crabpot.configure(TEXT)
    assert crabpot("config", "set", "agents.list[0].tools.deny[+]", "write").code == 0
    assert crabpot("config", "set", "tools.deny[1]", "image").code == 0
    assert crabpot("config", "set", "agents.list[1].sandbox.mode", "non-main").code == 0
    assert file.read_text() == (
        TEXT.replace('deny: ["exec"]', 'deny: ["exec", "write"]')
        .replace('"tts"', '"image"')
        .replace('{ id: "dev" }', '{ id: "dev", sandbox: { mode: "non-main" } }')
    )
    assert crabpot("config", "get", "agents.list[0].tools.deny[1]").out == "write\n"


REFUSED_EDITS = [
    ("tools.profile", "codng", "unknown profile"),
    ("tools.profiel", "coding", 'did you mean "profile"'),
    ("tools.allow", "[]", "an empty allow"),
    ("tools.deny", "exec", "must be a list"),
    ("agents.defaults.sandbox.binds[+]", "/etc:/x", "system folder"),
    ("agents.defaults.workspace", "/", "is inside the workspace /"),
    ("tools", "{", "not JSON5"),
    ("tools.deny[9]", "exec", "has 2 items"),
    ("tools.deny.x", "1", "is not an object"),
    ("tools..x", "1", "is not a path"),
]


@pytest.mark.parametrize(("path", "value", "said"), REFUSED_EDITS)
def test_an_edit_that_would_not_load_is_refused_and_the_file_is_untouched(
    path: str, value: str, said: str, crabpot: Any
) -> None:
    file = crabpot.configure(TEXT)
    before = file.stat()
    ended = crabpot("config", "set", path, value)
    assert ended.code == 2
    assert said in ended.said()
    after = file.stat()
    assert (after.st_ino, after.st_mtime_ns, file.read_text()) == (before.st_ino, before.st_mtime_ns, TEXT)
    assert os.listdir(file.parent) == [file.name]


def test_an_edit_that_would_move_the_workspace_around_the_file_is_refused(crabpot: Any) -> None:
    file = crabpot.home / "conf/c.json5"
    file.parent.mkdir()
    file.write_text("{}")
    ended = crabpot("config", "set", "agents.defaults.workspace", str(file.parent), "--config", str(file))
    assert (ended.code, file.read_text()) == (2, "{}")
    assert "is inside the workspace" in ended.said()


def test_a_linked_file_stays_a_link(crabpot: Any) -> None:
    real = crabpot.home / "dotfiles.json5"
    real.write_text("{}\r\n")
    crabpot.usual_file.parent.mkdir(parents=True)
    crabpot.usual_file.symlink_to(real)
    assert crabpot("config", "set", "tools.profile", "coding").code == 0
    assert crabpot.usual_file.is_symlink()
    assert real.read_bytes() == b'{ tools: { profile: "coding" } }\r\n'


def test_a_folder_that_may_not_be_written_leaves_the_file_as_it_is(crabpot: Any) -> None:
    file = crabpot.configure("{}")
    file.chmod(0o644)
    if os.geteuid() == 0:
        os.chown(file.parent, 12345, 12345)
    file.parent.chmod(0o555)
    ended = crabpot("config", "set", "tools.profile", "coding", as_anybody=True)
    file.parent.chmod(0o755)
    assert ended.code == 1
    assert "cannot be written: Permission denied; it is unchanged" in ended.said()
    assert file.read_text() == "{}"


def test_a_first_setting_makes_the_file(crabpot: Any) -> None:
    assert crabpot("config", "set", "agents.defaults.sandbox.mode", "non-main").code == 0
    assert crabpot.usual_file.read_text() == '{\n  agents: { defaults: { sandbox: { mode: "non-main" } } },\n}\n'
    again = crabpot("config", "set", "agents.defaults.sandbox.mode", "non-main")
    assert (again.code, again.err) == (0, "crabpot: note: agents.defaults.sandbox.mode already has this value\n")


@pytest.mark.parametrize(
    ("path", "out"),
    [
        ("tools.deny", '[\n  "cron",\n  "tts"\n]\n'),
        ("tools.deny[1]", "tts\n"),
        ("tools.profile", "full\n"),
        ("agents.defaults.sandbox.mode", "all\n"),
        ("agents.defaults.sandbox.network", "none\n"),
        ("agents.defaults.sandbox.limits.pids", "100\n"),
        ("agents.entries.ops.tools.deny", '[\n  "cron",\n  "tts",\n  "exec"\n]\n'),
        ("agents.list[1]", '{\n  "id": "dev"\n}\n'),
        ("runner.commands[0]", "git\n"),
        ("agents.defaults.sandbox.limits.memory", "2g\n"),
        ("agents.defaults.sandbox.limits.timeLimit", "60\n"),
        ("gateway.linger", "10m\n"),
        ("audit.rotate", "100000\n"),
        ("mcp.servers", "{}\n"),
    ],
)
def test_get_prints_what_is_written_or_what_holds_by_default(path: str, out: str, crabpot: Any) -> None:
    crabpot.configure(TEXT)
    ended = crabpot("config", "get", path)
    assert (ended.code, ended.err, ended.out) == (0, "", out)


def test_get_of_a_written_null_prints_what_holds(crabpot: Any) -> None:
    crabpot.configure("{agents: {defaults: {sandbox: {mode: null}}}}")
    assert crabpot("config", "get", "agents.defaults.sandbox.mode").out == "all\n"


def test_get_of_an_mcp_server_fills_in_what_holds_by_default(crabpot: Any) -> None:
    crabpot.configure('{mcp: {servers: {fs: {command: ["npx", "fs"], env: {MY_KEY: "a"}}}}}')
    got = json.loads(crabpot("config", "get", "mcp.servers.fs").out)
    assert got["command"] == ["npx", "fs"]
    assert got["env"] == {"MY_KEY": "a"}
    assert got["sandbox"]["network"] == "none"
    assert got["sandbox"]["limits"]["memory"] == "2g"


def test_get_of_nothing_says_what_is_near(crabpot: Any) -> None:
    ended = crabpot("config", "get", "agents.defaults.sandbox.moed")
    assert ended.code == 2
    assert 'did you mean "mode"?' in ended.said()
    assert crabpot("config", "get", "tools[").code == 2
