"""MCP servers in sandboxes of their own: approved before they are heard, apart from each other, and never trusted."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from crabpot.audit.reading import AuditReader
from crabpot.decide.learning import learn
from crabpot.doors.sandboxes import sweep
from crabpot.servers.approving import candidate
from tests.support.backends import need
from tests.support.mcp_servers import configuration
from tests.support.suites import open_gateway
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from crabpot.gateway import Gateway

SESSION = "agent:main:main"


@pytest.fixture(autouse=True)
def bubblewrap() -> None:
    need("bubblewrap")


@asynccontextmanager
async def opened(folder: Path, text: str, *, approve: tuple[str, ...] = ()) -> AsyncIterator[Gateway]:
    gateway = open_gateway(text, str(folder / "state"))
    try:
        for name in approve:
            (await candidate(gateway.servers, name)).keep(by="test")
        yield gateway
    finally:
        await gateway.close()


async def names(gateway: Gateway, session: str = SESSION) -> list[str]:
    return [one["name"] for one in await gateway.offered(session) if "__" in one["name"]]


def records(folder: Path) -> list[dict[str, Any]]:
    return AuditReader(str(folder / "state")).last(200)


async def test_nothing_of_a_server_is_heard_or_called_until_an_operator_approves(open_folder: Path) -> None:
    async with opened(open_folder, configuration(fs="honest")) as gateway:
        assert await names(gateway) == []
        refused = await gateway.call(SESSION, "fs__echo", text="x")
        assert (refused.error.code, "crabpot servers approve fs" in refused.error.message) == ("denied", True)
        (await candidate(gateway.servers, "fs")).keep(by="test")
        assert "fs__echo" in await names(gateway)
        answer = await gateway.call(SESSION, "fs__echo", text="héllo")
        assert (answer.success, answer.stdout, answer.place) == (True, "héllo", "sandbox")


async def test_results_carry_text_pictures_structure_and_errors(open_folder: Path) -> None:
    async with opened(open_folder, configuration(fs="banner"), approve=("fs",)) as gateway:
        seen = await gateway.call(SESSION, "fs__picture")
        picture = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
        assert (seen.stdout, seen.data) == ("see", {"content": [picture], "structured": {"a": 1}})
        failed = await gateway.call(SESSION, "fs__fail")
        assert (failed.success, failed.stdout, failed.outcome) == (False, "that failed", "failed")
        await gateway.call(SESSION, "fs__hidden")
        await gateway.audit.durable()
        marked = [one for one in records(open_folder) if one["kind"] == "server" and one["event"] == "hidden"]
        assert marked[0]["characters"] == ["U+200B", "U+202E"]


async def test_sessions_share_no_state_of_a_server(open_folder: Path) -> None:
    async with opened(open_folder, configuration(fs="honest"), approve=("fs",)) as gateway:
        first = [(await gateway.call("agent:main:a", "fs__count")).stdout for _ in range(2)]
        assert (first, (await gateway.call("agent:main:b", "fs__count")).stdout) == (["1", "2"], "1")
        assert await gateway.servers.restart("fs") == 2
        assert (await gateway.call("agent:main:a", "fs__count")).stdout == "1"


async def test_a_server_finds_no_key_of_the_host_and_no_way_out(open_folder: Path) -> None:
    home = os.path.expanduser("~")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        async with opened(open_folder, configuration(fs="honest"), approve=("fs",)) as gateway:
            paths = [f"{home}/.ssh", home, str(open_folder), "/workspace"]
            tried = json.loads(
                (await gateway.call(SESSION, "fs__spy", paths=paths, host="127.0.0.1", port=port)).stdout
            )
            env = json.loads((await gateway.call(SESSION, "fs__env")).stdout)
    assert {path for path, how in tried.items() if how.startswith("DID")} == {"/workspace"}
    assert set(env) <= {"PATH", "HOME", "USER", "LANG", "LC_CTYPE", "PWD", "SHLVL", "_"}


async def test_what_a_server_was_refused_is_said_and_learned_as_its_own_setting(open_folder: Path) -> None:
    text = configuration(fs={"sandbox": {"network": {"allow": ["listed.example:443"]}}})
    async with opened(open_folder, text, approve=("fs",)) as gateway:
        told = await gateway.call(SESSION, "fs__phone", url="http://evil.example/")
        assert (told.stdout, "evil.example:80 was refused" in told.stderr) == ("REFUSED HTTPError", True)
        await gateway.audit.durable()
        lesson = learn(records(open_folder), SESSION, gateway.settings.defaults)
    assert [(one.what, one.change) for one in lesson.refusals] == [
        (
            "a connection to evil.example:80 by the server fs",
            ("mcp.servers.fs.sandbox.network.allow[+]", '"evil.example:80"'),
        )
    ]


async def test_policy_holds_for_servers_and_a_denied_tool_is_absent(open_folder: Path) -> None:
    text = configuration('{deny: ["fs__ec*", "other__*"]}', fs={"tools": {"deny": ["die"]}}, other="honest")
    async with opened(open_folder, text, approve=("fs", "other")) as gateway:
        listed = await names(gateway)
        assert ("fs__count" in listed, "fs__echo" in listed, "fs__die" in listed) == (True, False, False)
        assert not [name for name in listed if name.startswith("other__")]
        for tool in ("fs__echo", "fs__die", "FS__Die", "other__count", "nobody__echo"):
            refused = await gateway.call(SESSION, tool)
            assert refused.error.code in ("denied", "not_found"), tool


async def test_a_changed_tool_is_withheld_until_it_is_approved_again(open_folder: Path) -> None:
    rug = open_folder / "rug"
    rug.mkdir(mode=0o755)
    text = configuration(fs={"way": "rug", "sandbox": {"binds": [f"{rug}:/rug:ro"]}})
    async with opened(open_folder, text, approve=("fs",)) as gateway:
        assert (await gateway.call(SESSION, "fs__echo", text="x")).success
        (rug / "changed").touch()
        await gateway.servers.restart("fs")
        refused = await gateway.call(SESSION, "fs__echo", text="x")
        assert (refused.error.code, "changed since" in refused.error.message) == ("denied", True)
        assert "fs__echo" not in await names(gateway)
        assert (await gateway.call(SESSION, "fs__count")).success, "the others stay"
        await gateway.audit.durable()
        withheld = [one["tools"] for one in records(open_folder) if one.get("event") == "withheld"]
        assert withheld == [{"echo": "changed"}]
        (await candidate(gateway.servers, "fs")).keep(by="test")
        assert (await gateway.call(SESSION, "fs__echo", text="x")).success


async def test_a_server_that_changes_its_tools_all_the_time_loses_them_and_nothing_else(open_folder: Path) -> None:
    async with opened(open_folder, configuration(fs="restless", other="honest"), approve=("fs", "other")) as gateway:
        for _ in range(3):
            refused = await gateway.call(SESSION, "fs__echo", text="x")
            assert refused.error.code == "denied"
        assert (await gateway.call(SESSION, "other__echo", text="x")).stdout == "x"
        await gateway.audit.durable()
        told = [one["because"] for one in records(open_folder) if one.get("tool") == "fs__echo"]
        assert len(told) == 3
        assert all(one.startswith("withheld: changed since") for one in told), "its place is not the reason"


async def test_names_that_imitate_are_refused(open_folder: Path) -> None:
    async with opened(open_folder, configuration(fs="names", other="honest"), approve=("fs",)) as gateway:
        listed = await names(gateway)
        assert "fs__echo" in listed
        assert not {"fs__exec", "fs__other__echo", "fs__Echo", "fs__café"} & set(listed)
        assert "imitates" in (await gateway.call(SESSION, "fs__exec")).error.message


@pytest.mark.parametrize(
    ("tool", "code", "said"),
    [
        ("die", "sandbox_lost", "exit code 7; its last words: I die"),
        ("big", "sandbox_lost", "limits.output"),
        ("flood", "sandbox_lost", "more than 10000 messages"),
        ("other", "timeout", "did not answer within 3 s"),
        ("slow", "timeout", "did not answer within 3 s"),
        ("hang", "timeout", "did not answer within 3 s"),
    ],
)
async def test_a_call_that_a_server_breaks_has_a_clear_error_and_the_next_one_works(
    open_folder: Path, tool: str, code: str, said: str
) -> None:
    limits = {"sandbox": {"limits": {"timeLimit": 3 if code == "timeout" else 60}}}
    async with opened(open_folder, configuration(fs=limits), approve=("fs",)) as gateway:
        assert (await gateway.call(SESSION, "fs__echo", text="before")).success
        broken = await gateway.call(SESSION, f"fs__{tool}")
        assert (broken.error.code, said in broken.error.message) == (code, True), broken
        again = await gateway.call(SESSION, "fs__echo", text="after")
        assert again.stdout == "after", again


@pytest.mark.parametrize(
    ("way", "said"),
    [
        ("dead", "exit code 3; its last words: no such luck\\u001b[31m"),
        ("garbage", "speaks no MCP"),
        ("many", "more than 512 tools"),
        ("pages", "more than 64 pages"),
        ("mute", "did not answer within 3 s"),
    ],
)
async def test_a_server_that_cannot_be_used_is_not_approved_and_says_why(
    open_folder: Path, way: str, said: str
) -> None:
    from crabpot.errors import CrabpotError

    limits = {"timeLimit": 3 if way == "mute" else 60}
    async with opened(open_folder, configuration(fs={"way": way, "sandbox": {"limits": limits}})) as gateway:
        with pytest.raises(CrabpotError, match="the server fs is not there") as caught:
            await candidate(gateway.servers, "fs")
        assert said in str(caught.value)


async def test_a_server_that_stops_starting_is_left_alone_for_a_while(open_folder: Path) -> None:
    rug = open_folder / "rug"
    rug.mkdir(mode=0o755)
    (rug / "alive").touch()
    text = configuration(fs={"way": "mortal", "sandbox": {"binds": [f"{rug}:/rug:ro"]}}, other="honest")
    async with opened(open_folder, text, approve=("fs", "other")) as gateway:
        (rug / "alive").unlink()
        first = await gateway.call(SESSION, "fs__echo")
        assert first.error.code == "sandbox_lost"
        second = await gateway.call(SESSION, "fs__echo")
        assert second.error.code in ("sandbox_unavailable", "sandbox_lost")
        assert (await gateway.call(SESSION, "other__echo", text="x")).stdout == "x"
        (rug / "alive").touch()
        await gateway.servers.restart("fs")
        assert (await gateway.call(SESSION, "fs__echo", text="x")).stdout == "x"


async def test_a_server_ends_when_idle_and_its_next_call_starts_another(open_folder: Path) -> None:
    text = configuration(fs={"sandbox": {"prune": {"idleHours": 0.0001}}}, other="honest")
    async with opened(open_folder, text, approve=("fs", "other")) as gateway:
        for tool in ("fs__count", "fs__count", "other__count"):
            last = await gateway.call(SESSION, tool)
        assert last.stdout == "1"
        await asyncio.sleep(0.5)
        await sweep(gateway)
        assert [live.key[1] for live in gateway.execution.fleet.listed()] == ["server:other:agent:main:main"]
        assert list(gateway.servers._running) == ["server:other:agent:main:main"]
        assert (await gateway.call(SESSION, "fs__count")).stdout == "1"
        assert (await gateway.call(SESSION, "other__count")).stdout == "2"


async def test_an_idle_server_makes_room_for_another_and_a_busy_one_does_not(open_folder: Path) -> None:
    text = configuration(fs="honest", other="honest")
    text = f"{{gateway: {{maxSandboxesPerAgent: 1}}, {text[1:]}"
    async with opened(open_folder, text, approve=("fs", "other")) as gateway:
        assert (await gateway.call(SESSION, "fs__count")).stdout == "1"
        assert (await gateway.call(SESSION, "other__count")).stdout == "1"
        assert (await gateway.call(SESSION, "fs__count")).stdout == "1", "it was ended, and started again"
        busy = asyncio.create_task(gateway.call(SESSION, "fs__slow"))
        await until(lambda: gateway.servers._running["server:fs:agent:main:main"].connection.busy)
        refused = await gateway.call(SESSION, "other__count")
        assert (refused.error.code, "maxSandboxesPerAgent" in refused.error.message) == ("sandbox_unavailable", True)
        assert (await busy).stdout == "done"
        await gateway.servers.restart("other")
        assert (await gateway.call(SESSION, "other__count")).stdout == "1"
