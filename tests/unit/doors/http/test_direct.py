"""Plain requests, which do not pass through the framework: they say what it would say, and end with their client."""

from __future__ import annotations

import asyncio
import os

import pytest

from crabpot.audit.reading import AuditReader
from crabpot.doors.http.access.principals import Role
from tests.support.counted_threads import CountedThreads
from tests.support.waiting import until

S = "agent:main:main"
JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    ("path", "body", "headers"),
    [
        (f"{S}/tools/exec", b'{"command": "echo one; exit 3"}', JSON),
        (f"{S}/tools/ls", b"", {}),
        (f"{S}/tools/read", b'{"path": "missing"}', JSON),
        (f"{S}/tools/read", b'{"path": "missing"', JSON),
        (f"{S}/tools/read", b"[]", JSON),
        (f"{S}/tools/read", b"path=x", {"Content-Type": "text/plain"}),
        ("agent:other:x/tools/ls", b"{}", JSON),
        ("agent:/tools/ls", b"{}", JSON),
        ("%00/tools/ls", b"{}", JSON),
        # A key that one of the two would decode once more, or cut elsewhere, would be another session's.
        ("agent%3Amain%3amain/tools/ls", b"{}", JSON),
        ("agent%253Amain%253Amain/tools/ls", b"{}", JSON),
        ("agent:main:x%2Ftools%2Fls/tools/ls", b"{}", JSON),
        ("agent:main:x%2F../tools/ls", b"{}", JSON),
        ("agent:main:%ff/tools/ls", b"{}", JSON),
        (f"{S}/tools/l%73", b"{}", JSON),
        (f"{S}//tools/ls", b"{}", JSON),
        (f"{'x' * 5000}/tools/ls", b"{}", JSON),
        (f"{'x' * 50_000}/tools/ls", b"{}", JSON),
        (f"{S}/tools/exec/more", b"{}", JSON),
        (f"{S}/tools/ls", b"{}", {**JSON, "Crabpot-Sender": "somebody"}),
    ],
)
async def test_a_plain_call_is_answered_as_the_framework_answers_it(door, path, body, headers):
    async with door() as made:
        agent = made.client(made.tokens.add("an-agent", Role.AGENT, sessions=(S,)))
        for client in (made.operator, agent):
            plain = await client.post(f"/v1/sessions/{path}", content=body, headers=headers)
            # With a query it is the framework's.
            other = await client.post(f"/v1/sessions/{path}?stream=false", content=body, headers=headers)
            said, expected = plain.json(), other.json()
            for one in (said, expected):
                one.pop("id", None), one.pop("duration_ms", None)
            assert (plain.status_code, said) == (other.status_code, expected)
            assert plain.headers["content-type"] == other.headers["content-type"]


async def test_a_client_that_sent_its_next_call_and_left_has_its_first_cancelled(door):
    async with door() as made:
        reader, writer = await asyncio.open_unix_connection(os.path.join(made.made.state, "http.sock"))
        for command in ("echo $$ > pid; sleep 1000", "true"):
            body = f'{{"command": "{command}"}}'
            head = f"POST /v1/sessions/{S}/tools/exec HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
            writer.write(f"{head}{body}".encode())
        await writer.drain()
        while not (await made.operator.get(f"/v1/sessions/{S}/files/pid")).content.strip().isdigit():
            await asyncio.sleep(0.01)
        writer.close()
        assert await asyncio.wait_for(reader.read(), 20) == b""

        def ended():
            found = AuditReader(made.made.state).last(100)
            return [one["error"] for one in found if one.get("tool") == "exec"] == ["cancelled"]

        await until(ended)


LISTS = ["/v1/approvals", "/v1/sandboxes", "/v1/audit", "/v1/audit?limit=3"]


@pytest.mark.parametrize("path", [*LISTS, "/v1/audit?limit=0", "/v1/audit?limit=1001", "/v1/audit?limit=03"])
async def test_a_list_is_answered_as_the_framework_answers_it(door, path):
    async with door() as made:
        for number in range(5):
            await made.operator.post(f"/v1/sessions/{S}/tools/exec", json={"command": f"exit {number}"})
        agent = made.client(made.tokens.add("an-agent", Role.AGENT, sessions=(S,)))
        observer = made.client(made.tokens.add("an-observer", Role.OBSERVER))
        for client in (made.operator, agent, observer):
            plain = await client.get(path)
            # With another name in its query it is the framework's.
            other = await client.get(f"{path}{'&' if '?' in path else '?'}other=1")
            assert (plain.status_code, plain.json()) == (other.status_code, other.json())
            assert plain.headers["content-type"] == other.headers["content-type"]


@pytest.mark.parametrize("path", ["/v1/approvals", "/v1/audit?limit=3"])
async def test_what_a_page_lists_takes_no_thread_until_it_changes(door, path):
    async with door() as made:
        for number in range(5):
            await made.operator.post(f"/v1/sessions/{S}/tools/exec", json={"command": f"exit {number}"})
        threads = CountedThreads.of_this_loop()
        first = (await made.operator.get(path)).json()
        before = threads.jobs
        assert [(await made.operator.get(path)).json() for _ in range(3)] == [first] * 3
        assert threads.jobs == before


async def test_a_record_is_listed_as_soon_as_its_call_is_answered_and_takes_no_thread(door):
    async with door() as made:
        for number in range(5):
            await made.operator.post(f"/v1/sessions/{S}/tools/exec", json={"command": f"exit {number}"})
        await made.operator.get("/v1/audit?limit=3")
        threads = CountedThreads.of_this_loop()
        for number in range(5):
            await made.operator.post(f"/v1/sessions/{S}/tools/exec", json={"command": f": {number}"})
            before = threads.jobs
            found = (await made.operator.get("/v1/audit?limit=3")).json()["records"]
            assert found[-1]["args"]["command"] == f": {number}"
            assert threads.jobs == before
