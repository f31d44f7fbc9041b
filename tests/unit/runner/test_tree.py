"""Claims about the end of a call's process tree: attacks, tried on the kernel."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import time
import uuid

import pytest

from crabpot.runner.exec import proc
from tests.unit.runner.driver import (
    MAIN,
    NOBODY,
    SYSTEM_PYTHON,
    RunnerProcess,
    eventually,
    in_own_pid_namespace,
    processes_with,
)

NAMESPACE = in_own_pid_namespace()
needs_namespace = pytest.mark.skipif(NAMESPACE is None, reason="unshare cannot make a user and pid namespace here")

# Forks a child that forks the next, and ends: there is never anything to signal but something that has just been born.
COMET = """
import os, sys
end = int(sys.argv[1])
if os.fork() == 0:
    for _ in range(end):
        os.setsid()
        if os.fork():
            os._exit(0)
"""

# Has the runner trace it, which is then told when it stops, too.
TRACED = "import ctypes, os; ctypes.CDLL(None).ptrace(0, 0, 0, 0); os.kill(os.getpid(), 10); print('ran on')"

# Every process of it forks for ever, also when it is refused, and does not listen.
BOMB = """
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    try:
        os.fork()
    except OSError:
        pass
"""

# Takes all processes that there are, and waits.
FILLER = """
import os, time
try:
    while os.fork():
        pass
except OSError:
    print("full", flush=True)
