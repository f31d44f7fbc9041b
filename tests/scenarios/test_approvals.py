"""An operator's word: asked for on a real terminal (tmux), given there or from elsewhere, and never by anybody inside."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.pane import PROMPT, Pane
from tests.support.waiting import wait_until

CONFIG = """{
  agents: { defaults: { workspace: "WS", sandbox: { workspace: "rw" } } },
  tools: { elevated: { enabled: true, patterns: ["git status", "touch *"], approvalTimeout: TIME } },
}"""


@pytest.fixture
def leaving(crabpot):
    """The seed's exercise: one elevated pattern, with approval."""
    crabpot.workspace.mkdir()
    subprocess.run(["git", "init", "-q", "-b", "main", str(crabpot.workspace)], check=True)

    def configured(seconds=60, **changes):
        text = CONFIG.replace("WS", str(crabpot.workspace)).replace("TIME", str(seconds))
        for old, new in changes.items():
            text = text.replace(old, new)
        crabpot.configure(text)
        return crabpot

    return configured


@contextmanager
def waiting(program, *command):
    """Run a command that has no terminal, and give the request that it waits for."""
    started = program.start("exec", "--", *command, stdin=subprocess.DEVNULL, stdout=-1, stderr=-1)
    try:
        first = started.stderr.readline().decode()
        second = started.stderr.readline().decode()
        assert first.startswith("crabpot: waiting for approval of: ")
        request_id = second.split(" deny ")[1].strip()
        assert f"approvals allow {request_id}" in second
        yield started, request_id
    finally:
        started.kill()
        started.communicate()


def ended(started):
    out, err = started.communicate(timeout=60)
    return started.returncode, out.decode(), err.decode()


# --- exercise 4, on a real terminal -----------------------------------------------------------------------------------


def test_the_exercise_allowed_once_runs_on_the_host_and_is_asked_again(leaving, pane):
    leaving()
    for _ in range(2):
        pane.run("exec", "--", "git status")
        shown = pane.asked()
        for part in (
            "may this command run on the HOST?",
            "command   git status",
            "/usr/bin/git",
            "tools.elevated.patterns[0]",
        ):
            assert part in shown, part
        pane.type("o")
        assert "On branch main" in pane.shows("ended=0")


def test_the_exercise_denied_with_a_reason_is_126_and_the_agent_reads_the_reason(leaving, pane):
    program = leaving()
    pane.run("exec", "--", "touch made")
    pane.answer("d not on a Friday")
    assert "the operator said no: not on a Friday" in pane.shows("ended=126")
    assert not (program.workspace / "made").exists()


def test_the_exercise_left_alone_is_denied_at_its_deadline(leaving, pane):
    program = leaving(seconds=2)
    pane.run("exec", "--", "touch made")
    pane.shows(PROMPT)
    shown = pane.shows("ended=126")
    assert "time is up: denied" in shown
    assert "approval_timeout" in shown
    assert not (program.workspace / "made").exists()


def test_an_answer_that_is_kept_spares_the_next_question_until_it_is_revoked(leaving, pane):
    program = leaving()
    pane.run("exec", "--", "touch made")
    pane.answer("m 10 keep")
    pane.shows("ended=0")
    pane.run("exec", "--", "touch made")
    pane.shows("ended=0")
    (lease,) = program("leases", "list", "--json").json
    assert (lease["request"]["argv"], lease["uses"], lease["keep"]) == (["touch", "made"], 1, True)
    assert program("leases", "revoke", lease["id"]).code == 0
    pane.run("exec", "--", "touch made")
    pane.answer("d")
    pane.shows("ended=126")


def test_what_is_not_an_answer_is_not_taken_for_one(leaving, pane):
    program = leaving()
    pane.run("exec", "--", "touch made")
    pane.asked()
    for typed in ("yes", "O", "oo", "o o", "m", "m 0", "m 99999999", "s maybe", "allow", "\x1bo", "\x1b[o"):
        pane.type(typed)
    pane.shows("type one of")
    assert not (program.workspace / "made").exists()
    pane.tmux("send-keys", "C-c")
    pane.shows("ended=126")


def test_call_asks_on_the_terminal_and_keeps_its_output_clean(leaving, pane):
    program = leaving()
    pane.type("PS1=; clear")
    pane.run("call", "exec", "--args", '{"command": "touch made"}')
    pane.answer("o")
    assert '"place": "host"' in pane.shows("ended=0")
    assert (program.workspace / "made").exists()


