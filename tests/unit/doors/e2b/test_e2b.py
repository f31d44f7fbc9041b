"""The E2B door without an SDK: who may do what, and what a hostile client gets."""

from __future__ import annotations

import base64
import json

import httpx
import pytest

from crabpot.audit.reading import AuditReader
from crabpot.doors.e2b.connect import envelope
from crabpot.doors.http.access.principals import Role
from tests.support.e2b import START, STREAM, messages, output
from tests.support.waiting import until


async def test_a_sandbox_lives_runs_and_ends_and_its_calls_are_recorded(api):
    async with api() as door:
        box = await door.create(metadata={"user": "7"}, envVars={"A": "1"})
        events = await box.run("/bin/sh", "-c", "echo $A$B; echo err >&2; exit 3", stdin=False)
        assert "start" in events[0]["event"]
        assert (output(events), output(events, "stderr")) == (b"1\n", b"err\n")
        assert events[-2]["event"]["end"] == {"exitCode": 3, "exited": True, "status": "exit status 3"}
        assert events[-1] == {}
        listed = (await door.client.get("/v2/sandboxes", params={"metadata": "user=7"})).json()
        assert [one["sandboxID"] for one in listed] == [box.id]
        assert (await door.client.get("/v2/sandboxes", params={"metadata": "user=8"})).json() == []
        assert (await door.client.delete(f"/sandboxes/{box.id}")).status_code == 204
        assert (await door.client.delete(f"/sandboxes/{box.id}")).status_code == 404
        gone = await box.client.get("/health")
        assert (gone.status_code, gone.json()["message"]) == (502, "The sandbox was not found")
        records = [one for one in AuditReader(door.made.made.state).last(100) if one["kind"] == "call"]
        assert [one["tool"] for one in records] == ["fs.stat", "exec"]
        assert {one["session"] for one in records} == {f"agent:main:e2b:e2b-{box.id}"}


async def test_another_principals_sandbox_is_not_found(api):
    async with api() as door:
        box = await door.create()
        other = door.keyed(door.made.tokens.add("other", Role.AGENT, sessions=("agent:main:*",)))
        for method, path in (
            ("GET", ""),
            ("DELETE", ""),
            ("POST", "/timeout"),
            ("POST", "/connect"),
            ("POST", "/pause"),
        ):
            answer = await other.request(method, f"/sandboxes/{box.id}{path}", json={"timeout": 10})
            unknown = await other.request(method, f"/sandboxes/{'0' * 20}{path}", json={"timeout": 10})
            assert (answer.status_code, unknown.status_code) == (404, 404)
            assert answer.text.replace(box.id, "0" * 20) == unknown.text
        assert (await other.get("/v2/sandboxes")).json() == []
        assert (await door.client.get(f"/sandboxes/{box.id}")).status_code == 200


async def test_a_key_that_is_rotated_takes_its_sandboxes_secrets_with_it(api):
    async with api() as door:
        box = await door.create()
        assert (await box.client.get("/health")).status_code == 204
        door.made.tokens.rotate("e2b")
        assert (await box.client.get("/health")).status_code == 502
        assert (await door.client.get("/v2/sandboxes")).status_code == 401


@pytest.mark.parametrize(
    ("role", "sessions", "status"),
    [(Role.OBSERVER, (), 403), (Role.AGENT, ("agent:main:fixed",), 403), (Role.AGENT, ("agent:ops:*",), 201)],
)
async def test_a_sandbox_is_a_session_that_the_token_may_use(api, role, sessions, status):
    async with api() as door:
        key = door.made.tokens.add("some", role, sessions=sessions)
        answer = await door.keyed(key).post("/sandboxes", json={"templateID": "base"})
        assert answer.status_code == status, answer.text


async def test_strangers_are_told_nothing(api):
    async with api() as door:
        box = await door.create()
        stranger = door.made.client(base_url=door.url)
        assert (await stranger.get("/v2/sandboxes")).status_code == 401
        for headers in ({}, {**box.headers, "X-Access-Token": "x"}, {**box.headers, "E2b-Sandbox-Id": "0" * 20}):
            answer = await stranger.post("/filesystem.Filesystem/Stat", json={"path": "."}, headers=headers)
            assert answer.json() == {"code": "unavailable", "message": "The sandbox was not found"}
        twice = [*box.headers.items(), ("X-Access-Token", box.access)]
        assert (await stranger.get("/health", headers=twice)).status_code == 400


