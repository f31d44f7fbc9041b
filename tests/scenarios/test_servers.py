"""`crabpot servers`: list, approve and restart, as a person does it."""

from __future__ import annotations

import json

import pytest

from tests.support.backends import need
from tests.support.mcp_servers import configuration


@pytest.fixture(autouse=True)
def bubblewrap() -> None:
    need("bubblewrap")


def test_a_server_is_approved_and_then_called_and_explained(placed):
    placed.configure(configuration(fs="honest"))
    listed = placed("servers", "list", "--json").json
    assert [(one["name"], one["state"], one["tools"]) for one in listed] == [("fs", "waiting", [])]
    assert placed("call", "fs__echo").code == 126
    unsure = placed("servers", "approve", "fs")
    assert (unsure.code, "servers approve fs --yes" in unsure.err) == (2, True)
    approved = placed("servers", "approve", "fs", "--yes")
    assert (approved.code, "new: echo" in approved.out, "approved, 14 tools" in approved.out) == (0, True, True)
    assert "nothing changed" in placed("servers", "approve", "fs").out
    ended = placed("call", "fs__echo", "--args", json.dumps({"text": "hello"}))
    assert (ended.code, ended.json["stdout"], ended.json["place"]) == (0, "hello", "sandbox")
    (row,) = placed("explain", "--json").json["servers"]
    assert (row["server"], row["where"], row["network"], "fs__echo" in row["effective"]) == (
        "fs",
        "sandbox",
        "none",
        True,
    )
    assert "fs → SANDBOX" in placed("explain").out
    assert "server fs: approved" in placed("audit", "tail").out
    assert "no gateway runs" in placed("servers", "restart", "fs").out
    assert placed("servers", "restart", "fz").code == 2


def test_servers_are_imported_into_the_configuration(placed, tmp_path):
    placed.configure("{}")
    theirs = tmp_path / "mcp.json"
    theirs.write_text(json.dumps({"mcpServers": {"Files": {"command": "/bin/true", "env": {"API_KEY": "real"}}}}))
    shown = placed("import", "mcp", str(theirs))
    assert (shown.code, shown.json, "real" in shown.err) == (
        0,
        {"mcp": {"servers": {"files": {"command": ["/bin/true"]}}}},
        False,
    )
    assert placed("servers", "list", "--json").json == []
    assert placed("import", "mcp", str(theirs), "--write").code == 0
    assert [one["name"] for one in placed("servers", "list", "--json").json] == ["files"]
    assert "left as it is" in placed("import", "mcp", str(theirs), "--write").err
    assert "files                waiting   0 tools" in placed("servers", "list").out


def test_servers_are_imported_into_a_file_that_is_new(placed, tmp_path):
    theirs = tmp_path / "mcp.json"
    theirs.write_text(json.dumps({"mcpServers": {"files": {"command": "/bin/true"}}}))
    new = ("--config", str(tmp_path / "new.json5"))
    assert placed("import", "mcp", str(theirs), "--write", *new).code == 0
    assert [one["name"] for one in placed("servers", "list", "--json", *new).json] == ["files"]
