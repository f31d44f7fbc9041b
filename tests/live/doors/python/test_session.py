"""The methods of a session and of a box, on the embedded backend."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import crabpot
import crabpot.sync
from tests.support.backends import need
from tests.support.suites import take_over
from tests.support.waiting import until, wait_until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

EVERY_BYTE = bytes(range(256))


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    need("bubblewrap")
    take_over(str(tmp_path / "state"), images=False)
    monkeypatch.setenv("CRABPOT_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


async def test_bytes_go_in_and_come_out_unless_text_is_asked_for() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield EVERY_BYTE

    async with crabpot.sandbox() as box:
        for given, size in ((EVERY_BYTE, 256), (io.BytesIO(EVERY_BYTE), 256), (pieces(), 768), ([b"a", b"", b"b"], 2)):
            await box.write("odd näme\n'$(x)", given)
            assert (await box.stat("odd näme\n'$(x)")).size == size
        await box.write("raw", EVERY_BYTE)
        assert await box.read("raw") == EVERY_BYTE
        assert await box.read("raw", offset=250, limit=3) == EVERY_BYTE[250:253]
        assert (await box.exec(["cat", "raw"])).stdout == EVERY_BYTE
        assert (await box.exec("cat", stdin=EVERY_BYTE)).stdout == EVERY_BYTE
        await box.write("text", "é\n")
        await box.write("text", "more", append=True)
        assert await box.read("text", text=True) == "é\nmore"
        with pytest.raises(UnicodeDecodeError):
            await box.read("raw", text=True)


async def test_a_sink_takes_all_output_and_a_result_is_bounded() -> None:
    async with crabpot.sandbox(limits={"output": "64k"}) as box:
        taken = {"stdout": 0, "stderr": 0}

        def take(stream: str, data: bytes) -> None:
            taken[stream] += len(data)

        done = await box.exec("head -c 70000000 /dev/zero; echo end >&2", sink=take, timeout=None)
        assert (done.exit_code, done.truncated, done.stdout) == (0, False, b"")
        assert taken == {"stdout": 70_000_000, "stderr": 4}
        kept = await box.exec("head -c 1000000 /dev/zero")
        assert kept.truncated
        assert len(kept.stdout) < 70_000


async def test_a_command_of_any_length_runs_and_leaves_no_file() -> None:
    word = "x" * 60_000
    async with crabpot.sandbox() as box:
        assert (await box.exec(["printf", "%s", *[word] * 15])).stdout == word.encode() * 15
        script = f"echo {word}; " * 5 + "exit 7"
        done = await box.exec(script)
        assert (done.exit_code, len(done.stdout)) == (7, 5 * 60_001)
        assert await box.ls("/tmp") == []


async def test_merged_output_is_in_order() -> None:
    async with crabpot.sandbox() as box:
        lines = "for i in 1 2 3 4 5; do echo out $i; echo err $i >&2; done"
        merged = await box.exec(lines, merged=True, text=True)
        assert merged.stdout.split("\n")[:4] == ["out 1", "err 1", "out 2", "err 2"]
        assert merged.stderr == ""


async def test_failures_of_file_methods_are_python_s_own_too() -> None:
    async with crabpot.sandbox() as box:
        await box.write("file", b"")
        await box.mkdir("folder")
        for kind, failing in (
            (FileNotFoundError, box.read("none")),
            (IsADirectoryError, box.read("folder")),
            (NotADirectoryError, box.write("file/below", b"")),
            (FileExistsError, box.mkdir("folder")),
            (PermissionError, box.write("/usr/planted", b"")),
            (PermissionError, box.read("../etc/passwd")),
        ):
            with pytest.raises(kind) as caught:
                await failing
            assert isinstance(caught.value, crabpot.CallFailed)


async def test_denied_tools_deny_what_has_their_effect(tmp_path: Path) -> None:
    config = tmp_path / "config.json5"
    config.write_text('{tools: {deny: ["write"]}}')
    async with crabpot.Gateway.open(str(config)) as gateway:
        session = gateway.session("agent:main:main")
        assert await session.ls() == []
        for denied in (session.mkdir("x"), session.remove("x"), session.move("x", "y"), session.write("x", b"")):
            with pytest.raises(PermissionError):
                await denied
        assert not any(tool["name"].startswith("fs.") for tool in await gateway.offered("agent:main:main"))


async def test_folders_are_copied_in_and_out_without_what_leads_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "in" / "deep" / "file").write_bytes(EVERY_BYTE)
    (tmp_path / "in" / "link").symlink_to("/etc/passwd")
    async with crabpot.sandbox() as box:
        await box.upload(tmp_path / "in", "copied")
        assert [entry.name for entry in await box.ls("copied")] == ["deep"]
        await box.exec("ln -s /etc/passwd copied/deep/link; mkfifo copied/deep/pipe")
        await box.download("copied", tmp_path / "out")
    assert (tmp_path / "out" / "deep" / "file").read_bytes() == EVERY_BYTE
    assert sorted(os.listdir(tmp_path / "out" / "deep")) == ["file"]


async def test_sandboxes_of_one_program_share_a_gateway_and_nothing_else() -> None:
    async with crabpot.sandbox() as one, crabpot.sandbox() as other, crabpot.sandbox(env={"A": "1"}) as third:
        assert one._gateway is other._gateway
        assert one._gateway is not third._gateway
        await one.write("file", b"mine")
        assert not await other.exists("file")


async def test_a_named_sandbox_is_found_again_listed_and_deleted(state: Path) -> None:
    code = "import crabpot.sync\nwith crabpot.sync.sandbox(name='a b/ü') as box: box.write('kept', 'by another')"
    await asyncio.to_thread(subprocess.run, [sys.executable, "-c", code], check=True, timeout=120)
    assert [one.name for one in crabpot.named_sandboxes()] == ["a b/ü"]
    async with crabpot.sandbox(name="a b/ü") as box:
        assert await box.read("kept", text=True) == "by another"
        assert not crabpot.delete_sandbox("a b/ü")
    assert crabpot.delete_sandbox("a b/ü")
    assert crabpot.named_sandboxes() == []
    with pytest.raises(crabpot.SessionError):
        async with crabpot.sandbox(name="a\n"):
            pass


LEAVING = """
import asyncio, sys, crabpot
async def main():
    box = await crabpot.sandbox()
    await box.write("left", b"")
    print("ready", flush=True)
    if sys.argv[1] == "wait":
        await asyncio.sleep(600)
