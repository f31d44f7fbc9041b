"""`crabpot exec` and `crabpot shell`: a command's streams, terminal and exit code are those of the command itself."""

from __future__ import annotations

import hashlib
import os
import pty
import select
import shlex
import signal
import subprocess
import sys
import termios
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import pytest

from tests.support.terminal import Terminal
from tests.support.waiting import wait_until

# --- exit codes, blueprint §10 -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [0, 1, 2, 3, 124, 125, 126, 127, 255])
def test_the_exit_code_is_the_commands_own(placed, code):
    assert placed("exec", "--", f"exit {code}").code == code


def test_a_command_that_a_signal_ended_says_so_as_a_shell_would(placed):
    assert placed("exec", "--", "kill -9 $$").code == 137
    assert placed("exec", "--", "kill -15 $$").code == 143


def test_a_command_that_there_is_not_is_the_shells_own_failure(placed):
    ended = placed("exec", "--", "no-such-command-anywhere")
    assert ended.code == 127
    assert "not found" in ended.err


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may be nicer to itself")
def test_a_gateway_that_is_nicer_to_itself_does_not_pass_that_on(crabpot):
    nicer = replace(crabpot, argv=("nice", "-n", "-5", *crabpot.argv))
    assert nicer("exec", "--", "nice").out == "0\n"


def test_a_time_limit_that_is_reached_is_124(placed):
    ended = placed("exec", "--timeout", "0.2", "--", "echo begun; sleep 1000")
    assert (ended.code, ended.out) == (124, "begun\n")
    assert "crabpot: timeout: the time limit of 0.2 s was reached" in ended.err


def test_what_is_denied_is_126(placed):
    placed.configure('{agents: {defaults: {sandbox: {mode: "off"}}}, tools: {deny: ["exec"]}}')
    ended = placed("exec", "--", "touch ran")
    assert ended.code == 126
    assert 'tools.deny[0] "exec"' in ended.said()
    assert not (placed.workspace / "ran").exists()


def test_what_nobody_approved_is_126(crabpot, tmp_path):
    crabpot.configure('{tools: {elevated: {enabled: true, patterns: ["touch *"], approvalTimeout: 0.3}}}')
    ended = crabpot("exec", "--", "touch", str(tmp_path / "ran"))
    assert ended.code == 126
    assert "approval_timeout" in ended.said()
    assert not (tmp_path / "ran").exists()


OWN_FAILURES = {
    "a configuration that does not load": ["exec", "--config", "bad.json5", "--", "true"],
    "a configuration that is not there": ["exec", "--config", "missing.json5", "--", "true"],
    "no command": ["exec"],
    "an unknown option": ["exec", "--bogus", "--", "true"],
    "a time limit that is no number": ["exec", "--timeout", "soon", "--", "true"],
    "a time limit above the ceiling": ["exec", "--timeout", "1e9", "--", "true"],
    "a time limit that is not a number at all": ["exec", "--timeout", "nan", "--", "true"],
    "a folder that is not there": ["exec", "--cwd", "nowhere", "--", "true"],
    "an empty session": ["exec", "--session", "", "--", "true"],
    "a state folder that is a file": ["exec", "--state", "bad.json5", "--", "true"],
}


@pytest.mark.parametrize("name", OWN_FAILURES)
def test_a_failure_of_crabpots_own_is_125_and_a_sentence(placed, name):
    (placed.home / "bad.json5").write_text("{agents: {defaults: {sandbox: {mode: 'sometimes'}}}}")
    ended = placed(*OWN_FAILURES[name])
    assert ended.code == 125
    assert ended.out == ""
    assert "crabpot" in ended.err
    assert "Traceback" not in ended.err


def test_a_runner_that_dies_is_125_and_never_the_commands_output(placed):
    ended = placed("exec", "--", "kill -9 $PPID; sleep 2")
    assert (ended.code, ended.out) == (125, "")
    assert "sandbox_lost" in ended.err


