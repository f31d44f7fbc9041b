"""What HTTP offers: tools, streams, files, and what operators look after; and clients that vanish."""

from __future__ import annotations

import asyncio
import json
import os
import time
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from crabpot.approvals.requests import Request, new_id
from crabpot.audit.reading import AuditReader
from crabpot.doors.http.access.principals import Role
from tests.support.runners import Scripted
from tests.support.waiting import until

S = "agent:main:main"
EXEC = f"/v1/sessions/{S}/tools/exec"
SHAPE = "id success stdout stderr exit_code error truncated data place duration_ms".split()


def at(path):
    return f"/v1/sessions/{S}/files/{path}"


async def test_a_call_gives_the_result_of_the_contract(door):
    async with door() as made:
        answer = await made.operator.post(EXEC, json={"command": "echo out; echo err >&2; exit 3"})
        result = answer.json()
        assert (answer.status_code, list(result)) == (200, SHAPE)
        assert (result["stdout"], result["stderr"], result["exit_code"]) == ("out\n", "err\n", 3)


@pytest.mark.parametrize(
    ("config", "call", "status", "code"),
    [
        ('{tools: {deny: ["exec"]}}', ("exec", {"command": "x"}), 403, "denied"),
        ("{}", ("no_such_tool", {}), 403, "denied"),
        ("{}", ("exec", {}), 400, "invalid_arguments"),
        ("{}", ("ls", {"session": "x"}), 400, "invalid_arguments"),
        ("{}", ("read", {"path": "missing"}), 200, "not_found"),
        ('{agents: {defaults: {sandbox: {backend: "docker"}}}}', ("ls", {}), 503, "sandbox_unavailable"),
    ],
)
async def test_the_status_says_whether_the_gateway_ran_it(door, config, call, status, code):
    async with door(config) as made:
        answer = await made.operator.post(f"/v1/sessions/{S}/tools/{call[0]}", json=call[1])
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
        assert list(answer.json()) == SHAPE


