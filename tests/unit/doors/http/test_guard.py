"""Who comes in by HTTP, and who does not: wrong tokens, wrong names, other sites' pages, agents at operators' doors."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import subprocess
from contextlib import suppress

import httpx
import pytest

from crabpot.doors.http.access import limits
from crabpot.doors.http.access.principals import Role
from crabpot.doors.http.listening import SOCKET_NAME, _bound, address
from crabpot.errors import CrabpotError

S = "agent:main:main"
LS = f"/v1/sessions/{S}/tools/ls"
OPERATORS = [
    ("GET", "/v1/approvals"),
    ("POST", "/v1/approvals/00"),
    ("GET", "/v1/sandboxes"),
    ("POST", "/v1/sandboxes/x/stop"),
    ("GET", "/v1/sessions/x/snapshots"),
    ("POST", "/v1/sessions/x/snapshots"),
    ("POST", "/v1/sessions/x/snapshots/y/restore"),
    ("DELETE", "/v1/sessions/x/snapshots/y"),
    ("POST", "/v1/sessions/x/fork"),
    ("GET", "/v1/audit"),
    ("GET", f"/v1/sessions/{S}/explain"),
    ("GET", "/metrics"),
]


async def test_the_socket_is_private_and_gone_afterwards(door):
    async with door() as made:
        assert stat.S_IMODE(os.stat(made.path).st_mode) == 0o600
        assert made.path == os.path.join(made.made.state, SOCKET_NAME)
    assert not os.path.exists(made.path)


NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3", "-I", "-c")
KNOCK = """
import socket, sys
knock = socket.socket(socket.AF_UNIX)
knock.settimeout(20)
try:
    knock.connect(sys.argv[1])
    knock.sendall(b"GET /health HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
    print(knock.recv(100))
except (ConnectionError, BrokenPipeError):
    print(b"")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
async def test_another_user_is_cut_off_even_where_the_permissions_let_it_in(door, open_folder):
    async with door() as made:
        moved = open_folder / "sock"
        os.link(made.path, moved)
        os.chmod(moved, 0o666)
        command = [*NOBODY, KNOCK, str(moved)]
        knock = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=30, check=True)
        assert knock.stdout.strip() == "b''"
        assert (await made.operator.get("/health")).status_code == 200


async def test_over_the_socket_the_same_user_is_the_operator(door):
    async with door() as made:
        for method, path in (("POST", LS), ("GET", "/v1/audit"), ("GET", "/v1/approvals"), ("GET", "/metrics")):
            assert (await made.operator.request(method, path)).status_code == 200


@pytest.mark.parametrize(
    ("method", "path"), [("POST", LS), *OPERATORS, ("POST", "/mcp"), ("GET", "/openapi.json"), ("GET", "/nowhere")]
)
async def test_without_a_right_token_nobody_comes_in_by_the_loopback(door, method, path):
    async with door() as made:
        real = made.tokens.rotate("operator")
        for given in (None, "", "Bearer", f"Bearer {real}x", f"Basic {real}", real, f"Bearer {real[:-1]}"):
            headers = {} if given is None else {"Authorization": given}
            answer = await made.stranger.request(method, path, headers=headers)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"
            assert answer.json()["error"]["code"] == "unauthorized"
        assert made.made.backend.opened == []


async def test_a_token_that_was_rotated_opens_nothing_from_that_moment(door):
    async with door() as made:
        old = made.tokens.rotate("operator")
        client = made.client(old)
        assert (await client.post(LS)).status_code == 200
        new = made.tokens.rotate("operator")
        assert (await client.post(LS)).status_code == 401
        assert (await made.client(new).post(LS)).status_code == 200


async def test_trying_out_tokens_soon_becomes_slow_for_strangers_and_for_nobody_else(door):
    async with door() as made:
        guess = {"Authorization": "Bearer guess"}
        answers = await asyncio.gather(*(made.stranger.post(LS, headers=guess) for _ in range(300)))
        slower = [one for one in answers if one.status_code == 429]
        assert slower
        assert int(slower[0].headers["retry-after"]) >= 1
        assert (await made.client(made.tokens.rotate("operator")).post(LS)).status_code == 200
        assert (await made.stranger.get("/health")).status_code == 200


async def test_health_is_for_anybody_and_says_nothing_else(door):
    async with door() as made:
        answer = await made.stranger.get("/health")
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


@pytest.mark.parametrize(("method", "path"), OPERATORS)
@pytest.mark.parametrize("role", [Role.AGENT, Role.OBSERVER])
async def test_no_other_token_opens_the_operators_door(door, method, path, role):
    if (role, path) == (Role.OBSERVER, "/metrics"):
        pytest.skip("that is what observers are for")
    async with door() as made:
        secret = made.tokens.add("other", role, sessions=("*",) if role is Role.AGENT else ())
        answer = await made.client(secret).request(method, path, json={"allowed": True} if method == "POST" else None)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden")