HOSTILE = [
    (b"", "invalid_argument"),
    (b"\0\0\0", "invalid_argument"),
    (b"\0\0\0\0\xff{}", "invalid_argument"),
    (b"\0\0\0\0\x02{}{}", "invalid_argument"),
    (b"\0\xff\xff\xff\xff{}", "resource_exhausted"),
    (b"\x01\0\0\0\x02{}", "unimplemented"),
    (b"\x02\0\0\0\x02{}", "invalid_argument"),
    (b"\0\0\0\0\x02[]", "invalid_argument"),
    (b"\0\0\0\0\x02{]", "invalid_argument"),
    (b"\0" + (300_001).to_bytes(4, "big") + b"[" + b"{}," * 100_000, "resource_exhausted"),
    (b"\0" + (100_000).to_bytes(4, "big") + b"[" * 100_000, "invalid_argument"),
    (envelope({"process": {"cmd": "/bin/sh", "args": ["a\0b"]}}), "invalid_argument"),
    (envelope({"process": {"cmd": 7}}), "invalid_argument"),
    (envelope({"process": {"cmd": ""}}), "invalid_argument"),
    (envelope({"process": {"cmd": "/bin/true"}, "pty": {"size": {"rows": 10**9, "cols": 1}}}), "invalid_argument"),
    (envelope({"process": {"cmd": "/no/such/program"}}), "not_found"),
]


async def test_a_hostile_envelope_is_refused_and_nothing_else_happens(api):
    async with api() as door:
        box = await door.create()
        for body, code in HOSTILE:
            assert (await box.stream(START, body))[-1]["error"]["code"] == code, body[:80]
        assert output(await box.run("/bin/echo", "still here")) == b"still here\n"


async def test_input_in_envelopes_is_bounded_and_must_be_whole(api):
    async with api() as door:
        box = await door.create()
        path = "/process.Process/StreamInput"
        huge = b"\0" + (2**30).to_bytes(4, "big")
        assert (await box.stream(path, huge))[-1]["error"]["code"] == "resource_exhausted"
        assert (await box.stream(path, b"\0\0\0"))[-1]["error"]["code"] == "invalid_argument"
        early = envelope({"data": {"input": {"stdin": "YQ=="}}})
        assert (await box.stream(path, early))[-1]["error"]["code"] == "invalid_argument"


async def test_protobuf_and_compression_are_refused_in_connects_words(api):
    async with api() as door:
        box = await door.create()
        answer = await box.client.post(START, content=b"", headers={"Content-Type": "application/connect+proto"})
        assert messages(answer.content)[-1]["error"]["code"] == "unimplemented"
        answer = await box.client.post(
            "/process.Process/List", content=b"", headers={"Content-Type": "application/proto"}
        )
        assert (answer.status_code, answer.json()["code"]) == (415, "unimplemented")


async def test_policy_and_users_hold_at_this_door_too(api):
    async with api('{tools: {deny: ["exec", "write"]}}') as door:
        box = await door.create()
        denied = (await box.run("/bin/true"))[-1]["error"]
        assert denied["code"] == "permission_denied"
        assert "denied" in denied["message"]
        answer = await box.client.post(
            "/files?path=x", content=b"x", headers={"Content-Type": "application/octet-stream"}
        )
        assert answer.status_code == 403
        root = {"Authorization": "Basic " + base64.b64encode(b"root:").decode()}
        answer = await box.client.post("/filesystem.Filesystem/Stat", json={"path": "."}, headers=root)
        assert answer.json()["code"] == "invalid_argument"


async def test_a_session_on_the_host_is_no_sandbox(api):
    async with api('{agents: {defaults: {sandbox: {mode: "off"}}}}') as door:
        answer = await door.client.post("/sandboxes", json={"templateID": "base"})
        assert answer.status_code == 403
        assert "host" in answer.json()["message"]


NOT_OFFERED = [
    ({"templateID": "mine"}, 404),
    ({"templateID": "base", "timeout": -1}, 400),
    ({"templateID": "base", "timeout": True}, 400),
    ({"templateID": "base", "timeout": 10**9}, 400),
    ({"templateID": "base", "metadata": {"a": 1}}, 400),
    ({"templateID": "base", "metadata": {"a": "x" * 100_000}}, 400),
    ({"templateID": "base", "volumeMounts": [{"name": "a"}]}, 501),
    ({"templateID": "base", "mcp": {"a": {}}}, 501),
]


async def test_what_cannot_be_offered_is_refused_with_the_apis_own_error(api):
    async with api() as door:
        for body, status in NOT_OFFERED:
            answer = await door.client.post("/v2/sandboxes", json=body)
            assert (answer.status_code, answer.json()["code"]) == (status, status)
        assert (await door.client.get("/v2/sandboxes")).json() == []