asyncio.run(main())
"""


def test_a_program_that_ends_without_closing_leaves_nothing(state: Path) -> None:
    subprocess.run([sys.executable, "-c", LEAVING, "end"], check=True, timeout=120, stdout=subprocess.DEVNULL)
    wait_until(lambda: os.listdir(state / "sandboxes") == [] and os.listdir(state / "programs") == [], within_s=60)


def test_what_cleans_up_after_a_program_runs_nothing_of_its_current_folder(state: Path, tmp_path: Path) -> None:
    planted = tmp_path / "planted/crabpot"
    planted.mkdir(parents=True)
    (planted / "__init__.py").write_text("import pathlib; pathlib.Path(__file__).with_name('ran').touch()")
    command = [sys.executable, "-P", "-c", LEAVING, "end"]
    subprocess.run(command, check=True, timeout=120, stdout=subprocess.DEVNULL, cwd=planted.parent)
    wait_until(lambda: os.listdir(state / "sandboxes") == [] and os.listdir(state / "programs") == [], within_s=60)
    assert not (planted / "ran").exists()


def test_what_a_killed_program_left_goes_with_the_next_one(state: Path) -> None:
    killed = subprocess.Popen([sys.executable, "-c", LEAVING, "wait"], stdout=subprocess.PIPE)
    assert killed.stdout is not None
    assert killed.stdout.readline() == b"ready\n"
    killed.send_signal(signal.SIGKILL)
    killed.wait(30)
    killed.stdout.close()
    code = "import crabpot.sync\nwith crabpot.sync.sandbox() as box: pass"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
    assert os.listdir(state / "sandboxes") == []


def test_the_bridge_runs_every_method_to_its_end() -> None:
    with crabpot.sync.sandbox() as box:
        box.write("file", "text")
        assert box.read("file") == b"text"
        assert box.exec("exit 3").exit_code == 3
        with pytest.raises(FileNotFoundError):
            box.read("none")
    with crabpot.sync.Gateway.open() as gateway:
        assert gateway.call("agent:main:main", "exec", command="echo out").stdout == "out\n"


async def test_a_port_inside_has_an_address_of_the_loopback_until_the_box_ends() -> None:
    async with crabpot.sandbox() as box:
        await box.write("page", "hello")
        await box.exec("python3 -m http.server 8123 >/dev/null 2>&1 &", detach=True)
        address = await box.port(8123)
        assert address == await box.port(8123)
        host, _, port = address.rpartition(":")
        assert host == "127.0.0.1"

        async def served() -> bool:
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(b"GET /page HTTP/1.0\r\n\r\n")
            answer = await reader.read()
            writer.close()
            return answer.endswith(b"hello")

        await until(served, within_s=60)
        for wrong in (0, -1, 65536):
            with pytest.raises(crabpot.CrabpotError, match="65535"):
                await box.port(wrong)
    with pytest.raises(ConnectionError):
        await asyncio.open_connection(host, int(port))


async def test_a_session_of_a_gateway_is_forked_to_another_of_its_agent() -> None:
    async with crabpot.Gateway.open() as gateway:
        session = gateway.session("agent:ops:main")
        await session.write("note", "common")
        async with await session.fork() as other:
            assert other.session.startswith("agent:ops:main:fork-")
            await other.write("note", "its own")
            assert await session.read("note", text=True) == "common"


async def test_the_block_of_a_fork_ends_with_it() -> None:
    async with crabpot.sandbox() as box:
        await box.write("note", "common")
        async with await box.fork() as other:
            assert await other.read("note", text=True) == "common"
        with pytest.raises(crabpot.CallFailed, match="closed"):
            await other.fork()


async def test_closing_a_session_ends_the_sandbox_that_its_agents_sessions_share(tmp_path: Path) -> None:
    config = tmp_path / "crabpot.json5"
    config.write_text('{ agents: { defaults: { sandbox: { scope: "agent" } } } }')
    async with crabpot.Gateway.open(str(config)) as gateway:
        session = gateway.session("agent:ops:chat")
        await session.call("exec", command="sleep 100", background=True)
        await session.close()
        assert (await session.call("process", action="list")).data == {"processes": []}
