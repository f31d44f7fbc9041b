"""The real E2B SDKs of both languages against the door, with nothing changed but the environment."""

from __future__ import annotations

import asyncio
import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from e2b import (
    AsyncSandbox,
    CommandExitException,
    FileNotFoundException,
    InvalidArgumentException,
    PtySize,
    Sandbox,
    SandboxException,
    SandboxNotRunningException,
    TimeoutException,
)
from e2b_code_interpreter import AsyncSandbox as AsyncInterpreter
from e2b_code_interpreter import Sandbox as Interpreter

import crabpot.sync
from tests.frameworks.e2b.same_program import main


@pytest.fixture
def box():
    made = Sandbox.create(timeout=300, metadata={"test": "yes"}, envs={"A": "1"})
    yield made
    made.kill()


def until(condition):
    deadline = time.monotonic() + 60
    while not (found := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)
    return found


def test_commands_run_and_fail_as_they_do_there(box) -> None:
    done = box.commands.run("echo $A; echo err >&2")
    assert (done.stdout, done.stderr, done.exit_code) == ("1\n", "err\n", 0)
    with pytest.raises(CommandExitException) as failed:
        box.commands.run("exit 3")
    assert failed.value.exit_code == 3
    with pytest.raises(TimeoutException):
        box.commands.run("sleep 100", timeout=1)
    with pytest.raises(InvalidArgumentException, match="root"):
        box.commands.run("id", user="root")
    assert len(box.commands.run("head -c 5000000 /dev/zero | tr '\\0' x").stdout) == 5_000_000


def test_commands_in_the_background_are_written_to_listed_and_killed(box) -> None:
    started = box.commands.run("read x; echo got $x; sleep 300", background=True, stdin=True)
    box.commands.send_stdin(started.pid, "abc\n")
    assert next(out for out, _, _ in started if out) == "got abc\n"
    assert [one.pid for one in box.commands.list()] == [started.pid]
    again = box.commands.connect(started.pid)
    assert (box.commands.kill(started.pid), box.commands.kill(started.pid)) == (True, False)
    for handle in (started, again):
        with pytest.raises(CommandExitException):
            handle.wait()
    counted = box.commands.run("wc -c", background=True, stdin=True)
    box.commands.stream_input(counted.pid, ["abc", "def"])
    box.commands.close_stdin(counted.pid)
    assert counted.wait().stdout == "6\n"


def test_a_terminal_has_its_size(box) -> None:
    seen = bytearray()
    terminal = box.pty.create(PtySize(rows=30, cols=100))
    box.pty.resize(terminal.pid, PtySize(rows=40, cols=120))
    box.pty.send_stdin(terminal.pid, b"stty size; exit\n")
    terminal.wait(on_pty=seen.extend)
    assert b"40 120" in seen


def test_files_are_written_read_listed_moved_and_watched(box) -> None:
    box.files.write("a b/x.txt", "hello")
    box.files.write_files([{"path": "m1", "data": "1"}, {"path": 'm"2', "data": b"\0\xff"}])
    box.files.write("big", io.BytesIO(b"x" * 3_000_000))
    assert box.files.read("a b/x.txt") == "hello"
    assert bytes(box.files.read('m"2', format="bytes")) == b"\0\xff"
    assert len(box.files.read("big")) == 3_000_000
    with pytest.raises(FileNotFoundException):
        box.files.read("none")
    assert min(one.path for one in box.files.list(".", depth=2)) == "/home/user/a b"
    assert box.files.get_info("m1").size == 1
    assert (box.files.make_dir("d/e"), box.files.make_dir("d/e")) == (True, False)
    assert box.files.rename("m1", "d/m").path == "/home/user/d/m"
    assert (box.files.exists("m1"), box.files.exists("d/m")) == (False, True)
    box.files.remove("d")
    watcher = box.files.watch_dir(".", recursive=True)
    box.files.write("a b/new", "x")
    names: list[str] = []
    until(lambda: names.extend(one.name for one in watcher.get_new_events()) or "a b/new" in names)
    watcher.stop()
    assert httpx.get(box.download_url("a b/x.txt", use_signature_expiration=60)).text == "hello"
    assert httpx.get(box.download_url("a b/x.txt").replace("x.txt", "y.txt")).status_code == 502


def test_home_is_where_programs_for_e2b_expect_it(box) -> None:
    assert box.commands.run("pwd; echo $HOME; whoami").stdout == "/home/user\n/home/user\nagent\n"
    box.files.write("/home/user/dir/x.py", "print(open('/home/user/data').read())")
    box.files.write("data", "hello")
    assert box.commands.run("python /home/user/dir/x.py", cwd="/home/user/dir").stdout == "hello\n"
    assert [one.path for one in box.files.list("/home/user")] == ["/home/user/data", "/home/user/dir"]
    with Interpreter.create() as made:
        made.run_code("open('/home/user/made', 'w').write('by code')")
        assert made.files.read("/home/user/made") == "by code"


