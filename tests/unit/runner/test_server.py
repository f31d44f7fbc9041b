"""Claims about the runner as a server: its start, its wire, and tools of every kind."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from typing import Any

import pytest

from crabpot.runner.core.frames import ACK_EVERY, FrameReader, encode
from tests.unit.runner.driver import (
    ENV,
    FAKE_TOOLS,
    FOLDER,
    MAIN,
    PATIENCE_S,
    PYTHON,
    SYSTEM_PYTHON,
    RunnerProcess,
    eventually,
    processes_with,
)


def with_fakes(**hello):
    return RunnerProcess(start=[PYTHON, "-I", "-S", FAKE_TOOLS, str(FOLDER)], **hello)


@pytest.fixture(scope="module")
def fakes():
    with with_fakes() as process:
        yield process


@pytest.fixture
def runner():
    with RunnerProcess() as process:
        yield process


# --- start --------------------------------------------------------------------------------------------------------


def interpreters():
    """Yield the Pythons of this machine. A script that looks for one of them takes ten times as long, in every process of a run."""
    found = [sys.executable, SYSTEM_PYTHON, *(shutil.which(f"python3.{minor}") for minor in range(9, 20))]
    for path in {os.path.realpath(path): path for path in reversed(list(filter(None, found)))}.values():
        with open(path, "rb") as file:
            program = file.read(4) == b"\x7fELF"
        probe = [path, "-c", "import sys; print(sys.version_info >= (3, 9))"]
        if program and subprocess.run(probe, capture_output=True, check=False).stdout == b"True\n":
            yield path


@pytest.mark.parametrize("python", list(interpreters()))
def test_every_python_of_this_machine_runs_it(python):
    with RunnerProcess(start=[python, "-I", "-S", MAIN]) as runner:
        assert runner.run("echo hi")["stdout"] == "hi\n"
        assert runner.ready["protocol"] == 1
        assert runner.ready["pid"] == runner.process.pid


@pytest.mark.parametrize("arguments", [["-I", "-S", MAIN], ["-I", "-S", str(FOLDER)], ["-m", "crabpot.runner"]])
def test_it_starts_as_a_file_as_a_folder_and_as_a_module(arguments, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(FOLDER.parent.parent))
    with RunnerProcess(start=[PYTHON, *arguments]) as runner:
        assert runner.run("echo hi")["stdout"] == "hi\n"


def test_it_starts_from_a_copy_that_has_nothing_beside_it(tmp_path):
    shutil.copytree(FOLDER, tmp_path / "anything", ignore=shutil.ignore_patterns("__pycache__"))
    with RunnerProcess(start=[PYTHON, "-I", "-S", str(tmp_path / "anything" / "__main__.py")]) as runner:
        assert runner.run("echo hi")["stdout"] == "hi\n"


def test_what_lies_beside_the_runner_is_not_imported(tmp_path):
    shutil.copytree(FOLDER, tmp_path / "runner")
    for name in ("select", "posix", "resource", "json", "os", "errno"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('planted')")
    with RunnerProcess(start=[PYTHON, "-I", "-S", str(tmp_path / "runner")]) as runner:
        assert runner.run("echo hi")["stdout"] == "hi\n"


def test_the_start_imports_almost_nothing():
    listing = subprocess.run(
        [PYTHON, "-I", "-S", "-X", "importtime", MAIN, "--fd", "0"],
        input=encode({"op": "end"}),
        capture_output=True,
        check=False,
    ).stderr.decode()
    imported = {line.rpartition("|")[2].strip() for line in listing.splitlines() if line.startswith("import time:")}
    bare = subprocess.run(
        [PYTHON, "-I", "-S", "-X", "importtime", "-c", ""], capture_output=True, check=True
    ).stderr.decode()
    known = {line.rpartition("|")[2].strip() for line in bare.splitlines()}
    extra = {name for name in imported - known if not name.startswith("crabpot_runner")}
    assert extra <= {"__future__", "_ctypes", "_json", "_stat", "errno", "resource", "select", "time"}


def test_it_speaks_over_its_standard_streams_too():
    process = subprocess.Popen([PYTHON, "-I", "-S", MAIN], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        process.stdin.write(
            encode(
                {
                    "op": "hello",
                    "workspace": "/tmp",
                    "roots": ["/tmp"],
                    "env": ENV,
                    "shell": ["/bin/sh"],
                    "limits": {"output": 4096},
                    "contained": False,
                }
            )
            + encode({"id": "1", "tool": "exec", "args": {"command": "cat; readlink /proc/self/fd/0"}})
        )
        process.stdin.flush()
        reader = FrameReader()
        frames: list[Any] = []
        while len(frames) < 2:
            frames += reader.feed(os.read(process.stdout.fileno(), 65536))
        assert frames[1][0]["stdout"] == "/dev/null\n"
        process.stdin.close()
        assert process.wait(PATIENCE_S) == 0


def test_wrong_arguments_are_refused():
    for arguments, told in ((["--fd"], b"usage"), (["--fd", "x"], b"usage"), (["other"], b"--socket")):
        process = subprocess.run([PYTHON, "-I", "-S", MAIN, *arguments], capture_output=True, check=False)
        assert process.returncode in (1, 2)
        assert told in process.stderr


# --- the wire -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"op": "ready"},
        {"workspace": None},
        {"workspace": "relative"},
        {"workspace": "/a\0b"},
        {"roots": []},
        {"roots": "/"},
        {"roots": ["x"]},
        {"env": None},
        {"env": {"A": None}},
        {"env": {"A=": "x"}},
        {"shell": []},
        {"shell": [1]},
        {"limits": None},
        {"limits": {"output": None}},
        {"limits": {"output": 10}},
        {"limits": {"output": 4096, "processes": -1}},
        {"limits": {"output": 4096, "open_files": "many"}},
        {"limits": {"output": 4096, "open_files": True}},
        {"contained": None},
    ],
)
def test_a_greeting_that_is_incomplete_ends_the_runner(change):
    runner = RunnerProcess(**{key: value for key, value in change.items() if key != "limits"})
    runner.hello.update(change)
    runner.send(runner.hello)
    with pytest.raises(EOFError):
        runner.receive()
    assert runner.close() == 1
    assert runner.complaint.startswith("crabpot runner: broken frame:")


@pytest.mark.parametrize(
    "raw",
    [
        b"\n",
        b"no frame\n",
        b"[1]\n",
        b"\xff\n",
        b'{"bytes":-5}\n',
        b"[" * 100_000 + b"\n",
        b"x" * (2 << 20),
        encode({"tool": "exec", "args": {"command": "true"}}),
        encode({"id": "", "tool": "exec"}),
        encode({"id": 7, "tool": "exec"}),
        encode({"id": "x" * 65, "tool": "exec"}),
        encode({"op": "hello"}),
        encode({"op": "dance", "id": "1"}),
        encode({"op": 1}),
        encode({"op": "cancel"}),
        encode({"op": "ack", "id": "1"}),
        encode({"op": "ack", "id": "1", "n": -1}),
        encode({"op": "ack", "id": "1", "n": True}),
        encode({"op": "resize", "id": "1", "rows": 0, "cols": 1}),
        encode({"op": "resize", "id": "1", "rows": 1}),
        encode({"op": "reply", "up": "1"}),
        encode({"op": "input", "id": 5}, b"x"),
    ],
)
def test_what_is_no_frame_ends_the_runner_and_all_that_it_runs(raw):
    marker = f"marker-{uuid.uuid4()}"
    with RunnerProcess() as runner:
        runner.begin("exec", {"command": f"sh -c 'sleep 1000; : {marker}'; :"})
        eventually(lambda: processes_with(marker), "it runs")
        with contextlib.suppress(OSError):  # It does not listen to the end.
            runner.socket.sendall(raw)
        with pytest.raises(EOFError):
            runner.receive()
        assert runner.wait() == 1
        assert runner.complaint.startswith("crabpot runner: broken frame:")
        assert processes_with(marker) == []


def test_input_for_a_call_that_takes_none_ends_the_runner():
    with RunnerProcess() as runner:
        call = runner.begin("exec", {"command": "sleep 1000"})
        runner.send({"op": "input", "id": call}, b"x")
        with pytest.raises(EOFError):
            runner.receive()
        assert runner.wait() == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_runner_that_is_told_to_end_takes_its_commands_along(number):
    marker = f"marker-{uuid.uuid4()}"
    with RunnerProcess() as runner:
        runner.begin("exec", {"command": f"trap '' TERM INT HUP; sh -c 'sleep 1000; : {marker}'; :"})
        eventually(lambda: processes_with(marker), "it runs")
        runner.process.send_signal(number)
        assert runner.wait() == 0
        assert processes_with(marker) == []


def test_what_comes_too_late_for_a_call_is_ignored(runner):
    call = runner.begin("exec", {"command": "true"}, input=True)
    runner.result(call)
    runner.send({"op": "input", "id": call}, b"late")
    runner.send({"op": "input", "id": call, "eof": True})
    runner.send({"op": "cancel", "id": call})
    runner.send({"op": "ack", "id": call, "n": 5})
    runner.send({"op": "resize", "id": call, "rows": 5, "cols": 5})
    assert runner.run("echo on")["stdout"] == "on\n"


def test_an_id_that_is_taken_is_refused_and_keeps_its_call(runner):
    call = runner.begin("exec", {"command": "read line; echo first $line"}, input=True)
    runner.send({"id": call, "tool": "exec", "args": {"command": "echo second"}})
    assert runner.result(call)["error"]["code"] == "invalid_arguments"
    runner.send({"op": "input", "id": call}, b"x\n")
    assert runner.result(call)["stdout"] == "first x\n"
    runner.send({"id": call, "tool": "exec", "args": {"command": "echo third"}})
    assert runner.result(call)["stdout"] == "third\n"


def test_calls_are_answered_as_they_finish(runner):
    slow = runner.begin("exec", {"command": "read line"}, input=True)
    quick = [runner.begin("exec", {"command": f"echo {number}"}) for number in range(20)]
    answers: dict[str, Any] = {}
    while len(answers) < 20:
        header, _ = runner.receive()
        answers[header["id"]] = header["stdout"]
    assert answers == {call: f"{number}\n" for number, call in enumerate(quick)}
    runner.send({"op": "input", "id": slow, "eof": True})
    assert runner.result(slow)["exit_code"] == 1


def test_a_hundred_calls_at_once_are_all_answered(runner):
    calls = [
        runner.begin("exec", {"command": f"echo {number}; exit {number}"}, stream=number % 2 == 0)
        for number in range(100)
    ]
    answers: dict[str, Any] = {}
    output = {}
    while len(answers) < 100:
        header, payload = runner.receive()
        if header.get("op") == "output":
            output[header["id"]] = payload.decode()
        else:
            answers[header["id"]] = header
    for number, call in enumerate(calls):
        assert answers[call]["exit_code"] == number
        assert (answers[call]["stdout"] or output[call]) == f"{number}\n"


def test_a_gateway_that_reads_nothing_fills_no_memory():
    """It may not even keep asking: while its answers wait, its questions are not read."""
    with with_fakes() as runner:
        question = {"tool": "echo", "args": {"text": "x" * 100_000}}
        runner.socket.settimeout(1)
        sent = 0
        with contextlib.suppress(TimeoutError):
            while sent < 10_000:
                runner.socket.sendall(encode({"id": str(sent), **question}))
                sent += 1
        assert sent < 1000
        peak = re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{runner.process.pid}/status").read_text())
        assert peak is not None
        assert int(peak[1]) < 64 << 10
        runner.socket.settimeout(PATIENCE_S)
        for _ in range(sent):
            assert runner.receive()[0]["success"]


# --- tools --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", ["echo", "forked_echo"])
def test_a_tool_answers_with_data_and_payload(fakes, tool):
    result = fakes.call(tool, {"a": [1, "é"]})
    assert result["data"] == {"args": {"a": [1, "é"]}, "workspace": "/tmp"}
    assert result["payload"] == b"echo"
    assert (result["success"], result["exit_code"], result["error"]) == (True, None, None)


@pytest.mark.parametrize(
    ("tool", "code", "message"),
    [
        ("refuse", "no_match", "refused"),
        ("forked_refuse", "no_match", "refused"),
        ("crash", "internal", "ZeroDivisionError"),
        ("exhaust", "memory_limit", "memory"),
        ("vanish", "not_found", "/does/not/exist"),
        ("huge", "output_limit", "too large"),
        ("forked_huge", "output_limit", "too large"),
        ("unheard_of", "not_found", "unheard_of"),
    ],
)
def test_a_tool_that_fails_says_so_and_the_runner_goes_on(fakes, tool, code, message):
    result = fakes.call(tool)
    assert (result["success"], result["error"]["code"]) == (False, code)
    assert message in result["error"]["message"]
    assert fakes.call("echo")["success"]


@pytest.mark.parametrize(("tool", "args"), [(None, {}), (5, {}), ("echo", []), ("echo", "x"), ("exec", ["ls"])])
def test_a_call_without_the_shape_of_one_is_refused(fakes, tool, args):
    fakes.send({"id": "shape", "tool": tool, "args": args})
    assert fakes.result("shape")["error"]["code"] == "invalid_arguments"


def test_a_search_that_never_ends_is_ended_by_its_time_limit(fakes):
    call = fakes.begin("spin", timeout=0.3)
    assert fakes.call("echo")["success"]
    assert fakes.result(call)["error"]["code"] == "timeout"


def test_a_search_can_be_cancelled(fakes):
    call = fakes.begin("spin")
    fakes.send({"op": "cancel", "id": call})
    assert fakes.result(call)["error"]["code"] == "cancelled"


def test_a_search_holds_no_descriptor_of_another_call(fakes):
    waiting = fakes.begin("exec", {"command": "cat"}, input=True)
    held = fakes.call("descriptors")["data"]["fds"]
    assert len([name for name in held if name.startswith("pipe:")]) == 1  # Its own answer's.
    assert not [name for name in held if "socket" in name or "epoll" in name]
    spinning = fakes.begin("spin")
    fakes.send({"op": "input", "id": waiting, "eof": True})
    assert fakes.result(waiting)["success"]
    fakes.send({"op": "cancel", "id": spinning})
    fakes.result(spinning)


def test_a_search_that_is_killed_is_an_error(fakes):
    call = fakes.begin("spin")

    def spinning():
        return fakes.run(f"pgrep -P {fakes.process.pid} -f fake_tools")["stdout"].split()

    eventually(spinning, "it runs")
    fakes.run(f"kill -9 {spinning()[0]}")
    result = fakes.result(call)
    assert result["error"] == {"code": "internal", "message": "the search ended early: signal 9"}


def test_a_folder_to_start_in_is_opened_by_the_file_tools(fakes, tmp_path):
    assert fakes.run("pwd", cwd=str(tmp_path))["stdout"] == f"{tmp_path}\n"
    assert fakes.call("exec", {"command": "pwd"}, cwd=str(tmp_path))["stdout"] == f"{tmp_path}\n"
    assert fakes.run("pwd")["stdout"] == "/tmp\n"
    assert fakes.run("pwd", cwd="/does/not/exist")["error"]["code"] == "not_found"


def test_a_large_file_is_streamed_in_order_with_others_in_between(fakes):
    call = fakes.begin("read", {"pieces": 40}, stream=True)
    header, payload = fakes.receive()
    content = bytearray(payload)
    assert (header["op"], header["stream"]) == ("output", "content")
    other = fakes.begin("echo")
    acknowledged = answered = False
    result = None
    while result is None:
        header, payload = fakes.receive()
        if header.get("op") == "output":
            content += payload
            if not acknowledged and len(content) == 1 << 20:  # The window: nothing comes until it is opened.
                acknowledged = True
                fakes.send({"op": "ack", "id": call, "n": len(content)})
            elif acknowledged:
                fakes.send({"op": "ack", "id": call, "n": len(payload)})
        elif header["id"] == other:
            answered = True
        else:
            result = header
    assert answered
    assert result["data"] == {"size": 40 * (256 << 10)}
    assert bytes(content) == b"".join(bytes([number]) * (256 << 10) for number in range(40))


def test_a_stream_that_breaks_says_so_after_what_came(fakes):
    call = fakes.begin("read", {"pieces": 2, "broken": True}, stream=True)
    assert fakes.result(call)["error"]["code"] == "not_found"
    assert len(fakes.output[call, "content"]) == 512 << 10


def test_a_stalled_stream_ends_with_its_time_limit_once_it_is_cancelled(fakes):
    call = fakes.begin("read", {"pieces": 40}, stream=True, timeout=0.2)
    received = 0
    while received < 1 << 20:
        received += len(fakes.receive()[1])
    assert fakes.result(call)["error"]["code"] == "timeout"


def test_a_file_is_written_from_input_and_appears_when_it_is_whole(fakes, tmp_path):
    target = tmp_path / "file"
    call = fakes.begin("write", {"path": str(target)}, input=True)
    acknowledged = 0
    for number in range(16):
        fakes.send({"op": "input", "id": call}, bytes([number]) * (1 << 18))
        # Each time that so much of it was written, wherever a frame ends.
        while ((number + 1) << 18) - acknowledged >= ACK_EVERY:
            header, _ = fakes.receive()
            assert header["op"] == "ack"
            acknowledged += header["n"]
        assert not target.exists()
    fakes.send({"op": "input", "id": call, "eof": True})
    assert fakes.result(call)["data"] == {"size": 4 << 20}
    assert target.stat().st_size == 4 << 20


@pytest.mark.parametrize(("how", "code"), [("cancel", "cancelled"), ("fail", "disk_limit"), ("timeout", "timeout")])
def test_a_file_that_is_not_finished_leaves_nothing(fakes, tmp_path, how, code):
    call = fakes.begin("write", {"path": str(tmp_path / "file")}, input=True, timeout=0.3 if how == "timeout" else None)
    fakes.send({"op": "input", "id": call}, b"begin")
    if how == "cancel":
        fakes.send({"op": "cancel", "id": call})
    elif how == "fail":
        fakes.send({"op": "input", "id": call}, b"full")
    assert fakes.result(call)["error"]["code"] == code
    assert list(tmp_path.iterdir()) == []


def test_an_inline_tool_answers_in_a_fraction_of_a_spawn(fakes):
    def timed(action):
        samples = []
        for _ in range(50):
            start = time.perf_counter()
            action()
            samples.append(time.perf_counter() - start)
        return sorted(samples)[25]

    spawn = timed(lambda: subprocess.run(["sh", "-c", "true"], check=True))
    assert timed(lambda: fakes.call("echo")) < 0.5 * spawn


def test_a_wire_that_is_closed_from_the_other_side_ends_the_runner():
    with RunnerProcess() as runner:
        runner.socket.shutdown(socket.SHUT_WR)
        assert runner.wait() == 0
