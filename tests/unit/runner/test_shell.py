"""Claims about `exec`, tried on real commands over the wire."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import time
import uuid

import pytest

from tests.unit.runner.driver import ENV, RunnerProcess, eventually, processes_with


@pytest.fixture(scope="module")
def runner():
    with RunnerProcess() as process:
        yield process


# --- what a command gets ------------------------------------------------------------------------------------------


def test_a_command_is_shell_text(runner):
    result = runner.run("echo out; echo err >&2; for i in 1 2; do printf $i; done; exit 3")
    assert result["stdout"] == "out\n12"
    assert result["stderr"] == "err\n"
    assert (result["exit_code"], result["success"], result["error"]) == (3, False, None)


def test_the_environment_is_exactly_what_was_configured(runner):
    shown = runner.run("tr '\\0' '\\n' < /proc/$$/environ")["stdout"].splitlines()
    assert sorted(shown) == sorted(f"{name}={value}" for name, value in ENV.items())


def test_a_call_adds_to_the_environment_for_itself_alone(runner):
    assert runner.run("echo $EXTRA:$HOME", env={"EXTRA": "é\n", "HOME": "/x"})["stdout"] == "é :/x\n"
    assert runner.run("echo $EXTRA:$HOME")["stdout"] == ":/\n"


def test_a_command_inherits_no_descriptor_but_its_three(runner):
    extra = os.open("/dev/zero", os.O_RDONLY)
    os.set_inheritable(extra, True)
    try:
        with RunnerProcess() as fresh:
            listed = fresh.run("ls -1 /proc/self/fd; for i in 0 1 2; do readlink /proc/self/fd/$i; done")[
                "stdout"
            ].split()
    finally:
        os.close(extra)
    assert listed[:4] == ["0", "1", "2", "3"]  # The last one is the listing's own.
    assert listed[4] == "/dev/null"
    assert [name.partition(":")[0] for name in listed[5:]] == ["pipe", "pipe"]
    assert listed[5] != listed[6]


def test_a_command_inherits_no_descriptor_of_another_call(runner):
    waiting = runner.begin("exec", {"command": "cat"}, input=True)
    assert runner.run("ls -1 /proc/self/fd")["stdout"].split() == ["0", "1", "2", "3"]
    runner.send({"op": "input", "id": waiting, "eof": True})
    assert runner.result(waiting)["success"]


def test_signals_are_neither_ignored_nor_blocked_in_a_command(runner):
    status = runner.run("cat /proc/self/status")["stdout"]
    libc_s_own = 0b11 << 31  # No program can touch these two, so that they stay what the machine made them.
    for name in ("SigIgn", "SigBlk"):
        mask = int(re.search(rf"{name}:\s+(\w+)\n", status)[1], 16)
        assert mask & ~libc_s_own == 0, status


def test_a_pipe_whose_reader_left_ends_its_writer(runner):
    assert runner.run("yes | head -1", timeout=10)["stdout"] == "y\n"


def test_a_command_leads_its_own_session(runner):
    pid, group, session = runner.run("cut -d' ' -f1,5,6 < /proc/$$/stat; :")["stdout"].split()
    assert pid == group == session


def test_core_files_and_descriptors_are_limited(runner):
    assert runner.run("ulimit -c; ulimit -n; ulimit -Hn")["stdout"].split() == ["0", "1024", "1024"]


def test_a_file_larger_than_the_limit_is_not_written(tmp_path):
    with RunnerProcess(limits={"file_size": 8192}, workspace=str(tmp_path)) as runner:
        result = runner.run("head -c 100000 /dev/zero > big; echo $?; ls -l big | tr -s ' ' | cut -d' ' -f5")
    assert result["stdout"].split()[-1] == "8192"


# --- folders ------------------------------------------------------------------------------------------------------


def test_a_command_starts_in_the_workspace(runner):
    assert runner.run("pwd")["stdout"] == "/tmp\n"


def test_a_workspace_that_is_gone_is_an_error(tmp_path):
    workspace = tmp_path / "ws"
    workspace.mkdir()
    with RunnerProcess(workspace=str(workspace)) as runner:
        workspace.rmdir()
        assert runner.run("true")["error"]["code"] == "not_found"
        workspace.mkdir()
        assert runner.run("pwd")["stdout"] == f"{workspace}\n"


# --- standard input -----------------------------------------------------------------------------------------------


def test_text_for_stdin_arrives_whole(runner):
    assert runner.run("cat", stdin="é\n")["stdout"] == "é\n"
    assert runner.run("wc -c", stdin="x" * 500_000)["stdout"].strip() == "500000"
    assert runner.run("cat", stdin="")["stdout"] == ""


def test_stdin_that_nobody_reads_holds_nothing_up(runner):
    assert runner.run("exec 0<&-; echo done", stdin="x" * 500_000, timeout=10)["stdout"] == "done\n"


def test_streamed_input_is_acknowledged_as_it_is_read(runner):
    call = runner.begin("exec", {"command": "wc -c"}, input=True)
    room, total = 1 << 20, 8 << 20
    sent = 0
    while sent < total:
        if room >= 256 << 10:
            runner.send({"op": "input", "id": call}, b"z" * (256 << 10))
            sent += 256 << 10
            room -= 256 << 10
        else:
            header, _ = runner.receive()
            assert (header["op"], header["id"]) == ("ack", call)
            room += header["n"]
    runner.send({"op": "input", "id": call, "eof": True})
    assert runner.result(call)["stdout"].strip() == str(total)


def test_input_is_not_acknowledged_before_the_command_reads_it(runner):
    call = runner.begin("exec", {"command": "sleep 60"}, input=True)
    for _ in range(4):
        runner.send({"op": "input", "id": call}, b"x" * (256 << 10))
    assert runner.run("echo others go on")["stdout"] == "others go on\n"
    assert runner.acknowledged.get(call, 0) <= 128 << 10  # What the pipe took.
    runner.send({"op": "cancel", "id": call})
    assert runner.result(call)["error"]["code"] == "cancelled"


def test_more_input_than_the_window_allows_ends_the_runner():
    with RunnerProcess() as runner:
        call = runner.begin("exec", {"command": "sleep 60"}, input=True)
        with contextlib.suppress(OSError):  # It does not listen to the end.
            for _ in range(8):
                runner.send({"op": "input", "id": call}, b"x" * (1 << 20))
        assert runner.wait() == 1
        assert "window" in runner.complaint


# --- how it ended -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["KILL", "TERM", "SEGV", "USR1", "HUP"])
def test_a_signal_is_reported_by_name_and_number(runner, name):
    result = runner.run(f"kill -{name} $$")
    number = int(runner.run(f"kill -l {name} 2>/dev/null || env kill -l {name}")["stdout"])
    assert result["exit_code"] == 128 + number
    assert result["data"] == {"signal": f"SIG{name}"}
    assert not result["success"]


def test_an_exit_code_that_looks_like_a_signal_is_none(runner):
    result = runner.run("exit 137")
    assert (result["exit_code"], result["data"]) == (137, None)


def test_a_shell_that_cannot_start_is_an_error_and_no_exit_code(tmp_path):
    plain = tmp_path / "plain"
    plain.write_text("no program")
    for shell, code in ((str(tmp_path / "none"), "not_found"), (str(plain), "permission_denied")):
        with RunnerProcess(shell=[shell]) as runner:
            result = runner.run("true")
            assert (result["error"]["code"], result["exit_code"]) == (code, None)
            assert shell in result["error"]["message"]


@pytest.mark.parametrize(
    "args",
    [
        {},
        {"command": 1},
        {"command": "a\0b"},
        {"command": "\ud800"},
        {"command": "true", "stdin": 1},
        {"command": "true", "stdin": "\ud800"},
        {"command": "true", "env": []},
        {"command": "true", "env": {"A": 1}},
        {"command": "true", "env": {"A=B": "x"}},
        {"command": "true", "env": {"": "x"}},
        {"command": "true", "env": {"A": "x\0"}},
        {"command": "true", "tty": {"rows": 0, "cols": 80}},
        {"command": "true", "tty": {"rows": True, "cols": 80}},
        {"command": "true", "tty": "yes"},
        {"command": "true", "tty": 0},
        {"command": "true", "cwd": ".\0/etc"},
        {"command": "true", "cwd": ""},
        {"command": "true", "background": "yes"},
        {"command": "true", "background": 0},
        {"command": "true", "cwd": 1},
        {"command": "x" * 200_000},
    ],
)
def test_arguments_that_make_no_sense_are_refused(runner, args):
    result = runner.call("exec", args)
    assert result["error"]["code"] == "invalid_arguments"
    assert not result["success"]


@pytest.mark.parametrize("timeout", [0, -1, True, "1", []])
def test_a_time_limit_that_is_none_is_refused(runner, timeout):
    assert runner.call("exec", {"command": "true"}, timeout=timeout)["error"]["code"] == "invalid_arguments"


def test_a_time_limit_ends_the_call_and_keeps_what_was_written(runner):
    start = time.monotonic()
    result = runner.run("echo before; sleep 60; echo after", timeout=0.2)
    assert time.monotonic() - start < 5
    assert result["error"] == {"code": "timeout", "message": "the time limit of 0.2 s was reached"}
    assert (result["stdout"], result["exit_code"], result["success"]) == ("before\n", None, False)


def test_a_command_may_tidy_up_when_its_time_is_over(runner):
    result = runner.run("trap 'echo tidied; exit 0' TERM; echo ready; while :; do sleep 0.01; done", timeout=0.3)
    assert result["error"]["code"] == "timeout"
    assert result["stdout"] == "ready\ntidied\n"


def test_a_cancelled_command_ends(runner):
    call = runner.begin("exec", {"command": "echo begun; sleep 60"}, stream=True)
    runner.until_output(call, b"begun")
    runner.send({"op": "cancel", "id": call})
    result = runner.result(call)
    assert (result["error"]["code"], result["exit_code"]) == ("cancelled", None)


# --- output -------------------------------------------------------------------------------------------------------


def test_bytes_that_are_not_text_are_replaced(runner):
    assert runner.run("printf 'a\\377b'")["stdout"] == "a�b"


def test_both_ends_of_long_output_are_kept():
    with RunnerProcess(limits={"output": 2000}) as runner:
        result = runner.run("seq 1 10000; echo fine >&2")
    assert result["truncated"]
    head, cut, tail = re.split(r"\n\[crabpot: (\d+) bytes cut\]\n", result["stdout"])
    assert head.startswith("1\n2\n3\n")
    assert tail.endswith("9999\n10000\n")
    assert len(head) + int(cut) + len(tail) == len("".join(f"{number}\n" for number in range(1, 10001)))
    assert result["stderr"] == "fine\n"


@pytest.mark.parametrize("text", ["x", "\\000"])
def test_output_too_long_for_a_line_goes_ahead_of_the_result(runner, text):
    call = runner.begin("exec", {"command": f"head -c 900000 /dev/zero | tr '\\000' '{text}'; echo e >&2"})
    result = runner.result(call)
    assert result["success"]
    assert len(runner.output[call, "stdout"]) == 900_000
    assert runner.output[call, "stderr"] == b"e\n"
    assert result["stdout"] == result["stderr"] == ""


def test_a_gigabyte_of_output_ends_the_command_and_fills_no_memory(runner):
    def peak():
        return int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{runner.process.pid}/status").read_text())[1])

    before = peak()
    result = runner.run("head -c 1000000000 /dev/zero", timeout=60)
    assert result["error"]["code"] == "output_limit"
    assert str(64 << 20) in result["error"]["message"]
    assert result["truncated"]
    assert peak() - before < 8 << 10


def test_streamed_output_comes_while_the_command_runs(runner):
    call = runner.begin("exec", {"command": "echo one; read line; echo two $line"}, stream=True, input=True)
    assert runner.until_output(call, b"one\n") == b"one\n"
    runner.send({"op": "input", "id": call}, b"now\n")
    assert runner.until_output(call, b"two now\n") == b"two now\n"
    result = runner.result(call)
    assert (result["stdout"], result["exit_code"], result["success"]) == ("", 0, True)


def test_streamed_output_is_cut_in_the_middle_too():
    with RunnerProcess(limits={"output": 2000}) as runner:
        call = runner.begin("exec", {"command": "seq 1 100000"}, stream=True)
        result = runner.result(call)
        text = runner.output[call, "stdout"].decode()
    assert result["truncated"]
    assert text.startswith("1\n2\n")
    assert text.endswith("\n100000\n")
    assert "bytes cut]" in text
    assert len(text) < 2100


def test_a_consumer_that_stalls_stops_its_own_command_and_no_other():
    with RunnerProcess(limits={"output": 64 << 20}) as runner:
        stalled = runner.begin("exec", {"command": "head -c 20000000 /dev/zero"}, stream=True)
        received = 0
        while received < 1 << 20:
            header, payload = runner.receive()
            assert header["id"] == stalled
            received += len(payload)
        assert received == 1 << 20  # The window, to the byte.
        for number in range(5):
            assert runner.run(f"echo {number}")["stdout"] == f"{number}\n"
        runner.send({"op": "ack", "id": stalled, "n": received})
        result = runner.result(stalled)
        assert result["success"]
        assert received + len(runner.output[stalled, "stdout"]) == 20_000_000


def test_a_call_whose_output_nobody_takes_can_be_cancelled():
    with RunnerProcess(limits={"output": 8 << 20}) as runner:
        call = runner.begin("exec", {"command": "head -c 3000000 /dev/zero; touch ended"}, workspace="/tmp")
        while runner.receive()[0].get("op") != "output":
            pass
        runner.send({"op": "cancel", "id": call})
        assert runner.result(call, acknowledge=False)["error"]["code"] == "cancelled"
        assert runner.run("echo on")["stdout"] == "on\n"


def test_a_command_that_steals_from_its_own_pipe_does_not_hold_the_runner(runner):
    """Opened again by /proc, the pipe can be drained by the command between our being told of data and our reading it."""
    thief = runner.begin(
        "exec", {"command": "exec 3</proc/self/fd/1; while :; do echo x; head -c 2 <&3 >/dev/null; done"}
    )
    for _ in range(50):
        assert runner.run("echo y", timeout=10)["stdout"] == "y\n"
    runner.send({"op": "cancel", "id": thief})
    assert runner.result(thief)["error"]["code"] == "cancelled"


def test_a_command_that_closes_its_output_still_runs_to_its_end(runner):
    result = runner.run("echo a; exec 1>&- 2>&-; sleep 0.1; exit 7")
    assert (result["stdout"], result["exit_code"]) == ("a\n", 7)


def test_output_written_just_before_the_end_is_never_lost(runner):
    for number in range(100):
        assert runner.run(f"printf {number}; printf e >&2")["stdout"] == str(number)


# --- terminals ----------------------------------------------------------------------------------------------------


def test_a_terminal_has_its_size_and_controls_the_command(runner):
    result = runner.run(
        "stty size; tty; echo $TERM; cat /proc/self/stat | cut -d' ' -f7", tty={"rows": 33, "cols": 101}
    )
    size, name, term, controlling = result["stdout"].split("\r\n")[:4]
    assert size == "33 101"
    assert name.startswith("/dev/pts/")
    assert term == "xterm-256color"
    assert int(controlling) != 0


def test_a_terminal_that_is_resized_tells_the_command(runner):
    args = {"command": "trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.01; done", "tty": True}
    call = runner.begin("exec", args, stream=True)
    runner.until_output(call, b"ready")
    runner.send({"op": "resize", "id": call, "rows": 40, "cols": 120})
    runner.until_output(call, b"40 120")
    assert runner.result(call)["exit_code"] == 0


def test_a_terminal_passes_on_the_interrupt_key(runner):
    call = runner.begin(
        "exec",
        {"command": "trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.01; done", "tty": True},
        stream=True,
        input=True,
    )
    runner.until_output(call, b"ready")
    runner.send({"op": "input", "id": call}, b"\x03")
    runner.until_output(call, b"caught")
    assert runner.result(call)["exit_code"] == 5


def test_an_interactive_shell_has_job_control(runner):
    marker = f"1000.{uuid.uuid4().int}"
    args = {"command": "exec /bin/bash --norc -i", "tty": True, "env": {"PS1": "<prompt>"}}
    call = runner.begin("exec", args, stream=True, input=True)
    runner.send({"op": "input", "id": call}, f"sleep {marker}\n".encode())
    eventually(lambda: any(map(in_foreground, processes_with(marker, program="sleep"))), "sleep has the terminal")
    runner.send({"op": "input", "id": call}, b"\x1a")
    runner.until_output(call, b"Stopped")
    runner.send({"op": "input", "id": call}, b"kill %1; fg\necho all-$((40+2))\n")
    shown = runner.until_output(call, b"all-42")
    if b"<prompt>" not in shown.partition(b"all-42")[2]:
        runner.until_output(call, b"<prompt>")  # Before that, the shell does not take the character for the end.
    runner.send({"op": "input", "id": call, "eof": True})
    result = runner.result(call)
    assert result["error"] is None
    assert processes_with(marker) == []


def in_foreground(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    group, terminal_group = fields[2], fields[5]
    return group == terminal_group


@pytest.mark.parametrize("text", [b"", b"line\n", b"no line"])
def test_the_end_of_input_reaches_a_program_on_a_terminal(runner, text):
    call = runner.begin(
        "exec", {"command": "stty -echo; echo ready; cat; echo over", "tty": True}, stream=True, input=True, timeout=10
    )
    runner.until_output(call, b"ready\r\n")
    if text:
        runner.send({"op": "input", "id": call}, text)
    runner.send({"op": "input", "id": call, "eof": True})
    result = runner.result(call)
    assert result["error"] is None
    assert runner.output[call, "stdout"].endswith(b"over\r\n")


def test_what_a_terminal_shows_last_is_never_lost(runner):
    for number in range(50):
        assert runner.run(f"printf {number}", tty=True)["stdout"] == str(number)


def test_a_program_may_close_its_terminal_and_open_it_again(runner):
    result = runner.run("exec 0<&- 1>&- 2>&-; sleep 0.1; echo back > /dev/tty", tty=True)
    assert result["stdout"] == "back\r\n"


def test_an_interactive_session_has_no_output_limit():
    with RunnerProcess(limits={"output": 2000}) as runner:
        call = runner.begin("exec", {"command": "seq 1 20000", "tty": True}, stream=True)
        result = runner.result(call)
        assert not result["truncated"]
        assert runner.output[call, "stdout"].count(b"\n") == 20_000


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({"cmd": "ls"}, "exec has no argument 'cmd'; it takes command, cwd?"),
        ({"command": "ls", "place": "host"}, "no argument 'place'"),
        ({}, "exec needs the argument command"),
    ],
)
def test_an_argument_that_there_is_not_is_refused_with_those_that_there_are(runner, args, said):
    answer = runner.call("exec", args)
    assert answer["error"]["code"] == "invalid_arguments"
    assert said in answer["error"]["message"]