# --- spoofing and answering ahead ---------------------------------------------------------------------------------------


def test_what_was_typed_before_the_question_does_not_answer_it(leaving, pane):
    program = leaving()
    typed = program.home / "typed"
    exec_ = shlex.join([*program.argv, "exec", "--", "touch made"])
    pane.type(f"until [ -e {typed} ]; do sleep 0.1; done; {exec_}; echo ended=$?")
    for _ in range(10):
        pane.type("o")
    typed.touch()
    shown = pane.asked()
    assert "allowed" not in shown
    assert not (program.workspace / "made").exists()
    pane.type("d")
    pane.shows("ended=126")


def test_standard_input_and_output_that_are_no_terminal_neither_answer_nor_carry_the_question(leaving, pane):
    program = leaving()
    words = shlex.join(program.argv)
    pane.type(f"clear; yes o | {words} exec -- touch made > out 2> err; echo ended=$?")
    pane.asked()
    assert not (program.workspace / "made").exists()
    pane.type("d")
    pane.shows("ended=126")
    assert (program.home / "out").read_bytes() == b""
    assert b"may this command" not in (program.home / "err").read_bytes()


def test_look_alike_characters_are_shown_by_their_numbers(leaving, pane):
    leaving()
    pane.run("exec", "--", "touch m\u0430de größe")
    shown = pane.asked()
    assert "touch $'m\\u0430de' 'größe'" in shown
    assert "touch $'m\\xd0\\xb0de' $'gr\\xc3\\xb6\\xc3\\x9fe'" in shown
    pane.type("d")
    pane.shows("ended=126")


# What a program inside may print, for as long as the question stands: a black screen, a scrolling region, another
# character set, a question of its own, an open sequence that would swallow whatever comes next.
DRAWS = r"""
import sys, time
fake = "crabpot asks: may this command run on the HOST?  (request 00000000)\r\n  command   decoy\r\n[9:59 left] > "
while True:
    sys.stdout.write("\x1b[2J\x1b[H\x1b[30;40m\x1b[8m\x1b[5;6r\x1b(0\x0e\x1b[?25l" + fake + "\x1b[6n\x1b[21t\x1b]0;o\r")
    sys.stdout.flush()
    time.sleep(0.01)
"""


def ends_with_prompt(screen: str) -> str | None:
    return screen if screen.rstrip().endswith(PROMPT) else None


@pytest.mark.parametrize("arguments", [["exec", "--"], ["exec", "--tty", "--"]])
def test_output_from_inside_is_held_back_while_the_question_stands(leaving, pane, arguments, bubblewrap):
    program = leaving(**{'sandbox: { workspace: "rw" }': "sandbox: {}"})
    with program.serving():
        pane.run(*arguments, f"python3 -c {shlex.quote(DRAWS)}")
        wait_until(lambda: program("sandboxes", "list", "--json").json)
        with waiting(program, "touch", "made") as (started, request_id):
            real = f"(request {request_id})"
            # A capture may fall between two of its lines.
            wait_until(lambda: PROMPT in pane.text.partition(real)[2])
            time.sleep(1.0)  # A hundred more drawings, were they not held back.
            above, _, below = wait_until(lambda: ends_with_prompt(pane.text)).partition(real)
            assert "decoy" not in below
            assert (above + below).count("command   touch made") == below.count("command   touch made") == 1
            pane.type("o")
            assert ended(started)[0] == 0
        pane.tmux("kill-session")


@pytest.mark.parametrize("served", [True, False])
def test_a_shim_inside_an_interactive_shell_asks_on_the_very_terminal(crabpot, pane, bubblewrap, served):
    crabpot.configure('{agents: {defaults: {sandbox: {hostCommands: ["git"]}}}}')

    def use_it():
        pane.run("shell")
        pane.shows("[crabpot agent:main:main]")
        pane.type("echo $((40+2)) && git --version; echo shim=$?")
        pane.shows("command   git --version")
        pane.answer("o")
        assert "git version" in pane.shows("shim=0")
        pane.type("clear")
        wait_until(lambda: "shim=" not in pane.text)
        pane.type("git --version; echo shim=$?")
        pane.answer("d not now")
        assert "not now" in pane.shows("shim=126")
        pane.type("exit 7")
        pane.shows("ended=7")

    if served:
        with crabpot.serving():
            use_it()
    else:
        use_it()


