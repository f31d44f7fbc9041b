"""The thin client reads a command line as the whole program does, or leaves it alone."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import crabpot
from crabpot import app
from crabpot.decide import sessions
from crabpot.doors.cli.frame import hoisted, shell_text
from crabpot.doors.cli.main import parser
from crabpot.doors.local.client import claim
from crabpot.doors.thin.command import Command, ListeningPlace, NotForUs, is_plain, quoted

READ = [
    "exec true",
    "exec -- true",
    "exec -- ls -l",
    "exec --session agent:ops:x --cwd /tmp --timeout 2.5 -- echo 'a b'",
    "--config /c exec --state=/s -- true",
    "exec --state /s --session=agent:main:x -- -v --config x",
]
LEFT = [
    "",
    "exec",
    "exec --",
    "exec --tty -- true",
    "exec --sess x -- true",
    "exec true -x",
    "exec --timeout soon -- true",
    "exec --timeout nan -- true",
    "exec --session main -- true",
    "exec --session agent:A:x -- true",
    "exec --help",
    "--version",
    "call ls",
    "mcp --print-config codex",
    "exec --cwd -- true",
    "--nope exec true",
    "prefix",
    "prefix claude",
    "prefix claude --",
    "prefix claude -- one two",
    "prefix claude one",
    "prefix other -- one",
    "exec claude --",
]


@pytest.mark.parametrize("line", READ)
def test_what_it_reads_is_what_the_whole_program_reads(line):
    words = shlex.split(line)
    read, whole = Command(words), parser("exec").parse_args(hoisted(words))
    args = {"command": shell_text(whole.command)}
    args |= {} if whole.cwd is None else {"cwd": whole.cwd}
    args |= {} if whole.timeout is None else {"timeout": whole.timeout}
    assert (read.session, read.args()) == (whole.session, args)
    assert (read.options.get("--config"), read.options.get("--state")) == (whole.config, whole.state)


def test_what_claude_code_hands_over_is_read_as_the_whole_program_reads_it():
    words = ["prefix", "claude", "--session", "agent:a:b", "--timeout", "9", "--state", "/s", "--", "git 'push' -- x"]
    read, whole = Command(words), parser("prefix").parse_args(hoisted(words))
    assert (read.session, read.options["--timeout"]) == (whole.session, f"{whole.timeout:g}")
    assert (read.words, read.args()["cwd"]) == (whole.command, os.getcwd())
    assert read.handed is not None
    assert read.args()["command"] == read.handed.command == "git 'push' -- x"


@pytest.mark.parametrize("line", LEFT)
def test_everything_else_is_left_to_the_whole_program(line):
    with pytest.raises(NotForUs):
        Command(shlex.split(line)).args()


@given(st.text())
def test_words_are_quoted_as_a_shell_reads_them(word):
    assert quoted(word) == shlex.quote(word)


@given(st.text(alphabet="agent:main.-_0AZ é", max_size=24))
def test_a_key_that_it_takes_is_a_session_of_that_agent(key):
    if is_plain(key):
        assert sessions.parse(key).agent == key.split(":")[1]


@pytest.mark.parametrize(
    "options", [{}, {"--state": "s", "--config": "c.json5"}, {"--config": "/etc/hostname"}], ids=repr
)
def test_it_looks_for_the_gateway_where_the_whole_program_does(tmp_path, monkeypatch, options):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/somebody")
    for name in ("CRABPOT_CONFIG", "CRABPOT_STATE", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "c.json5").write_text("{tools: {deny: ['é']}}")
    wired = app.start(config=options.get("--config"), state=options.get("--state"), environ=os.environ)
    place = ListeningPlace(options)
    assert place.state == wired.around.state
    assert place.claims == claim(wired.config)


@pytest.mark.parametrize("planted", ["crabpot.json5", None])
def test_a_configuration_in_the_working_directory_is_for_the_whole_program_to_warn_of(tmp_path, monkeypatch, planted):
    monkeypatch.chdir(tmp_path)
    if planted is not None:
        (tmp_path / planted).write_text("{}")
        with pytest.raises(NotForUs):
            ListeningPlace({})
    else:
        ListeningPlace({})


def test_it_imports_next_to_nothing(tmp_path):
    """Each of these alone would take as long as the call."""
    script = Path(crabpot.__file__).parent / "__main__.py"
    code = f"""
import sys
sys.argv = ["crabpot", "--state", {str(tmp_path)!r}, "exec", "true"]
sys.modules["crabpot.doors.cli.main"] = None
sys.path.append({str(script.parents[1])!r})
from crabpot.doors.thin import client
client._run_whole = lambda: sys.exit(0)
import crabpot.doors.thin.running
heavy = {{"re", "json", "typing", "socket", "asyncio", "enum", "hashlib", "shlex", "signal", "contextlib", "threading"}}
assert not heavy & sys.modules.keys(), heavy & sys.modules.keys()
client.main()
"""
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True, timeout=60)