async def test_an_agents_token_is_for_its_own_sessions(door):
    async with door() as made:
        agent = made.client(made.tokens.add("bot", Role.AGENT, sessions=("agent:ops:*",)))
        assert (await agent.post("/v1/sessions/agent:ops:1/tools/ls")).status_code == 200
        for key in (
            S,
            "ops",
            "agent%3Aopsx%3A1",
            "agent:other:1%2Fagent:ops:1",
            "agent:main:main%2F..%2Fagent:ops:1",
        ):
            for method, path in (("POST", "tools/ls"), ("GET", "files/x"), ("PUT", "files/x"), ("GET", "tools")):
                answer = await agent.request(method, f"/v1/sessions/{key}/{path}")
                assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden")
        assert len(made.made.backend.opened) == 1


FILES_AND_TOOLS = (("POST", "tools/exec"), ("GET", "files/x"), ("PUT", "files/x"), ("GET", "tools"))
OPS_ON_HOST = """{agents: {defaults: {workspace: "WS", sandbox: {mode: "off"}},
                           entries: {ops: {sandbox: {mode: "non-main"}}}}}"""


@pytest.mark.parametrize("key", ["agent:ops:", "agent:ops", "agent:", "agent::x", "agent:o%20ps:x"])
async def test_a_key_that_names_no_session_is_an_error_and_not_the_default_agents(door, key):
    async with door(OPS_ON_HOST) as made:
        agent = made.client(made.tokens.add("bot", Role.AGENT, sessions=("agent:ops:*",), allow_host=True))
        for client in (agent, made.operator):
            for method, path in FILES_AND_TOOLS:
                given = {"json": {"command": "id"}} if method == "POST" else {}
                answer = await client.request(method, f"/v1/sessions/{key}/{path}", **given)
                assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_arguments")
        assert made.made.execution.fleet.listed() == []


async def test_an_agents_token_is_never_placed_on_the_host_unless_it_was_made_for_that(door):
    async with door(OPS_ON_HOST) as made:
        agent = made.client(made.tokens.add("bot", Role.AGENT, sessions=("agent:ops:*", "agent:main:*")))
        given = made.client(made.tokens.add("trusted", Role.AGENT, sessions=("agent:ops:*",), allow_host=True))
        for key in ("agent:ops:main", "agent:OPS:main", "agent:main:anything"):
            answer = await agent.post(f"/v1/sessions/{key}/tools/exec", json={"command": "id"})
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, "denied")
            assert "--allow-host" in answer.json()["error"]["message"]
            assert (await agent.get(f"/v1/sessions/{key}/files/x")).status_code == 403
            assert (await agent.put(f"/v1/sessions/{key}/files/x", content=b"x")).status_code == 403
            assert (await agent.get(f"/v1/sessions/{key}/tools")).json() == {"tools": []}
        assert made.made.execution.fleet.listed() == []
        ran = await agent.post("/v1/sessions/agent:ops:1/tools/exec", json={"command": "echo in"})
        assert (ran.json()["stdout"], ran.json()["place"]) == ("in\n", "sandbox")
        for client in (given, made.operator):
            ran = await client.post("/v1/sessions/agent:ops:main/tools/exec", json={"command": "echo out"})
            assert (ran.json()["stdout"], ran.json()["place"]) == ("out\n", "host")


async def test_an_observer_reads_the_metrics_and_calls_nothing(door):
    async with door() as made:
        observer = made.client(made.tokens.add("prometheus", Role.OBSERVER))
        assert (await observer.get("/metrics")).status_code == 200
        assert (await observer.post(LS)).status_code == 403


async def test_the_sender_is_the_tokens_or_the_operators_word_and_never_the_agents(door):
    async with door('{tools: {extra: ["who"]}}') as made:
        agent = made.client(made.tokens.add("bot", Role.AGENT, sessions=("*",), sender="telegram:7"))
        stated = {"Crabpot-Sender": "somebody"}
        assert (await agent.post(LS, headers=stated)).status_code == 403
        await agent.post(LS)
        await made.operator.post(LS, headers=stated)
        await made.operator.post(LS)
        records = (await made.operator.get("/v1/audit")).json()["records"]
        assert [one["sender"] for one in records if one["kind"] == "call"] == ["telegram:7", "somebody", None]


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1",
        "localhost",
        "evil.example:PORT",
        "localhost.evil.example:PORT",
        "LOCALHOST:PORT",
        "0:PORT",
        "[::1]:PORT",
        "",
    ],
)
async def test_a_name_that_is_not_ours_is_refused_whoever_asks(door, host):
    async with door() as made:
        token = made.tokens.rotate("operator")
        port = made.url.rsplit(":", 1)[1]
        headers = {"Host": host.replace("PORT", port)}
        for path in ("/health", "/openapi.json", LS):
            answer = await made.client(token).request("GET", path, headers=headers)
            assert (answer.status_code, answer.json()["error"]["code"]) == (421, "wrong_host")
        assert (await made.client(token).get("/health", headers={"Host": f"localhost:{port}"})).status_code == 200