def test_a_server_inside_is_reached_by_its_host(box) -> None:
    box.files.write("page", "hello")
    box.commands.run("python3 -m http.server 8123", background=True, timeout=0)
    headers = {"Host": box.get_host(8123)}
    assert until(lambda: httpx.get(f"{os.environ['E2B_API_URL']}/page", headers=headers).text == "hello")


def test_sandboxes_are_listed_found_again_and_end(box) -> None:
    assert [one.sandbox_id for one in Sandbox.list().next_items()] == [box.sandbox_id]
    assert box.get_info().metadata == {"test": "yes"}
    assert Sandbox.connect(box.sandbox_id).commands.run("echo again").stdout == "again\n"
    box.set_timeout(600)
    for refused in (box.pause, box.get_metrics, lambda: Sandbox.create("mine")):
        with pytest.raises(SandboxException, match=r"501|404"):
            refused()
    assert (box.is_running(), box.kill(), box.kill(), box.is_running()) == (True, True, False, False)
    with pytest.raises(SandboxNotRunningException):
        box.commands.run("echo")


def test_code_runs_in_a_kept_kernel() -> None:
    with Interpreter.create() as made:
        first = made.run_code("x = 20\nprint('hello')\nx + 1")
        assert (first.logs.stdout, first.text) == (["hello\n"], "21")
        assert made.run_code("x").text == "20"
        failed = made.run_code("def f():\n    1 / 0\nf()").error
        assert (failed.name, "line 2, in f" in failed.traceback) == ("ZeroDivisionError", True)
        assert made.run_code("import asyncio\nawait asyncio.sleep(0, 'done')").text == "'done'"
        shown = made.run_code(
            "class P:\n    def _repr_html_(self): return '<b>x</b>'\n    def _repr_png_(self): return b'PNG'\ndisplay(P())\nP()"
        )
        assert [(one.html, one.png, one.is_main_result) for one in shown.results] == [
            ("<b>x</b>", "UE5H", False),
            ("<b>x</b>", "UE5H", True),
        ]
        assert made.run_code("import os; os.environ['Q']", envs={"Q": "7"}).text == "'7'"
        other = made.create_code_context(cwd="/tmp")
        assert made.run_code("x", context=other).error.name == "NameError"
        assert made.run_code("import os; os.getcwd()", context=other).text == "'/tmp'"
        made.remove_code_context(other)
        with pytest.raises(TimeoutException):
            made.run_code("import time; time.sleep(100)", timeout=1)
        with pytest.raises(SandboxException, match="javascript"):
            made.run_code("1", language="javascript")


async def test_the_async_sdks_do_the_same() -> None:
    box = await AsyncSandbox.create(timeout=300)
    try:
        outputs = await asyncio.gather(*(box.commands.run(f"echo {number}") for number in range(10)))
        assert [one.stdout for one in outputs] == [f"{number}\n" for number in range(10)]
        await box.files.write("x", "hello")
        assert await box.files.read("x") == "hello"
        names: list[str] = []
        watch = await box.files.watch_dir(".", on_event=lambda event: names.append(event.name))
        await box.files.write("y", "hello")
        async with asyncio.timeout(60):
            while "y" not in names:
                await asyncio.sleep(0.05)
        await watch.stop()
    finally:
        assert await box.kill()
    interpreter = await AsyncInterpreter.create()
    assert (await interpreter.run_code("6 * 7")).text == "42"
    await interpreter.kill()


def test_the_javascript_sdks_do_the_same() -> None:
    program = Path(__file__).with_name("program.mjs")
    done = subprocess.run(["node", program, sys.prefix], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "run": ["1\n", "err\n", 0],
        "exit": 3,
        "read": ["hello", "22"],
        "missing": "FileNotFoundError",
        "listed": [["a b", "dir"], ["m1", "file"], ["m2", "file"]],
        "exists": [False, True],
        "watched": True,
        "terminal": True,
        "answered": True,
        "listedProcesses": [True],
        "killed": [True, False],
        "again": "again\n",
        "infos": [True],
        "root": "InvalidArgumentError",
        "ended": [True, False],
        "code": [["hello\n"], "21", "20", "ZeroDivisionError"],
    }


def test_the_same_program_runs_on_both_sdks(tmp_path) -> None:
    with Sandbox.create() as theirs:
        there = main(theirs.files.write, lambda text: theirs.commands.run(text).stdout, theirs.files.read)
    with crabpot.sync.sandbox(state=str(tmp_path)) as ours:
        here = main(ours.write, lambda text: ours.exec(text, text=True).stdout, lambda path: ours.read(path, text=True))
    assert there == here == "3:1,2,3"