time.sleep(1000)
"""

# Its first thread ends, so that it looks like a zombie, while another one goes on.
HEADLESS = """
import ctypes, os, sys, threading, time
threading.Thread(target=lambda: [time.sleep(0.01) for _ in range(100_000)]).start()
print("ready", flush=True)
ctypes.CDLL(None).pthread_exit(None)
"""


@pytest.fixture
def runner():
    with RunnerProcess() as process:
        yield process


@pytest.fixture
def marker():
    return f"1000.{uuid.uuid4().int}"


def contained(**limits):
    """A runner that is pid 1 of a namespace, as an ordinary user, whose processes the kernel counts."""
    return RunnerProcess(
        start=[*NAMESPACE, SYSTEM_PYTHON, "-I", "-S", MAIN],
        contained=True,
        user=NOBODY if os.getuid() == 0 else None,
        limits=limits,
    )


def sleeper(marker):
    return f"sleep {marker}"


# --- nothing stays behind -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        "SLEEPER & sleep 1000",
        "(setsid SLEEPER &) ; sleep 1000",
        "(setsid sh -c '(setsid SLEEPER &)' &) ; sleep 1000",
        "trap '' TERM HUP; (trap '' TERM HUP; SLEEPER) & while :; do sleep 1; done",
        "SLEEPER & until grep -aq ^sleep /proc/$!/cmdline; do :; done; kill -STOP $!; sleep 1000",
    ],
)
def test_a_time_limit_ends_every_grandchild(runner, marker, command):
    call = runner.begin("exec", {"command": command.replace("SLEEPER", sleeper(marker))}, timeout=3)
    eventually(lambda: processes_with(marker, program="sleep"), "it runs")
    result = runner.result(call)
    assert result["error"]["code"] == "timeout"
    assert processes_with(marker) == []


def test_what_a_finished_command_left_behind_is_ended(runner, marker):
    result = runner.run(f"(setsid {sleeper(marker)} >/dev/null 2>&1 &); {sleeper(marker)} & echo done")
    assert (result["stdout"], result["exit_code"]) == ("done\n", 0)
    assert processes_with(marker) == []


def test_output_still_open_in_a_leftover_process_does_not_hold_the_call(runner):
    start = time.monotonic()
    assert runner.run("sleep 1000 & echo done")["stdout"] == "done\n"
    assert time.monotonic() - start < 5


def test_a_process_without_its_first_thread_is_ended_too(runner, marker):
    command = f"{sys.executable} -c '{HEADLESS}' {marker} & sleep 1000"
    call = runner.begin("exec", {"command": command}, stream=True, timeout=60)
    runner.until_output(call, b"ready")
    eventually(lambda: _looks_dead(runner), "its leader is gone")
    runner.send({"op": "cancel", "id": call})
    assert runner.result(call)["error"]["code"] == "cancelled"
    assert runner.run(f"pgrep -f {marker}; true")["stdout"].count("\n") <= 1  # The question itself.


def _looks_dead(runner):
    return " Z " in runner.run("cat /proc/[0-9]*/stat 2>/dev/null | grep -a '(python' ; true")["stdout"]


def test_what_forks_faster_than_it_is_found_is_ended(runner, marker):
    script = COMET.replace("'", '"')
    start = time.monotonic()
    result = runner.run(f"{sys.executable} -S -c '{script}' 100000 {marker}; echo out", timeout=10)
    assert result["stdout"] == "out\n"
    assert processes_with(marker) == []
    assert time.monotonic() - start < 10


def test_a_bounded_fork_bomb_is_swept(runner, marker):
    bomb = f"f() {{ if [ $1 -gt 0 ]; then f $(($1-1)) & f $(($1-1)) & fi; sleep 1000; : {marker}; }}; f 5"
    call = runner.begin("exec", {"command": bomb}, timeout=0.5)
    result = runner.result(call)
    assert result["error"]["code"] == "timeout"
    assert processes_with(marker) == []


def test_orphans_that_end_by_themselves_are_collected(runner):
    background = runner.run("for i in $(seq 30); do (setsid true &); done; sleep 1000", background=True)
    assert background["success"]

    def zombies():
        return runner.run(f"cat /proc/[0-9]*/stat | awk '$3 == \"Z\" && $4 == {runner.process.pid}' | wc -l")[
            "stdout"
        ].strip()

    eventually(lambda: zombies() == "0", "no zombie stays")


# --- and nothing else is touched ----------------------------------------------------------------------------------


def test_a_daemon_of_a_call_that_runs_survives_the_end_of_another(runner, marker):
    """It left the session of its call and lost its parent: only the mark that it inherited says whose it is."""
    owner = runner.begin("exec", {"command": f"(setsid {sleeper(marker)} &); echo up; sleep 1000"}, stream=True)
    runner.until_output(owner, b"up")
    eventually(lambda: processes_with(marker, program="sleep"), "the daemon runs")
    daemon = processes_with(marker, program="sleep")
    for _ in range(5):
        assert runner.run("(setsid sleep 1000 &); true")["success"]
    assert processes_with(marker, program="sleep") == daemon
    runner.send({"op": "cancel", "id": owner})
    runner.result(owner)
    assert processes_with(marker) == []


def test_a_daemon_of_a_background_process_lives_as_long_as_that(runner, marker):
    process = runner.run(f"(setsid {sleeper(marker)} &); sleep 1000", background=True)["data"]["process"]
    eventually(lambda: processes_with(marker, program="sleep"), "the daemon runs")
    for _ in range(3):
        runner.run("sleep 100 &")
    assert processes_with(marker, program="sleep")
    runner.call("process", {"action": "kill", "id": process})
    assert processes_with(marker) == []


def test_who_changes_the_mark_ends_with_the_first_call_that_ends(runner, marker):
    """A mark can be taken off, but not so as to outlive what is checked."""
    script = f"import os, resource, time; resource.setrlimit(10, (7, 7)); os.setsid(); time.sleep(1000) # {marker}"
    other = runner.begin("exec", {"command": "sleep 1000"})
    result = runner.run(
        f"({sys.executable} -c '{script}' &) ; until pgrep -f 'setrlimit.*{marker}' >/dev/null; do :; done"
    )
    assert result["success"]
    assert processes_with(marker) == []
    runner.send({"op": "cancel", "id": other})
    assert runner.result(other)["error"]["code"] == "cancelled"


def test_processes_of_the_machine_are_left_alone(runner):
    bystander = subprocess.Popen(["sleep", "1000"])
    try:
        runner.run("(setsid sleep 1000 &); sleep 1000", timeout=0.2)
        runner.run("sleep 1000 &")
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_runner_that_is_not_alone_does_not_believe_that_it_is_contained():
    bystander = subprocess.Popen(["sleep", "1000"])
    try:
        with RunnerProcess(contained=True) as runner:
            assert runner.process.pid != 1
            runner.run("sleep 1000 &")
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_signal_does_not_reach_a_process_that_has_another_parent():
    """The number of a process that ended is given out again: who is not the child that was meant is not signalled."""
    bystander = subprocess.Popen(["sh", "-c", "sleep 1000 & echo $!; wait"], stdout=subprocess.PIPE)
    try:
        assert bystander.stdout is not None
        stranger = int(bystander.stdout.readline())
        proc.send(stranger, 1, 9)
        cmdline = pathlib.Path(f"/proc/{stranger}/cmdline")
        eventually(lambda: cmdline.read_bytes().startswith(b"sleep"), "it lives, and gets to its program")
        proc.send(stranger, bystander.pid, 9)
        assert bystander.wait(10) == 0
    finally:
        bystander.kill()
        bystander.wait()
        bystander.stdout.close()


def test_a_name_full_of_brackets_does_not_hide_a_parent(tmp_path):
    program = tmp_path / ") R 1 1 (x"
    program.symlink_to("/bin/sleep")
    process = subprocess.Popen([str(program), "1000"])
    try:
        eventually(lambda: pathlib.Path(f"/proc/{process.pid}/comm").read_text() == ") R 1 1 (x\n", "it has its name")
        assert proc.parent_of(process.pid) == os.getpid()
    finally:
        process.kill()
        process.wait()


# --- in a namespace of its own ------------------------------------------------------------------------------------


@needs_namespace
def test_a_fork_bomb_in_a_sandbox_is_swept():
    with contained(processes=60) as runner:
        result = runner.run(f"{SYSTEM_PYTHON} -S -c '{BOMB}'", timeout=1)
        assert result["error"]["code"] == "timeout"
        assert runner.run("cd /proc; echo [0-9]*")["stdout"].count(" ") == 1, "the runner and the shell"


@needs_namespace
def test_at_the_process_limit_a_command_does_not_start_and_says_why():
    with contained(processes=20) as runner:
        filler = runner.begin("exec", {"command": f"{SYSTEM_PYTHON} -S -c '{FILLER}'"}, stream=True)
        runner.until_output(filler, b"full")
        for command in ({"command": "true"}, {"command": "true", "background": True}, {"command": "true", "tty": True}):
            assert runner.call("exec", command)["error"]["code"] == "process_limit"
        runner.send({"op": "cancel", "id": filler})
        runner.result(filler)
        assert runner.run("true")["success"]


@needs_namespace
def test_a_fork_bomb_is_swept_while_another_call_goes_on():
    with contained(processes=60) as runner:
        bystander = runner.begin("exec", {"command": "read line; echo got $line"}, input=True)
        result = runner.run(f"{SYSTEM_PYTHON} -S -c '{BOMB}'", timeout=1)
        assert result["error"]["code"] == "timeout"
        assert runner.run("cd /proc; echo [0-9]*")["stdout"].count(" ") == 2, "the runner, the other call, the shell"
        runner.send({"op": "input", "id": bystander}, b"word\n")
        assert runner.result(bystander)["stdout"] == "got word\n"


@needs_namespace
def test_what_forks_for_ever_is_ended_while_another_call_goes_on():
    with contained(processes=60) as runner:
        bystander = runner.begin("exec", {"command": "read line; echo got $line"}, input=True)
        script = COMET.replace("'", '"')
        result = runner.run(f"{SYSTEM_PYTHON} -S -c '{script}' 100000000", timeout=20)
        assert result["success"], result
        assert "COMET" not in result["stdout"]
        assert runner.run(f"pgrep -f {'[1]00000000'}; true")["stdout"] == ""
        runner.send({"op": "input", "id": bystander}, b"word\n")
        assert runner.result(bystander)["stdout"] == "got word\n"


@needs_namespace
def test_the_runner_is_out_of_reach_of_what_it_runs():
    with contained() as runner:
        result = runner.run(
            "cat /proc/1/mem; cat /proc/1/environ; ls /proc/1/fd; readlink /proc/1/exe; cat /proc/1/maps"
        )
        assert result["stdout"] == ""
        assert result["stderr"].count("Permission denied") >= 4


def test_a_command_that_has_the_runner_trace_it_ends_at_its_limit_alone(runner):
    other = runner.begin("exec", {"command": "sleep 2; echo other"})
    assert runner.run([SYSTEM_PYTHON, "-I", "-c", TRACED], timeout=1)["error"]["code"] == "timeout"
    assert runner.result(other)["stdout"] == "other\n"
    assert runner.run("echo on")["stdout"] == "on\n"
