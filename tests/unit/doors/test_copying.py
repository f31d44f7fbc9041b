"""What `cp` makes of a sandbox that lies about its files."""

from __future__ import annotations

from typing import Any

import pytest

from crabpot.doors.cli.commands.cp import parse
from crabpot.doors.cli.copying.copier import Remote
from crabpot.doors.cli.copying.receiving import Receiver
from crabpot.doors.cli.copying.sending import Sender
from crabpot.errors import CrabpotError
from crabpot.model import Failure, ToolResult

S = "agent:main:main"
TOP = Remote(session=S, path="/workspace/top")


class Lying:
    """A gateway whose sandbox lists what it likes."""

    def __init__(self, entries, *, truncated=False, endless=False):
        self.entries = entries
        self.truncated = truncated
        self.endless = endless
        self.calls = []

    async def call(self, _session, tool, args, *, streams=None):
        self.calls.append((tool, args.get("path")))
        if tool == "ls" and (args["path"] == TOP.path or self.endless):
            return ToolResult(id="1", success=True, data={"entries": self.entries}, truncated=self.truncated)
        if tool == "read":
            await streams.sink("content", b"from inside")
            return ToolResult(id="1", success=True, data={})
        if tool == "exec":
            # Everything in sight, and much that is not: what is not copied is not believed.
            return ToolResult(id="1", success=True, stdout="/etc/passwd\0/workspace/top/tool\0../../x\0")
        return ToolResult(id="1", success=False, error=Failure(code="not_found", message="no"))


def receiver(gateway: Any) -> Receiver:
    return Receiver(gateway, S, 60)


HOSTILE = {
    "a way up": [{"name": "..", "type": "directory"}],
    "the folder itself": [{"name": ".", "type": "directory"}],
    "a path": [{"name": "a/b", "type": "file"}],
    "an absolute path": [{"name": "/etc/passwd", "type": "file"}],
    "a path up": [{"name": "../../escaped", "type": "file"}],
    "a NUL": [{"name": "a\0b", "type": "file"}],
    "an empty name": [{"name": "", "type": "file"}],
    "a name that is a number": [{"name": 5, "type": "file"}],
    "a name that is a list": [{"name": ["a"], "type": "file"}],
    "no name": [{"type": "file"}],
    "no object": ["file"],
    "null": [None],
    "no list": {"name": "a"},
    "nothing": None,
    "a list of lists": [[]],
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_listing_is_refused_and_nothing_lands_elsewhere(name, tmp_path):
    copier = receiver(Lying(HOSTILE[name]))
    with pytest.raises(CrabpotError, match="not a file name"):
        await copier.receive(TOP, str(tmp_path / "out"))
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["out"]


async def test_entries_of_another_kind_are_left_out(tmp_path, capsys):
    kinds = ["link", "other", None, 5, ["file"], "File"]
    entries = [{"name": f"n{number}", "type": kind} for number, kind in enumerate(kinds)]
    copier = receiver(Lying([*entries, {"name": "honest", "type": "file"}]))
    await copier.receive(TOP, str(tmp_path / "out"))
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["honest"]
    assert capsys.readouterr().err.count("was skipped") == len(kinds)


async def test_only_what_was_copied_becomes_executable(tmp_path):
    lying = Lying([{"name": "tool", "type": "file"}, {"name": "plain", "type": "file"}])
    await receiver(lying).receive(TOP, str(tmp_path / "out"))
    assert (tmp_path / "out" / "tool").stat().st_mode & 0o100
    assert not (tmp_path / "out" / "plain").stat().st_mode & 0o111


async def test_folders_without_end_are_given_up(tmp_path):
    lying = Lying([{"name": "again", "type": "directory"}], endless=True)
    with pytest.raises(CrabpotError, match="deeper than"):
        await receiver(lying).receive(TOP, str(tmp_path / "out"))
    assert len(lying.calls) < 100


async def test_the_same_name_twice_is_written_once_more_and_never_through(tmp_path):
    lying = Lying([{"name": "a", "type": "file"}, {"name": "a", "type": "file"}])
    await receiver(lying).receive(TOP, str(tmp_path / "out"))
    assert (tmp_path / "out" / "a").read_text() == "from inside"


async def test_a_name_that_is_a_file_and_then_a_folder_is_an_error(tmp_path):
    lying = Lying([{"name": "a", "type": "file"}, {"name": "a", "type": "directory"}])
    with pytest.raises(OSError, match="Not a directory"):
        await receiver(lying).receive(TOP, str(tmp_path / "out"))


async def test_a_listing_that_is_cut_is_refused(tmp_path):
    lying = Lying([{"name": "a", "type": "file"}], truncated=True)
    with pytest.raises(CrabpotError, match="more entries"):
        await receiver(lying).receive(TOP, str(tmp_path / "out"))


async def test_what_no_file_tool_does_is_asked_for_in_batches(tmp_path):
    commands = []

    class Taking:
        async def call(self, _session, tool, args, *, streams=None):
            if tool == "exec":
                commands.append(args["command"])
            if streams is not None:
                async for _ in streams.source:
                    pass
            return ToolResult(id="1", success=tool != "ls")

    for number in range(600):
        (tmp_path / "src" / f"{number:03}{'x' * 240}").mkdir(parents=True)
    taking: Any = Taking()
    await Sender(taking, S, 60).send(str(tmp_path / "src"), TOP)
    assert len(commands) == 3
    assert all(len(command) < 70_000 for command in commands)
    assert sum(command.count("/workspace/top/") for command in commands) == 600


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("agent:main:main:/workspace/a", Remote(session="agent:main:main", path="/workspace/a")),
        ("main:/a", Remote(session="main", path="/a")),
        ("s:/", Remote(session="s", path="/")),
        ("s:/a:/b", Remote(session="s", path="/a:/b")),
        ("/a:/b", "/a:/b"),
        ("./a:/b", "./a:/b"),
        ("../a:/b", "../a:/b"),
        (":/a", ":/a"),
        ("a", "a"),
        ("a:b", "a:b"),
        ("", ""),
    ],
)
def test_a_place_is_a_session_and_an_absolute_path(text, meaning):
    assert parse(text) == meaning