async def test_pages_of_other_sites_are_refused_and_none_is_told_that_it_may_ask(door):
    async with door() as made:
        client = made.client(made.tokens.rotate("operator"))
        port = made.url.rsplit(":", 1)[1]
        for origin in (
            "http://evil.example",
            "null",
            "http://localhost",
            f"https://localhost:{port}",
            f"http://localhost:{port}.evil.example",
            "",
        ):
            assert (await client.post(LS, headers={"Origin": origin})).status_code == 403
        ours = await client.post(LS, headers={"Origin": made.url})
        assert ours.status_code == 200
        asked = await client.options(LS, headers={"Origin": made.url, "Access-Control-Request-Method": "POST"})
        assert asked.status_code == 405
        for answer in (ours, asked):
            assert not [name for name in answer.headers if name.startswith("access-control")]
        assert (await made.operator.post(LS, headers={"Origin": "http://crabpot"})).status_code == 403


async def raw(made, text):
    reader, writer = await asyncio.open_connection("127.0.0.1", int(made.url.rsplit(":", 1)[1]))
    writer.write(text.replace("HOST", made.url.removeprefix("http://")).encode("latin-1"))
    answer = await asyncio.wait_for(reader.read(65536), 20)
    writer.close()
    return answer.split(b"\r\n", 1)[0]


async def test_headers_that_stand_there_twice_are_refused(door):
    async with door() as made:
        token = made.tokens.rotate("operator")
        line = f"Authorization: Bearer {token}\r\n"
        # Of two types of a body, one would be checked and the other read.
        types = "Content-Type: application/json\r\nContent-Type: text/plain\r\n"
        for twice in (line, "Host: HOST\r\n", "Origin: http://HOST\r\n" * 2, types):
            got = await raw(made, f"GET /v1/audit HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n{line}{twice}\r\n")
            assert got.startswith(b"HTTP/1.1 400 ")


async def test_a_body_that_is_too_large_is_refused_declared_or_not(door):
    async with door() as made:
        token = made.tokens.rotate("operator")
        lines = f"Host: HOST\r\nAuthorization: Bearer {token}\r\nContent-Length: {limits.MOST_JSON + 1}\r\n"
        assert (await raw(made, f"POST {LS} HTTP/1.1\r\n{lines}\r\n")).startswith(b"HTTP/1.1 413 ")

        async def endless():
            for _ in range(limits.MOST_JSON // 65536 + 2):
                yield b" " * 65536

        # Cut off before it has sent everything is as good.
        with suppress(httpx.WriteError):
            assert (await made.operator.post(LS, content=endless())).status_code == 413


@pytest.mark.parametrize(
    "text",
    [
        "0.0.0.0:80",
        "192.168.0.1:80",
        "example.com:80",
        "[::]:80",
        ":80",
        "127.0.0.1",
        "127.0.0.1:x",
        "127.0.0.1:99999",
        "8080",
    ],
)
def test_nothing_but_the_loopback_is_listened_on(text):
    with pytest.raises(CrabpotError, match=r"127\.0\.0\.1"):
        address(text)


def test_the_loopback_has_several_names():
    assert (address("localhost:1").host, address("[::1]:2").host, address("127.0.0.2:3").port) == (
        "127.0.0.1",
        "::1",
        3,
    )


async def test_a_port_that_is_taken_is_told(door, bench):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(CrabpotError, match="choose another port"):
            _bound(address(f"127.0.0.1:{taken.getsockname()[1]}"))


async def test_a_broken_file_of_tokens_lets_nobody_in(door):
    async with door() as made:
        token = made.tokens.rotate("operator")
        os.chmod(os.path.join(made.made.state, "tokens.json"), 0o666)
        os.utime(os.path.join(made.made.state, "tokens.json"))
        assert (await made.client(token).post(LS)).status_code == 500
        assert made.made.backend.opened == []


def test_answers_do_not_wait_for_delayed_acknowledgements():
    """By its name asyncio knows that a socket is TCP, and turns Nagle's algorithm off: else every answer takes 40 ms."""
    with _bound(address("127.0.0.1:0")) as listener:
        assert listener.proto == socket.IPPROTO_TCP
