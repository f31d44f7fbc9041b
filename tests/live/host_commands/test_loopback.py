"""Commands as another user of the machine, over a real sshd of the test's own."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from crabpot.errors import HostRefused
from crabpot.host_commands.loopback import parse_user
from crabpot.host_commands.run import Caller, run
from tests.support import sshd
from tests.support.machines import Machine
from tests.support.runners import OUTPUT
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


def command(*words: str, **more: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(words, capture_output=True, check=False, timeout=20, **more)


@pytest.fixture(scope="module")
def server() -> Iterator[sshd.Server]:
    with sshd.running() as made:
        yield made


@pytest.fixture
def hopping(server: sshd.Server) -> Iterator[Any]:
    folder = Path(tempfile.mkdtemp(prefix="crabpot-hop-"))
    folder.chmod(0o755)
    machine = Machine(folder, host_user=f"{sshd.USER}:{server.port}", ssh_key=str(server.key))
    server.note(folder / "state")
    machine.workspace.chmod(0o777)
    yield machine
    machine.close()
    shutil.rmtree(folder)


async def test_a_command_runs_as_that_user_with_its_words_as_they_are(hopping: Any) -> None:
    assert (await hopping.run("id", "-un")).stdout == f"{sshd.USER}\n"
    reply = await hopping.run("printf", "%s|", "a b", "$HOME", "`id`", "it's", '"', "\\", "*", "", "new\nline", "!x")
    assert reply.stdout == "a b|$HOME|`id`|it's|\"|\\|*||new\nline|!x|"


async def test_in_the_same_folder_with_an_environment_of_that_user(hopping: Any) -> None:
    (hopping.workspace / "a b'c").mkdir()
    assert (await hopping.run("pwd", cwd="a b'c")).stdout == f"{hopping.workspace}/a b'c\n"
    shown = dict(line.split("=", 1) for line in (await hopping.run("env")).stdout.splitlines())
    assert sorted(shown) == ["CRABPOT_RUN", "HOME", "LANG", "PATH", "TOKEN", "USER"]
    assert (shown["HOME"], shown["USER"]) == (f"/home/{sshd.USER}", sshd.USER)


async def test_exit_codes_input_and_binary_output_pass(hopping: Any) -> None:
    sent, got = bytes(range(256)) * 100, bytearray()

    async def source() -> AsyncIterator[bytes]:
        yield sent

    async def sink(_stream: str, data: bytes) -> None:
        got.extend(data)

    assert (await hopping.run("cat", source=source(), sink=sink)).success
    assert bytes(got) == sent
    assert (await hopping.run("sh", "-c", "echo no >&2; exit 7")).exit_code == 7


async def test_a_folder_swapped_on_the_way_is_not_entered(hopping: Any) -> None:
    plan = await hopping.plan("touch", "ran", cwd=None)
    moved = hopping.workspace.with_name("moved")
    script = plan.hop.start(plan.argv, plan.binary, plan.folder, plan.env)
    hopping.workspace.rename(moved)
    hopping.workspace.mkdir(mode=0o777)
    done = command("sh", "-c", script, env={"HOME": "/", "USER": "x"})
    assert done.returncode == 125
    assert not (hopping.workspace / "ran").exists()
    moved.rename(hopping.workspace.with_name("gone"))


async def test_signals_reach_it_and_the_time_limit_leaves_nothing(hopping: Any) -> None:
    hopping.script(
        "waits",
        "#!/bin/sh\ntrap 'echo got it; exit 9' INT\necho $$ > pid.new\nmv pid.new pid\nwhile :; do sleep 0.05; done\n",
    )
    heard: asyncio.Queue[str] = asyncio.Queue()

    async def signals() -> AsyncIterator[str]:
        while True:
            yield await heard.get()

    plan = await hopping.plan("waits")
    caller = Caller(signals=signals(), alternation=None)
    kept = bytearray()

    async def sink(_stream: str, data: bytes) -> None:
        kept.extend(data)

    running = asyncio.ensure_future(run(plan, timeout_s=30, output_limit=OUTPUT, sink=sink, caller=caller))
    await until((hopping.workspace / "pid").exists)
    heard.put_nowait("INT")
    assert (await running).exit_code == 9
    assert bytes(kept) == b"got it\n"
    (hopping.workspace / "pid").unlink()
    reply = await hopping.run("waits", timeout_s=1.5)
    assert reply.error is not None
    assert reply.error[0] == "timeout"
    pid = int((hopping.workspace / "pid").read_text())
    await until(lambda: not os.path.exists(f"/proc/{pid}"))


async def test_that_user_is_the_wall_and_there_is_no_guard(hopping: Any) -> None:
    plan = await hopping.plan("true")
    assert (plan.confined, plan.guard) == ("user", None)


async def test_a_server_on_a_port_that_anybody_may_take_is_not_trusted_at_first_sight(hopping: Any) -> None:
    (Path(hopping.around.state) / "loopback_host_keys").unlink()
    with pytest.raises(HostRefused, match=r"any user can listen on port .* ssh-keyscan -p"):
        await hopping.plan("true")


async def test_another_host_key_is_refused_ever_after(server: sshd.Server, hopping: Any) -> None:
    assert (await hopping.run("true")).success
    assert (Path(hopping.around.state) / "loopback_host_keys").read_text().startswith("[127.0.0.1]")
    server.change_key()
    reply = await hopping.run("touch", "ran")
    assert reply.exit_code == 255
    assert "HOST IDENTIFICATION HAS CHANGED" in reply.stderr
    assert not (hopping.workspace / "ran").exists()


async def test_a_key_that_others_can_read_or_a_sandbox_sees_is_refused(hopping: Any, server: sshd.Server) -> None:
    server.key.chmod(0o640)
    try:
        with pytest.raises(HostRefused, match="not the gateway's alone"):
            await hopping.plan("true")
    finally:
        server.key.chmod(0o600)
    inside = hopping.workspace / "key"
    shutil.copy(server.key, inside)
    inside.chmod(0o600)
    hopping.agent = hopping.settled("/usr/bin:/bin", host_user=sshd.USER, ssh_key=str(inside))
    with pytest.raises(HostRefused, match="which a sandbox sees"):
        await hopping.plan("true")
    hopping.agent = hopping.settled("/usr/bin:/bin", host_user=sshd.USER, ssh_key="/no/key")
    with pytest.raises(HostRefused, match="does not exist"):
        await hopping.plan("true")


@pytest.mark.parametrize("text", ["-oProxyCommand=x", "a b", "", "x@y", "x:0", "x:70000", "x:"])
def test_what_ssh_might_read_as_something_else_is_no_user(text: str) -> None:
    with pytest.raises(ValueError, match="cannot be the name"):
        parse_user(text)