# --- the words of the command --------------------------------------------------------------------------------------------


def test_one_argument_is_shell_text_and_several_are_words(placed):
    assert placed("exec", "--", "echo a; echo b").out == "a\nb\n"
    assert placed("exec", "--", "printf", "%s|", "a b", "$HOME", "*", "", "'").out == "a b|$HOME|*||'|"
    assert placed("exec", "--", "sh", "-c", 'echo "$@"', "--", "--tty", "-x").out == "--tty -x\n"


def test_options_of_ours_after_the_dashes_are_the_commands(placed):
    assert placed("exec", "--", "echo", "--config", "x", "--state", "y").out == "--config x --state y\n"


def test_the_folder_and_the_environment_are_those_of_the_place(placed):
    (placed.workspace / "sub").mkdir()
    assert placed("exec", "--cwd", "sub", "--", "pwd").out == f"{placed.workspace}/sub\n"
    assert placed("exec", "--", "pwd").out == f"{placed.workspace}\n"


# --- streams -------------------------------------------------------------------------------------------------------------


def test_output_and_errors_stay_apart(placed):
    ended = placed("exec", "--", "echo out; echo err >&2")
    assert (ended.out, ended.err) == ("out\n", "err\n")


def test_standard_input_passes_through_byte_by_byte(placed):
    content = os.urandom(700_000)
    done = subprocess.run(
        [*placed.argv, "exec", "--", "cat"],
        input=content,
        stdout=subprocess.PIPE,
        env=placed.environ,
        timeout=60,
        check=True,
    )
    assert done.stdout == content


def test_standard_input_from_a_file_passes_through(placed, tmp_path):
    content = os.urandom(3_000_000)
    (tmp_path / "input").write_bytes(content)
    with (tmp_path / "input").open("rb") as stream:
        command = [*placed.argv, "exec", "--", "sha256sum; wc -c < /dev/null"]
        done = subprocess.run(command, stdin=stream, capture_output=True, env=placed.environ, timeout=60, check=True)
    assert done.stdout.split()[0].decode() == hashlib.sha256(content).hexdigest()


def test_an_end_of_the_input_is_an_end_inside(placed):
    assert placed("exec", "--", "cat; echo end", stdin=b"text").out == "textend\n"