# --- from elsewhere -----------------------------------------------------------------------------------------------------


def test_without_a_terminal_it_says_at_once_what_waits_and_takes_the_answer_from_another_process(leaving):
    program = leaving()
    with waiting(program, "touch", "made") as (started, request_id):
        (listed,) = program("approvals", "list", "--json").json
        assert (listed["id"], listed["argv"]) == (request_id, ["touch", "made"])
        assert listed["folder"]["path"] == str(program.workspace)
        assert "command   touch made" in program("approvals", "list").out
        assert program("approvals", "show", request_id).json == listed
        answered = program("approvals", "allow", request_id)
        assert (answered.code, answered.out) == (0, f"{request_id}: allowed once: touch made\n")
        assert ended(started)[0] == 0
    assert (program.workspace / "made").exists()
    again = program("approvals", "deny", request_id)
    assert (again.code, "is no longer pending" in again.said()) == (1, True)
    assert program("approvals", "list").out == "no pending requests\n"


def test_a_denial_from_elsewhere_reaches_the_agent_with_its_reason(leaving):
    program = leaving()
    with waiting(program, "touch", "made") as (started, request_id):
        assert program("approvals", "deny", request_id, "--reason", "use the \x1b[31mother one").code == 0
        code, out, err = ended(started)
    assert (code, out) == (126, "")
    assert "use the \\u001b[31mother one" in err
    assert not (program.workspace / "made").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (["approvals", "allow", "ffffffff"], 1, "no request has the id"),
        (["approvals", "deny", "' OR 1=1 --"], 1, "no request has the id"),
        (["approvals", "show", "x"], 1, "no request has the id"),
        (["approvals", "allow", "x", "--keep"], 2, "--keep needs a lease"),
        (["approvals", "allow", "x", "--minutes", "99999999"], 2, "at most"),
        (["approvals", "allow", "x", "--minutes", "0"], 2, ""),
        (["approvals", "allow", "x", "--once", "--session"], 2, ""),
        (["leases", "revoke", "x"], 1, "no lease in force"),
    ],
)
def test_what_cannot_be_answered_is_said(crabpot, arguments, code, why):
    told = crabpot(*arguments)
    assert (told.code, told.out) == (code, "")
    assert why in told.err
    assert "Traceback" not in told.err
    assert not crabpot.state.exists() or "approvals.sqlite" not in os.listdir(crabpot.state)


def test_a_client_of_a_gateway_that_serves_is_asked_on_its_own_terminal(leaving, pane):
    program = leaving()
    with program.serving():
        pane.run("exec", "--", "touch made")
        pane.answer("s")
        pane.shows("ended=0")
        pane.run("exec", "--", "touch made")
        pane.shows("ended=0")
        (lease,) = program("leases", "list", "--json").json
        assert (lease["uses"], lease["keep"]) == (1, False)
    assert program("leases", "list", "--json").json == [], "it ended with its gateway"


def test_a_client_of_a_gateway_that_lingers_is_asked_on_its_own_terminal(leaving, tmp_path):
    program = replace(leaving(), more={"CRABPOT_LINGER": "10m"})
    pane = Pane(program, tmp_path)
    try:
        pane.run("exec", "--", "touch made")
        pane.answer("s")
        pane.shows("ended=0")
        pane.run("exec", "--", "touch made")
        pane.shows("ended=0")
        assert program("serve", "stop").code == 0
        assert program("leases", "list", "--json").json == [], "it ended with its gateway"
    finally:
        program("serve", "stop")
        pane.end()


def test_a_question_answered_elsewhere_is_taken_back_from_the_terminal(leaving, pane):
    program = leaving()
    with program.serving():
        pane.run("exec", "--", "touch made")
        pane.asked()
        (request,) = program("approvals", "list", "--json").json
        assert program("approvals", "allow", request["id"]).code == 0
        assert "answered elsewhere" in pane.shows("ended=0")