async def test_files_go_in_by_form_and_as_they_are(api):
    async with api() as door:
        box = await door.create()
        sent = [("file", ('a "1"', b"one")), ("file", ("d/2", b"\0\xff" * 100_000))]
        answer = await box.client.post("/files", files=sent)
        assert [one["path"] for one in answer.json()] == ['/home/user/a "1"', "/home/user/d/2"]
        assert (await box.client.get("/files", params={"path": "d/2"})).content == b"\0\xff" * 100_000
        assert (await box.client.get("/files", params={"path": "none"})).status_code == 404
        assert (await box.client.get("/files", params={"path": "/etc/../proc/1/environ"})).status_code in (
            400,
            403,
            404,
        )
        for content, kind in (
            (
                b'--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\nhalf',
                "multipart/form-data; boundary=b",
            ),
            (b"no form", "multipart/form-data; boundary=b"),
            (b"x", "multipart/form-data"),
            (b"x", "text/plain"),
        ):
            answer = await box.client.post("/files", content=content, headers={"Content-Type": kind})
            assert answer.status_code in (400, 415), answer.text
        assert (await box.client.get("/files", params={"path": "x"})).status_code == 404


async def test_a_gzip_body_is_written_as_it_was(api):
    import gzip

    async with api() as door:
        box = await door.create()
        headers = {"Content-Type": "application/octet-stream", "Content-Encoding": "gzip"}
        for body, status in (
            (gzip.compress(b"x" * 10**6), 200),
            (b"not gzip", 400),
            (gzip.compress(b"y" * 100)[:-4], 400),
        ):
            assert (await box.client.post("/files?path=z", content=body, headers=headers)).status_code == status
        assert (await box.client.get("/files?path=z")).content == b"x" * 10**6


async def test_a_process_outlives_its_request_and_ends_with_its_sandbox(api):
    async with api() as door:
        box = await door.create()
        sent = envelope(
            {"process": {"cmd": "/bin/sh", "args": ["-c", "read x; echo $x; sleep 300"]}, "stdin": True, "tag": "t"}
        )
        async with box.client.stream("POST", START, content=sent, headers=STREAM) as answer:
            pid = messages(await anext(answer.aiter_raw()))[0]["event"]["start"]["pid"]
        listed = (await box.rpc("/process.Process/List")).json()["processes"]
        assert [(one["pid"], one["tag"]) for one in listed] == [(pid, "t")]
        async with box.client.stream(
            "POST", "/process.Process/Connect", content=envelope({"process": {"tag": "t"}}), headers=STREAM
        ) as answer:
            pieces = answer.aiter_raw()
            await anext(pieces)
            await box.rpc("/process.Process/SendInput", process={"pid": pid}, input={"stdin": "YWJjCg=="})
            assert output(messages(await anext(pieces))) == b"abc\n"
            await door.client.delete(f"/sandboxes/{box.id}")
            rest = [one for piece in [piece async for piece in pieces] for one in messages(piece)]
            assert rest[-2]["event"]["end"]["status"] == "signal: killed"


async def test_code_keeps_its_state_and_an_answer_from_inside_is_checked(api):
    async with api() as door:
        box = await door.create()

        async def run(code):
            answer = await box.client.post("/execute", json={"code": code, "context_id": None, "language": None})
            return [json.loads(line) for line in answer.text.splitlines()]

        first = await run("x = 20\nprint('hello')\nx + 1")
        assert [one["type"] for one in first] == ["number_of_executions", "stdout", "result"]
        assert [one["text"] for one in first[1:]] == ["hello\n", "21"]
        assert (await run("x"))[-1] == {"type": "result", "is_main_result": True, "text": "20"}
        error = (await run("1 / 0"))[-1]
        assert (error["type"], error["name"]) == ("error", "ZeroDivisionError")
        forged = await run(
            'import os\nos.write(3, b\'{"type": "result", "text": 1, "evil": 2}\\n[1]\\nno json\\n\')\nNone'
        )
        assert all("evil" not in one for one in forged)
        assert (await run("import os; os._exit(3)"))[-1]["name"] == "KernelDied"
        assert (await run("x"))[-1]["name"] == "NameError"


async def test_a_sandbox_ends_when_its_time_is_over(api):
    async with api() as door:
        box = await door.create()
        assert (await door.client.post(f"/sandboxes/{box.id}/timeout", json={"timeout": 0})).status_code == 204

        async def ended():
            return (await box.client.get("/health")).status_code == 502

        await until(ended)


async def test_a_port_is_reached_by_name_and_has_no_way_to_the_api(api):
    async with api() as door:
        port = int(door.url.rpartition(":")[2])
        other = httpx.AsyncClient(base_url=door.url, headers={"Host": f"8000-{'0' * 20}.localhost:{port}"})
        async with other:
            answer = await other.get("/v2/sandboxes", headers={"X-API-Key": door.key})
            assert (answer.status_code, answer.text) == (502, "The sandbox was not found")
        wrong = await door.client.get("/v2/sandboxes", headers={"Host": "evil.example"})
        assert wrong.status_code == 421