@pytest.mark.parametrize("through", ["a gateway of its own", "serve"])
def test_whoever_pipes_something_to_a_command_that_runs_on_the_host_is_told_that_it_is_not_read(crabpot, through):
    crabpot.configure('{tools: {elevated: {enabled: true, patterns: ["sleep *"], requireApproval: false}}}')
    with crabpot.serving() if through == "serve" else nullcontext():
        piped, silent = (crabpot("exec", "--", "sleep 1", stdin=given) for given in (b"text", b""))
    assert (piped.code, piped.out) == (silent.code, silent.out) == (0, "")
    assert "on the host a command gets no input" in piped.err
    assert "no input" not in silent.err


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed_do_no_harm(placed, closed):
    command = f"{shlex.join([*placed.argv, 'exec', '--', 'cat; touch ran'])} {closed}"
    done = subprocess.run(["sh", "-c", command], env=placed.environ, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr
    assert (placed.workspace / "ran").exists()


def test_input_that_nobody_reads_does_not_keep_a_finished_command(placed):
    reader, writer = os.pipe()
    started = placed.start("exec", "--", "echo done", stdin=reader, stdout=subprocess.PIPE)
    try:
        out, _ = started.communicate(timeout=30)
        assert (started.returncode, out) == (0, b"done\n")
    finally:
        started.kill()
        os.close(reader)
        os.close(writer)


def test_a_reader_that_leaves_ends_the_command_quietly(placed):
    command = f"{shlex.join([*placed.argv, 'exec', '--', 'echo $$ > pid; exec yes'])} | head -1"
    done = subprocess.run(
        ["bash", "-c", f"{command}; echo ${{PIPESTATUS[0]}}"],
        env=placed.environ,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == b"y\n141\n"
    assert done.stderr == b""
    pid = (placed.workspace / "pid").read_text().strip()
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"))


def test_output_comes_while_the_command_runs(placed):
    started = placed.start("exec", "--", "echo first; cat", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert started.stdout.readline() == b"first\n"
        out, _ = started.communicate(b"second\n", timeout=30)
        assert out == b"second\n"
    finally:
        started.kill()
        started.wait()


def test_a_large_output_is_passed_on_whole_whatever_a_result_may_hold(placed):
    placed.configure('{agents: {defaults: {sandbox: {mode: "off", limits: {output: "10k"}}}}}')
    ended = placed("exec", "--", "seq 100000")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == "".join(f"{number}\n" for number in range(1, 100_001))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_told_to_end_it_ends_the_command_first(placed, number, request):
    if signal.getsignal(number) is signal.SIG_IGN:
        # As under nohup: what we start would ignore it too.
        request.addfinalizer(partial(signal.signal, number, signal.SIG_IGN))
        signal.signal(number, signal.SIG_DFL)
    started = placed.start("exec", "--", "echo $$ > pid; trap '' HUP INT; sleep 1000", stderr=subprocess.PIPE)
    pid = placed.workspace / "pid"
    wait_until(lambda: pid.exists() and pid.read_text())
    started.send_signal(number)
    _, complaints = started.communicate(timeout=30)
    assert started.returncode == (130 if number == signal.SIGINT else 143)
    assert complaints == b""
    assert not os.path.exists(f"/proc/{pid.read_text().strip()}")


def test_killed_it_leaves_no_process(placed):
    started = placed.start("exec", "--", "echo $$ > pid; setsid sleep 1000 & wait")
    pid = placed.workspace / "pid"
    wait_until(lambda: pid.exists() and pid.read_text())
    started.kill()
    started.wait()
    wait_until(lambda: not os.path.exists(f"/proc/{pid.read_text().strip()}"))


# --- terminals -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def at_terminal(placed):
    made = []

    def start(*arguments, **size):
        made.append(Terminal(placed, *arguments, **size))
        return made[-1]

    yield start
    for one in made:
        one.close()


def test_a_terminal_inside_has_the_size_and_kind_of_the_one_outside(at_terminal):
    one = at_terminal("exec", "--tty", "--", "test -t 0 && test -t 1 && stty size && echo kind $TERM", rows=31, cols=97)
    one.wait_for("31 97")
    one.wait_for("kind xterm-color")
    assert one.end() == 0


def test_a_new_size_reaches_the_program_inside(at_terminal):
    command = "trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 0.01; done"
    one = at_terminal("exec", "--tty", "--", command)
    one.wait_for("ready")
    one.resize(44, 123)
    one.wait_for("44 123")
    assert one.end() == 0


def test_a_terminal_wider_than_any_does_not_cost_the_call(at_terminal):
    one = at_terminal("exec", "--tty", "--", "stty size", rows=2000, cols=3000)
    one.wait_for("1000 1000")
    assert one.end() == 0


def test_ctrl_c_reaches_the_program_inside_and_not_ours(at_terminal):
    one = at_terminal("exec", "--tty", "--", "trap 'echo caught; exit 7' INT; echo ready; while :; do sleep 0.01; done")
    one.wait_for("ready")
    one.type("\x03")
    one.wait_for("caught")
    assert one.end() == 7


def test_keys_and_the_end_of_the_input_reach_the_program(at_terminal):
    one = at_terminal("exec", "--tty", "--", "cat; echo end")
    one.type("héllo\r")
    one.wait_for("héllo\r\nhéllo\r\n")
    one.type("\x04")
    one.wait_for("end")
    assert one.end() == 0


def test_the_terminal_is_given_back_as_it_was(at_terminal):
    one = at_terminal("exec", "--tty", "--timeout", "0.3", "--", "echo ready; sleep 1000")
    before = termios.tcgetattr(one.fd)
    one.wait_for("ready")
    assert not termios.tcgetattr(one.fd)[3] & termios.ICANON
    one.wait_for("timeout")
    assert termios.tcgetattr(one.fd) == before
    assert one.end() == 124


def test_told_to_end_it_gives_the_terminal_back(at_terminal):
    one = at_terminal("exec", "--tty", "--", "echo ready; sleep 1000")
    before = termios.tcgetattr(one.fd)
    one.wait_for("ready")
    os.kill(one.pid, signal.SIGTERM)
    assert one.end() == 143
    assert termios.tcgetattr(one.fd) == before


def test_a_terminal_without_one_outside_has_the_usual_size(placed):
    ended = placed("exec", "--tty", "--", "stty size")
    assert (ended.code, ended.out.replace("\r", "")) == (0, "24 80\n")


def test_a_shell_inside_is_interactive_and_its_exit_code_is_ours(at_terminal):
    one = at_terminal("shell")
    one.type("echo $((6*7))-in-$(pwd)\r")
    one.wait_for("42-in-/")
    # What prints is what is interrupted: a signal that meets a shell between two commands can be lost, as at any terminal.
    one.type("echo $((20+3))-seconds >said; tail -f said; echo not-reached\r")
    one.wait_for("23-seconds")
    one.type("\x03")
    one.wait_for("^C")
    one.type("echo $((50+5))-left; stty size; exit 5\r")
    one.wait_for("55-left")
    one.wait_for("24 80")
    assert one.end() == 5


def test_a_shell_without_a_terminal_says_what_to_do(placed):
    ended = placed("shell")
    assert ended.code == 2
    assert "crabpot exec" in ended.said()


def test_in_the_background_of_a_terminal_it_does_not_stop(placed, at_terminal):
    """A program that reads the terminal from the background is stopped by it, whole."""
    script = f"set -m; {shlex.join([*placed.argv, 'exec', '--', 'sleep 0.2; touch ran'])} & wait; echo waited"
    pid, fd = pty.fork()
    if pid == 0:
        os.execve("/bin/bash", ["bash", "-c", script], placed.environ)
    try:
        seen = b""
        while b"waited" not in seen:
            assert select.select([fd], [], [], 30)[0], seen
            seen += os.read(fd, 4096)
        assert (placed.workspace / "ran").exists()
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(fd)


def test_a_full_screen_program_in_tmux(placed):
    """The whole way: a terminal emulator, raw mode, the alternate screen, keys, and back."""
    script = placed.home / "screen.py"
    script.write_text(
        "import sys, tty, os\n"
        "tty.setraw(0)\n"
        "sys.stdout.write('\\x1b[?1049h\\x1b[2J\\x1b[5;10Hfull screen here'); sys.stdout.flush()\n"
        "key = os.read(0, 1)\n"
        "sys.stdout.write('\\x1b[?1049l'); sys.stdout.flush()\n"
        "print('pressed', key, end='\\r\\n')\n"
    )
    socket = f"crabpot-test-{os.getpid()}"
    tmux = ["tmux", "-L", socket, "-f", "/dev/null"]
    inside = shlex.join([*placed.argv, "exec", "--tty", "--", f"{shlex.quote(sys.executable)} {script}"])
    command = f"{inside}; echo code $?; exec sleep 1000"
    environ = {**placed.environ, "TERM": "xterm"}

    def shown():
        return subprocess.run([*tmux, "capture-pane", "-p"], capture_output=True, text=True, check=False).stdout

    subprocess.run([*tmux, "new-session", "-d", "-x", "90", "-y", "20", command], env=environ, check=True)
    try:
        wait_until(lambda: shown().split("\n")[4:5] == [" " * 9 + "full screen here"])
        subprocess.run([*tmux, "send-keys", "q"], check=True)
        wait_until(lambda: "pressed b'q'" in shown() and "code 0" in shown())
        assert "full screen here" not in shown()
    finally:
        subprocess.run([*tmux, "kill-server"], check=False)