@pytest.mark.parametrize("body", [b"{", b"[]", b'"x"', b"\xff", b"[" * 100_000, b'{"timeout": NaN}'])
async def test_a_body_that_is_no_object_is_refused(door, body):
    async with door() as made:
        answer = await made.operator.post(EXEC, content=body, headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_arguments")
        other = await made.operator.post(EXEC, content=b"{}", headers={"Content-Type": "text/plain"})
        assert other.status_code == 415


async def test_any_key_is_one_session(door):
    async with door() as made:
        for key in ("a/b", "a%2Fb", "ü", "x/tools/y", "../z", "100%"):
            answer = await made.operator.post(f"/v1/sessions/{quote(key, safe='')}/tools/ls")
            assert answer.status_code == 200
        found = (await made.operator.get("/v1/audit")).json()["records"]
        assert [one["session"] for one in found if one["kind"] == "call"] == [
            "a/b",
            "a%2Fb",
            "ü",
            "x/tools/y",
            "../z",
            "100%",
        ]


async def test_offered_is_what_the_policy_leaves(door):
    async with door('{tools: {profile: "coding", deny: ["group:runtime"]}}') as made:
        tools = (await made.operator.get(f"/v1/sessions/{S}/tools")).json()["tools"]
        assert [tool["name"] for tool in tools] == ["read", "write", "edit", "apply_patch", "grep", "glob", "ls"]


async def events(lines):
    kind = None
    async for line in lines:
        if line.startswith("event: "):
            kind = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield kind, json.loads(line.removeprefix("data: "))


@pytest.mark.parametrize("how", [{"params": {"stream": "1"}}, {"headers": {"Accept": "text/event-stream"}}])
async def test_output_is_streamed_while_it_comes(door, how):
    async with door() as made:
        command = "echo one; while [ ! -e go ]; do sleep 0.01; done; printf '\\303'; sleep 0.01; printf '\\251'; exit 3"
        async with made.operator.stream("POST", EXEC, json={"command": command}, **how) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            coming = events(answer.aiter_lines())
            assert await anext(coming) == ("output", {"stream": "stdout", "text": "one\n"})
            await made.operator.put(at("go"), content=b"")
            assert await anext(coming) == ("output", {"stream": "stdout", "text": "é"})
            kind, result = await anext(coming)
            assert (kind, result["stdout"], result["exit_code"]) == ("result", "one\né", 3)


async def test_a_stream_of_what_is_refused_has_the_status_of_the_refusal(door):
    async with door('{tools: {deny: ["exec"]}}') as made:
        answer = await made.operator.post(EXEC, json={"command": "x"}, params={"stream": "1"})
        assert answer.status_code == 403
        assert answer.text.startswith("event: result\n")


async def test_files_of_any_bytes_go_in_and_come_out(door):
    content = os.urandom(3_000_000) + b"\r\n\0"
    async with door() as made:
        put = await made.operator.put(at("a/b.bin"), content=content)
        assert (put.status_code, put.json()["data"]) == (201, {"size": len(content), "created": True})
        assert (await made.operator.put(at("a/b.bin"), content=content)).status_code == 200
        got = await made.operator.get(at("a/b.bin"))
        assert (got.status_code, got.content == content) == (200, True)
        assert got.headers["content-type"] == "application/octet-stream"
        await made.operator.put(at("empty"), content=b"")
        assert (await made.operator.get(at("empty"))).content == b""
        await made.operator.put(at("n%FFme%20%25"), content=b"x")
        assert (await made.operator.get(at("n%FFme%20%25"))).content == b"x"


@pytest.mark.parametrize(("path", "status", "code"), [("missing", 404, "not_found"), ("folder", 409, "is_directory")])
async def test_a_file_that_is_none_has_a_status(door, path, status, code):
    async with door() as made:
        await made.operator.put(at("folder/x"), content=b"")
        answer = await made.operator.get(at(path))
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


async def test_files_pass_the_policy_as_tools_do(door):
    async with door('{tools: {deny: ["read", "write"]}}') as made:
        assert (await made.operator.get(at("x"))).status_code == 403
        assert (await made.operator.put(at("x"), content=b"x")).status_code == 403


def recorded(made, tool):
    return [one["error"] for one in AuditReader(made.made.state).last(100) if one.get("tool") == tool]


async def wait_for_file(made, name):
    while (got := await made.operator.get(at(name))).status_code == 404 or not got.content:
        await asyncio.sleep(0.01)
    return got.text.strip()


@pytest.mark.parametrize("params", [{}, {"stream": "1"}])
async def test_a_client_that_vanishes_cancels_its_call_and_all_it_started(door, params):
    async with door() as made:
        leaving = made.client(made.tokens.rotate("operator"))
        body = {"command": "echo $$ > pid; sleep 1000"}
        calling = asyncio.create_task(leaving.post(EXEC, json=body, params=params))
        pid = int(await wait_for_file(made, "pid"))
        calling.cancel()
        with suppress(asyncio.CancelledError):
            await calling
        await leaving.aclose()
        await until(lambda: recorded(made, "exec") == ["cancelled"])
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_an_upload_that_breaks_off_leaves_nothing(door):
    async with door() as made:
        await made.operator.put(at("f"), content=b"before")
        started = asyncio.Event()

        async def half():
            yield b"x" * 100_000
            started.set()
            await asyncio.sleep(1000)

        leaving = made.client(made.tokens.rotate("operator"))
        sending = asyncio.create_task(leaving.put(at("f"), content=half()))
        await started.wait()
        sending.cancel()
        with suppress(asyncio.CancelledError):
            await sending
        await leaving.aclose()
        await until(lambda: recorded(made, "write") == [None, "cancelled"])
        assert (await made.operator.get(at("f"))).content == b"before"
        names = [
            entry["name"]
            for entry in (await made.operator.post(f"/v1/sessions/{S}/tools/ls", json={"all": True})).json()["data"][
                "entries"
            ]
        ]
        assert names == ["f"]


async def test_a_download_that_breaks_is_not_taken_for_whole(door):
    async with door(backend=Scripted(breaks_off)) as made:
        with pytest.raises(httpx.RemoteProtocolError):
            await made.operator.get(at("f"))


def breaks_off(peer):
    """Send half of a file, then a failure."""
    peer.greet()
    while True:
        header, _ = peer.take()
        peer.send({"op": "output", "id": header["id"], "stream": "content"}, b"half")
        error = {"code": "timeout", "message": "too slow"}
        peer.send({"id": header["id"], "success": False, "stdout": "", "stderr": "", "exit_code": None, "error": error})


@pytest.mark.parametrize("asked", ["", "&session=agent:main:main", "&shown=1"])
async def test_whoever_was_answered_finds_the_call_in_the_log(door, asked):
    async with door() as made:
        for _ in range(5):
            call = (await made.operator.post(EXEC, json={"command": "true"})).json()["id"]
            found = (await made.operator.get(f"/v1/audit?limit=1{asked}")).json()["records"]
            assert found[0]["call"] == call


async def test_closing_lets_quick_calls_end_and_cancels_the_others(door):
    async with door() as made:
        quick = asyncio.create_task(made.operator.post(EXEC, json={"command": "sleep 0.3; echo done"}))
        other = made.client(made.tokens.rotate("operator"))
        slow = asyncio.create_task(other.post(EXEC, json={"command": "echo $$ > pid; sleep 1000"}))
        pid = int(await wait_for_file(made, "pid"))
        began = time.monotonic()
        gathered: Any = asyncio.gather(quick, slow, return_exceptions=True)
    assert time.monotonic() - began < 20
    done, cut = await gathered
    assert done.json()["stdout"] == "done\n"
    assert cut.status_code == 503
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_explain_says_what_the_gateway_does(door):
    async with door('{tools: {deny: ["exec"]}}') as made:
        told = (await made.operator.get(f"/v1/sessions/{S}/explain", params={"command": "git push"})).json()
        assert (told["session"], told["placement"]["where"]) == (S, "sandbox")
        assert told["command"]["where"] == "blocked"


async def test_sandboxes_are_listed_and_stopped(door):
    async with door() as made:
        await made.operator.post(EXEC, json={"command": "touch kept"})
        (one,) = (await made.operator.get("/v1/sandboxes")).json()["sandboxes"]
        assert (one["scope_key"], one["state"]) == (S, "live")
        stop = f"/v1/sandboxes/{one['name']}/stop"
        assert (await made.operator.post(stop)).json() == {"name": one["name"], "stopped": True}
        assert (await made.operator.post(stop)).json()["stopped"] is False
        assert (await made.operator.post("/v1/sandboxes/crabpot-x/stop")).status_code == 404


async def test_snapshots_are_kept_put_back_and_forked(door):
    async with door() as made:
        path = f"/v1/sessions/{S}/snapshots"
        assert (await made.operator.post(path, json={"name": "first"})).status_code == 409
        await made.operator.post(EXEC, json={"command": "echo before > note"})
        assert (await made.operator.post(path, json={"name": "first"})).json()["saved"]["name"] == "first"
        assert (await made.operator.post(path, json={"name": "../x"})).status_code == 409
        assert (await made.operator.post(path, json={"name": "x", "more": 1})).status_code == 400
        await made.operator.post(EXEC, json={"command": "echo after > note"})
        assert (await made.operator.post(f"{path}/first/restore")).json() == {"session": S, "restored": "first"}
        assert (await made.operator.post(EXEC, json={"command": "cat note"})).json()["stdout"] == "before\n"
        forked = await made.operator.post(f"/v1/sessions/{S}/fork", json={"to": ["agent:main:other"]})
        assert forked.json()["forked"] == ["agent:main:other"]
        other = await made.operator.post("/v1/sessions/agent:main:other/tools/exec", json={"command": "cat note"})
        assert other.json()["stdout"] == "before\n"
        assert (await made.operator.delete(f"{path}/first")).status_code == 200
        assert (await made.operator.get(path)).json()["snapshots"] == []


async def test_the_log_is_paged(door):
    async with door() as made:
        for n in range(5):
            await made.operator.post(f"/v1/sessions/s{n % 2}/tools/ls")
        seen: list[Any] = []
        before = None
        while True:
            page = (
                await made.operator.get("/v1/audit", params={"limit": 2, **({"before": before} if before else {})})
            ).json()
            seen = [one["number"] for one in page["records"]] + seen
            before = page["before"]
            if before is None:
                break
        assert seen == list(range(1, len(seen) + 1))
        only = (await made.operator.get("/v1/audit", params={"session": "s1"})).json()["records"]
        assert [one["session"] for one in only] == ["s1", "s1"]
        assert (await made.operator.get("/v1/audit", params={"limit": 0})).status_code == 400


class Nobody:
    """An approver that never answers: the request waits."""

    async def ask(self, _request):
        await asyncio.Event().wait()


async def test_an_operator_answers_what_waits_and_an_agent_cannot(door):
    async with door() as made:
        made.desk.attach(Nobody())
        now = time.time()
        asked = Request(
            id=new_id(),
            session=S,
            agent="main",
            scope_key=S,
            argv=("git", "push"),
            pattern="git *",
            source="x",
            asked_at=now,
            deadline=now + 60,
        )
        deciding = asyncio.create_task(made.desk.decide(asked))
        await until(made.desk.pending)
        agent = made.client(made.tokens.add("bot", Role.AGENT, sessions=("*",)))
        path = f"/v1/approvals/{asked.id}"
        assert (await agent.post(path, json={"allowed": True})).status_code == 403
        (shown,) = (await made.operator.get("/v1/approvals")).json()["requests"]
        assert (shown["id"], shown["shown"]) == (asked.id, asked.shown)
        assert "crabpot_approvals_pending 1.0" in (await made.operator.get("/metrics")).text
        for wrong in (
            {},
            {"allowed": 1},
            {"allowed": True, "by": "me"},
            {"allowed": True, "grant": "config"},
            {"allowed": False, "grant": "session"},
        ):
            assert (await made.operator.post(path, json=wrong)).status_code == 400
        assert (await made.operator.post(path, json={"allowed": True})).status_code == 200
        answer = await deciding
        assert (answer.allowed, answer.by) == (True, "http same-user")
        assert (await made.operator.post(path, json={"allowed": True})).status_code == 409


async def test_metrics_count_calls_and_hostile_names_make_no_series(door):
    async with door() as made:
        await made.operator.post(EXEC, json={"command": "true"})
        await made.operator.post(EXEC, json={"command": "false"})
        for n in range(50):
            await made.operator.post(f"/v1/sessions/{S}/tools/evil{n}")
        text = (await made.operator.get("/metrics")).text
        assert 'crabpot_calls_total{outcome="ok",place="sandbox",tool="exec"} 1.0' in text
        assert 'crabpot_calls_total{outcome="failed",place="sandbox",tool="exec"} 1.0' in text
        assert 'crabpot_calls_total{outcome="denied",place="none",tool="other"} 50.0' in text
        assert 'crabpot_call_seconds_count{place="sandbox",tool="exec"} 2.0' in text
        assert "crabpot_sandboxes_alive 1.0" in text
        assert "evil" not in text


async def test_the_description_names_every_tool_and_needs_a_token(door):
    async with door() as made:
        told = (await made.operator.get("/openapi.json")).json()
        paths = told["paths"]
        assert "/v1/sessions/{key}/tools/exec" in paths
        schema = paths["/v1/sessions/{key}/tools/exec"]["post"]["requestBody"]["content"]["application/json"]["schema"]
        assert schema["required"] == ["command"]
        assert told["security"] == [{"token": []}]
        assert all("422" not in one["responses"] for methods in paths.values() for one in methods.values())


async def test_nothing_there_and_wrong_methods_are_told_as_json(door):
    async with door() as made:
        assert (await made.operator.get("/nowhere")).json()["error"]["code"] == "not_found"
        wrong = await made.operator.get(EXEC)
        assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")


async def test_a_program_gets_texts_as_they_are_and_a_page_as_they_may_be_shown(door):
    async with door() as made:
        key = "agent:main:m\u0430in"
        await made.operator.post(f"/v1/sessions/{key}/tools/ls")
        for more, told in (({}, key), ({"shown": "1"}, "agent:main:m\\u0430in")):
            records = (await made.operator.get("/v1/audit", params=more)).json()["records"]
            assert [one["session"] for one in records if one["kind"] == "call"] == [told]
            assert (await made.operator.get(f"/v1/sessions/{key}/explain", params=more)).json()["session"] == told