# --- nobody is left waiting ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("served", [True, False])
def test_a_terminal_that_closes_has_denied(leaving, pane, served):
    program = leaving()

    def see_it_denied():
        pane.run("exec", "--", "touch made")
        pane.asked()
        pane.tmux("kill-pane")
        wait_until(lambda: program("approvals", "list", "--json").json == [])

    if served:
        with program.serving():
            see_it_denied()
    else:
        see_it_denied()
    assert not (program.workspace / "made").exists()
    answers = [one for one in records(program) if one["kind"] == "answer" and one["allowed"]]
    assert answers == []


def records(program):
    return [json.loads(line) for line in program("audit", "export").out.splitlines()]


def test_what_a_killed_gateway_asked_can_no_longer_be_answered(leaving):
    program = leaving()
    with waiting(program, "touch", "made") as (started, request_id):
        started.send_signal(signal.SIGKILL)
        started.wait()
        assert program("approvals", "list", "--json").json == []
        assert program("approvals", "allow", request_id).code == 1
    assert not (program.workspace / "made").exists()


def test_a_gateway_that_is_told_to_end_denies_what_waits(leaving):
    program = leaving()
    with program.serving() as served, waiting(program, "touch", "made") as (started, _):
        served.terminate()
        code, _, err = ended(started)
        assert code in (125, 126)
        assert "Traceback" not in err
        served.wait(60)
    assert not (program.workspace / "made").exists()


# --- from inside --------------------------------------------------------------------------------------------------------


@pytest.fixture
def bubblewrap(crabpot):
    if crabpot("exec", "--", "true").code:
        required = "bubblewrap" in os.environ.get("CRABPOT_REQUIRE_BACKENDS", "")
        (pytest.fail if required else pytest.skip)("no bubblewrap sandbox opens here")


def test_nothing_inside_a_sandbox_reaches_the_answering_side(leaving, bubblewrap):
    program = leaving(**{'sandbox: { workspace: "rw" }': "sandbox: {}"})
    with program.serving(), waiting(program, "touch", "made") as (started, request_id):
        assert {"approvals.sqlite", "serve.sock"} <= set(os.listdir(program.state))
        tries = [
            f"cat {program.state}/approvals.sqlite",
            f"ls {program.state}",
            f"ls {Path(program.state).parent}",
            f"python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect('{program.state}/serve.sock')\"",
            "echo o > /dev/tty",
            "find / -name approvals.sqlite 2>/dev/null | grep .",
            "find / -name serve.sock 2>/dev/null | grep .",
        ]
        for text in tries:
            assert program("exec", "--session", "agent:main:other", "--", text).code not in (0, 125, 126), text
        assert [one["id"] for one in program("approvals", "list", "--json").json] == [request_id]
        program("approvals", "deny", request_id)
        assert ended(started)[0] == 126


def test_a_push_is_shown_with_its_commits_and_goes_where_it_was_shown_to_go(leaving, pane, tmp_path):
    program = leaving(**{"git status": "git *"})
    shutil.rmtree(program.workspace / ".git")
    if os.geteuid() == 0:
        shutil.chown(program.workspace, 1000, 1000)
    remote = tmp_path / "remote.git"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", remote], check=True)
    made = "git init -qb main . && git config user.name a && git config user.email a@b && touch f && git add f"
    made += f" && git commit -qm one && git commit -q --allow-empty -m two && git remote add origin {remote}"
    assert program("exec", "--", made).code == 0
    pane.run("exec", "--", "git push -u origin main")
    pane.asked()
    assert f"push to {remote}" in pane.text
    assert "main → refs/heads/main, 2 commits" in pane.text
    pane.answer("o")
    pane.shows("ended=0")
    told = subprocess.run(
        ["git", "-C", remote, "log", "--format=%s", "main"], check=True, capture_output=True, text=True
    )
    assert told.stdout == "two\none\n"


def test_a_build_is_confined_whatever_its_file_says_and_is_allowed_once(leaving, pane):
    program = leaving(**{"git status": "make *"})
    (program.workspace / "Makefile").write_text("all:\n\ttouch built; touch /etc/evil; cat $(HOME)/.ssh/id\n")
    pane.run("exec", "--", "make all")
    pane.asked()
    for said in ("in a guard", "Makefile (make runs what it says", "allowed once at a time"):
        assert said in pane.text
    pane.answer("s")
    pane.answer("o")
    pane.shows("ended=2")
    assert "to add a place, name it in `writes`" in " ".join(pane.text.split())
    assert (program.workspace / "built").exists()
    assert not os.path.exists("/etc/evil")
