"""A gateway behind a socket: only its own user's, one at a time, and no client costs another anything."""

from __future__ import annotations

import asyncio
import base64
import os
import socket
import stat
import subprocess
import sys
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

import crabpot
from crabpot.audit.reading import AuditReader
from crabpot.decide.scope import PRINCIPAL
from crabpot.doors.local.client import connect
from crabpot.doors.local.connection import Connection
from crabpot.doors.local.identity import SOCKET_NAME
from crabpot.doors.local.server import AlreadyServing, Door, fingerprint, serve
from crabpot.errors import CrabpotError
from crabpot.model import Place, ToolResult
from crabpot.runner.core.frames import MAX_LINE, WINDOW, FrameReader, encode
from crabpot.sandboxes.streams import Streams
from tests.support.waiting import until

S = "agent:main:main"


async def no_inquiries(name, _args):
    if name == "crash":
        raise ValueError("a fault of ours")
    if name == "huge-ish":
        return "x" * 10_000
    if name == "huge":
        return "x" * MAX_LINE
    if name == "hello":
        return {"hello": [1, None, "é"]}
    raise CrabpotError(f"no inquiry is called {name!r}")


@asynccontextmanager
async def serving(made, **more):
    async with serve(made.gateway, made.state, no_inquiries, **more) as path:
        yield path


@asynccontextmanager
async def client(made):
    remote = await connect(made.state)
    assert remote is not None
    try:
        yield remote
    finally:
        await remote.close()


class Raw:
    """A client that says whatever it likes."""

    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(path)
        self.sock.setblocking(False)
        self._reader = FrameReader()
        self._frames = []

    async def send(self, data):
        await asyncio.get_running_loop().sock_sendall(self.sock, data)

    async def frame(self):
        while not self._frames:
            data = await asyncio.get_running_loop().sock_recv(self.sock, 1 << 20)
            if not data:
                return None
            self._frames += self._reader.feed(data)
        return self._frames.pop(0)

    async def dropped(self):
        try:
            while await self.frame() is not None:
                pass
        except ConnectionError:
            pass
        self.sock.close()
        return True


# --- who may come in ----------------------------------------------------------------------------------------------------


async def test_the_socket_is_private_in_a_private_folder_and_gone_afterwards(bench):
    async with bench() as made:
        async with serving(made) as path:
            assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
            assert stat.S_IMODE(os.stat(made.state).st_mode) == 0o700
            assert path == os.path.join(made.state, SOCKET_NAME)
        assert not os.path.exists(path)
        assert await connect(made.state) is None


@pytest.mark.parametrize("said", [False, None, 0, "yes"], ids=repr)
async def test_a_call_that_is_not_plainly_allowed_the_host_is_kept_off_it(bench, said):
    async with bench('{agents: {defaults: {sandbox: {mode: "off"}}}}') as made, serving(made) as path:
        async with client(made) as remote:
            assert (await remote.call(S, "exec", {"command": "true"})).place is Place.HOST
            kept_off = await remote.call(S, "exec", {"command": "true"}, host_allowed=False)
            assert (kept_off.error.code, kept_off.place) == ("denied", Place.NONE)
        raw = Raw(path)
        await raw.send(encode({"op": "hello"}))
        await raw.frame()
        call = {"id": "1", "tool": "exec", "session": S, "args": {"command": "true"}, "host_allowed": said}
        await raw.send(encode(call))
        assert (await raw.frame())[0]["error"]["code"] == "denied"
        raw.sock.close()


async def test_a_folder_that_others_can_write_is_refused(bench):
    async with bench() as made:
        os.chmod(made.state, 0o777)
        with pytest.raises(CrabpotError, match="chmod go-w"):
            async with serving(made):
                pass


KNOCK = """
import socket, sys
knock = socket.socket(socket.AF_UNIX)
knock.settimeout(20)
try:
    knock.connect(sys.argv[1])
    knock.sendall(b'{"op":"hello"}\\n')
    print(knock.recv(100))
except PermissionError:
    print("no permission")
except (ConnectionError, BrokenPipeError):
    print(b"")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
async def test_another_user_is_refused_even_where_the_permissions_let_it_in(bench, open_folder):
    async with bench() as made:
        made.state = str(open_folder / "state")
        async with serving(made) as path:
            assert (await knock(path)).strip() == "no permission"
            os.chmod(made.state, 0o711)
            os.chmod(path, 0o666)
            assert (await knock(path)).strip() == "b''"
            async with client(made) as remote:
                assert (await remote.inquire("hello"))["hello"][0] == 1


NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3", "-I", "-c")
LISTEN = """
import socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
print("listening", flush=True)
listener.accept()
"""


async def knock(path):
    command = [*NOBODY, KNOCK, path]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=30, check=True)
    return done.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
async def test_a_client_does_not_talk_to_another_users_socket(open_folder):
    with subprocess.Popen([*NOBODY, LISTEN, str(open_folder / SOCKET_NAME)], stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        with pytest.raises(CrabpotError, match="belongs to another user"):
            await connect(str(open_folder))
        other.wait(timeout=20)


async def test_a_dead_gateways_socket_is_replaced(bench):
    async with bench() as made:
        dead = socket.socket(socket.AF_UNIX)
        dead.bind(os.path.join(made.state, SOCKET_NAME))
        dead.close()
        assert await connect(made.state) is None
        async with serving(made), client(made) as remote:
            assert (await remote.call(S, "exec", {"command": "echo x"})).stdout == "x\n"


async def test_a_second_one_is_refused_and_the_first_goes_on(bench):
    async with bench() as made, serving(made):
        with pytest.raises(AlreadyServing):
            async with serving(made):
                pass
        async with client(made) as remote:
            assert (await remote.call(S, "ls")).success


async def test_of_many_that_start_at_once_one_serves(bench):
    async with bench() as made:
        entered = asyncio.Event()

        async def start():
            try:
                async with serving(made):
                    await entered.wait()
                    return 1
            except AlreadyServing:
                return 0

        starting = [asyncio.create_task(start()) for _ in range(10)]
        await asyncio.wait(starting, timeout=0.2)
        async with client(made):
            entered.set()
        assert sum(await asyncio.gather(*starting)) == 1


async def test_a_path_longer_than_a_sockets_address_serves_too(bench):
    async with bench() as made:
        made.state = os.path.join(made.state, *["deep" * 20] * 3)
        async with serving(made) as path:
            assert len(path) > 200
            async with client(made) as remote:
                assert (await remote.call(S, "ls")).success


async def test_whoever_serves_says_by_which_configuration(bench, tmp_path):
    config = tmp_path / "crabpot.json5"
    config.write_text("{}")
    adopted = [fingerprint(str(config))]
    async with bench() as made, serving(made, adopted=lambda: adopted[0]):
        async with client(made) as remote:
            assert remote.decides_by(str(config))
            assert not remote.decides_by(None)
            config.write_text("{tools: {deny: ['exec']}}")
            assert not remote.decides_by(str(config))
        adopted[0] = fingerprint(str(config))
        async with client(made) as remote:
            assert remote.decides_by(str(config))
    assert fingerprint(None) == "defaults"


@pytest.mark.parametrize("claims", [{"config": "0" * 64}, {"config": "defaults", "code": "another"}], ids=repr)
async def test_a_client_with_another_configuration_or_version_is_served_no_call(bench, claims):
    async with bench() as made:
        ready = {"op": "ready", "protocol": 1, "config": "defaults", "code": "this", "brings": []}
        door = Door(made.gateway, no_inquiries, lambda: ready)
        await door.listen(made.state)
        remote = await connect(made.state, claims=claims)
        assert remote is not None
        refused = await remote.call(S, "ls")
        assert refused.error is not None
        assert "another configuration" in refused.error.message
        assert await remote.inquire("hello") == {"hello": [1, None, "é"]}
        await remote.close()
        await door.close()


# --- calls --------------------------------------------------------------------------------------------------------------


async def test_a_result_is_the_same_on_both_sides(bench):
    async with (
        bench('{agents: {defaults: {workspace: "WS"}}, tools: {deny: ["glob"]}}') as made,
        serving(made),
        client(made) as remote,
    ):
        for tool, args in (
            ("exec", {"command": "echo out; echo err >&2; exit 3"}),
            ("write", {"path": "a", "content": "é\n"}),
            ("read", {"path": "a"}),
            ("read", {"path": "a", "encoding": "base64"}),
            ("write", {"path": "empty", "content": ""}),
            ("read", {"path": "empty"}),
            ("read", {"path": "missing"}),
            ("glob", {"pattern": "*"}),
            ("no-such-tool", {}),
            ("exec", {"command": "true", "timeout": 10**6}),
        ):
            here = (await made.gateway.call(S, tool, args)).as_json()
            there = (await remote.call(S, tool, args)).as_json()
            assert there["id"].rpartition("-")[0] == here["id"].rpartition("-")[0]
            for field in ("id", "duration_ms"):
                del here[field], there[field]
            if tool == "write":
                here["data"].pop("created")
                there["data"].pop("created")
            assert there == here


TEXTS = {
    "a megabyte": "x" * (1 << 20),
    "what JSON doubles": '"\\\n' * 100_000,
    "what JSON makes six times as long": "\x01" * 200_000,
    "what JSON makes three times as long": "😀" * 100_000,
    "just below what fits into a line": "\x7f" * (127 * 1024),
}


@pytest.mark.parametrize("name", TEXTS)
async def test_large_outputs_arrive_whole(bench, name):
    text = TEXTS[name]
    async with (
        bench('{agents: {defaults: {workspace: "WS", sandbox: {limits: {output: "8m"}}}}}') as made,
        serving(made),
        client(made) as remote,
    ):
        await remote.call(S, "write", {"path": "f", "content": text[: len(text) // 2]})
        result = await remote.call(S, "exec", {"command": "cat f; cat f; cat f >&2"})
        assert result.success, result.error
        assert result.stdout == text[: len(text) // 2] * 2
        assert result.stderr == text[: len(text) // 2]


async def test_a_little_on_one_stream_and_much_on_the_other_do_not_wait_for_each_other(bench):
    async with (
        bench('{agents: {defaults: {workspace: "WS", sandbox: {limits: {output: "8m"}}}}}') as made,
        serving(made),
        client(made) as remote,
    ):
        result = await remote.call(S, "exec", {"command": "echo x; head -c 3000000 /dev/zero | tr '\\0' y >&2"})
        assert (result.stdout, len(result.stderr)) == ("x\n", 3_000_000)


@pytest.mark.parametrize("binary", [False, True])
async def test_a_megabyte_of_content_arrives_whole(bench, binary):
    raw = os.urandom(1 << 20) if binary else b"line\n" * 200_000
    content = base64.b64encode(raw).decode() if binary else raw.decode()
    encoding = "base64" if binary else "utf-8"
    async with bench() as made, serving(made), client(made) as remote:

        async def source():
            yield raw

        written = await remote.call(S, "write", {"path": "f"}, streams=Streams(source=source()))
        assert written.data["size"] == len(raw)
        result = await remote.call(S, "read", {"path": "f", "encoding": encoding})
        assert result.data["content"] == content


async def test_both_ways_are_streamed_at_the_pace_of_the_slower(bench):
    taken = bytearray()
    content = os.urandom(3 << 20)

    async def source():
        for start in range(0, len(content), 1 << 20):
            yield content[start : start + (1 << 20)]

    async def slow(_stream, data):
        await asyncio.sleep(0.001)
        taken.extend(data)

    async with (
        bench('{agents: {defaults: {workspace: "WS", sandbox: {limits: {output: "16m"}}}}}') as made,
        serving(made),
        client(made) as remote,
    ):
        streams = Streams(source=source(), sink=slow)
        result = await remote.call(S, "exec", {"command": "cat"}, streams=streams)
        assert result.success
        assert bytes(taken) == content


async def test_output_comes_while_the_command_runs(bench):
    seen = asyncio.Event()

    async def notice(_stream, data):
        if data == b"first\n":
            seen.set()

    async def source():
        await seen.wait()
        yield b"second\n"

    async with bench() as made, serving(made), client(made) as remote:
        streams = Streams(source=source(), sink=notice)
        assert (await remote.call(S, "exec", {"command": "echo first; cat"}, streams=streams)).success


async def test_a_stalled_client_stops_neither_its_other_calls_nor_anybody_elses(bench):
    released = asyncio.Event()

    async def stalled(_stream, _data):
        await released.wait()

    async with (
        bench('{agents: {defaults: {workspace: "WS", sandbox: {limits: {output: "16m"}}}}}') as made,
        serving(made),
        client(made) as one,
        client(made) as other,
    ):
        streams = Streams(sink=stalled)
        flood = asyncio.create_task(one.call(S, "exec", {"command": "yes | head -c 9000000"}, streams=streams))
        for remote in (one, other, one, other):
            assert (await remote.call(S, "exec", {"command": "echo on"})).stdout == "on\n"
        assert not flood.done()
        released.set()
        assert (await flood).success


async def test_a_cancelled_call_ends_inside_and_its_client_stays(bench):
    async with bench() as made, serving(made), client(made) as remote:
        task = asyncio.create_task(remote.call(S, "exec", {"command": "echo $$ > pid; sleep 1000"}))
        pid = await until(lambda: pid_in(made))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not os.path.exists(f"/proc/{pid}")
        assert (await remote.call(S, "exec", {"command": "echo on"})).stdout == "on\n"


def pid_in(made):
    for live in made.execution.fleet.listed():
        path = os.path.join(live.sandbox.hello["workspace"], "pid")
        if os.path.exists(path) and os.path.getsize(path):
            with open(path) as stream:
                return int(stream.read())
    return None


async def test_a_client_that_vanishes_takes_its_calls_along(bench):
    async with bench() as made, serving(made), client(made) as other:
        one = await connect(made.state)
        task = asyncio.create_task(one.call(S, "exec", {"command": "echo $$ > pid; sleep 1000"}))
        pid = await until(lambda: pid_in(made))
        await one.close()
        with pytest.raises(CrabpotError, match="gateway is gone"):
            await task
        await until(lambda: not os.path.exists(f"/proc/{pid}"))
        assert (await other.call(S, "exec", {"command": "echo on"})).stdout == "on\n"

        async def recorded():
            await made.audit.durable()
            return any(record["error"] == "cancelled" for record in AuditReader(made.state).last(5))

        await until(lambda: not any(live.wire.busy for live in made.execution.fleet.listed()))
        assert await recorded()


async def test_two_hundred_calls_of_one_client_at_once(bench):
    async with bench() as made, serving(made), client(made) as remote:
        calls = [remote.call(S, "exec", {"command": f"echo {number}"}) for number in range(200)]
        assert [result.stdout for result in await asyncio.gather(*calls)] == [f"{number}\n" for number in range(200)]


async def test_the_end_of_the_service_ends_calls_and_is_told(bench):
    async with bench() as made:
        async with serving(made):
            remote = await connect(made.state)
            task = asyncio.create_task(remote.call(S, "exec", {"command": "echo $$ > pid; sleep 1000"}))
            pid = await until(lambda: pid_in(made))
        ended: Any = (await asyncio.gather(task, return_exceptions=True))[0]
        assert isinstance(ended, CrabpotError) or ended.error.code == "cancelled"
        assert not os.path.exists(f"/proc/{pid}")
        await remote.close()


# --- what is not a tool call --------------------------------------------------------------------------------------------


async def test_inquiries_are_answered_or_told(bench):
    async with bench() as made, serving(made), client(made) as remote:
        assert await remote.inquire("hello") == {"hello": [1, None, "é"]}
        for name, message in (
            ("nothing", "no inquiry"),
            ("crash", "ValueError: a fault of ours"),
            ("huge", "not sent"),
        ):
            with pytest.raises(CrabpotError, match=message):
                await remote.inquire(name)
        assert await remote.inquire("hello")


# --- clients that break the protocol ------------------------------------------------------------------------------------


def start(**more):
    return encode({"id": "1", "tool": "ls", "args": {}, "session": S, **more})


ATTACKS = {
    "no JSON": b"GET / HTTP/1.1\r\n",
    "an array": b"[]\n",
    "a giant line": b"x" * (MAX_LINE + 10),
    "a giant payload": b'{"op":"input","id":"1","bytes":999999999}\n',
    "no id": encode({"tool": "ls"}),
    "an empty id": encode({"id": "", "tool": "ls"}),
    "an id of another kind": encode({"id": 5, "tool": "ls"}),
    "an id that is too long": encode({"id": "x" * 65, "tool": "ls"}),
    "deep nesting": b"[" * 100_000 + b"\n",
    "an id twice": start(tool="exec", args={"command": "sleep 1000"}) * 2,
    "more calls than anybody needs": b"".join(
        encode({"id": str(number), "tool": "exec", "args": {"command": "sleep 1000"}, "session": S})
        for number in range(300)
    ),
    "more input than the window": start(tool="exec", args={"command": "sleep 1000"}, input=True)
    + encode({"op": "input", "id": "1"}, b"x" * WINDOW) * 3,
    "an acknowledgement of what was not sent": start(tool="exec", args={"command": "sleep 1000"}, stream=True)
    + encode({"op": "ack", "id": "1", "n": 5}),
    "input that was not announced": start(tool="exec", args={"command": "sleep 1000"})
    + encode({"op": "input", "id": "1"}, b"x"),
    "an operation of nobody": start(tool="exec", args={"command": "sleep 1000"}) + encode({"op": "sudo", "id": "1"}),
    "an operation that is a list": start(tool="exec", args={"command": "sleep 1000"}) + encode({"op": [], "id": "1"}),
}


@pytest.mark.parametrize("name", ATTACKS)
async def test_a_client_that_breaks_the_protocol_is_dropped_and_no_other(bench, name):
    async with bench() as made, serving(made) as path, client(made) as other:
        raw = Raw(path)
        await raw.send(encode({"op": "hello"}))
        assert (await raw.frame())[0]["op"] == "ready"
        with suppress(ConnectionError):
            await raw.send(ATTACKS[name])
        assert await raw.dropped()
        assert (await other.call(S, "exec", {"command": "echo on"})).stdout == "on\n"
        await until(lambda: not any(live.wire.busy for live in made.execution.fleet.listed()))


@pytest.mark.parametrize(
    ("header", "code"),
    [
        ({"session": 5}, "invalid_arguments"),
        ({"session": ""}, "invalid_arguments"),
        ({"session": "x" * 5000}, "invalid_arguments"),
        ({"session": S, "args": []}, "invalid_arguments"),
        ({"session": S, "args": "x", "tool": ["exec"]}, "denied"),
        ({"session": S, "tool": None}, "denied"),
    ],
)
async def test_a_call_of_the_wrong_shape_is_answered_and_its_client_stays(bench, header, code):
    async with bench() as made, serving(made) as path:
        raw = Raw(path)
        for number in range(2):
            await raw.send(encode({"id": str(number), "tool": "exec", "args": {}, **header}))
            answer, _ = await raw.frame()
            assert (answer["id"], answer["success"], answer["error"]["code"]) == (str(number), False, code)
        raw.sock.close()


async def test_frames_for_a_call_that_has_ended_are_no_offence(bench):
    async with bench() as made, serving(made) as path:
        raw = Raw(path)
        await raw.send(start(input=True, stream=True))
        assert (await raw.frame())[0]["id"] == "1"
        await raw.send(encode({"op": "input", "id": "1"}, b"late"))
        await raw.send(encode({"op": "cancel", "id": "1"}) + encode({"op": "ack", "id": "1", "n": 9}))
        await raw.send(start(id="2"))
        assert (await raw.frame())[0]["id"] == "2"
        raw.sock.close()


async def test_a_flood_of_terminal_sizes_takes_no_memory_and_the_last_one_counts(bench):
    async with bench() as made, serving(made) as path:
        raw = Raw(path)
        args = {"command": 'until [ "$(stty size)" = "33 77" ]; do sleep 0.01; done', "tty": True}
        await raw.send(start(tool="exec", args=args, stream=True))
        for size in (0, -1, 10**9):
            await raw.send(encode({"op": "resize", "id": "1", "rows": size, "cols": size}) * 1000)
        await raw.send(encode({"op": "resize", "id": "1", "rows": 33, "cols": 77}))
        header, _ = await raw.frame()
        assert (header["success"], header["exit_code"]) == (True, 0)
        raw.sock.close()


@pytest.mark.parametrize(
    "data",
    [
        {"content": "!!! no base64", "encoding": "base64"},
        {"content": "QQ=", "encoding": "base64"},
        {"content": "QR==", "encoding": "base64"},
        {"content": ["x"], "encoding": "base64"},
        {"content": "", "encoding": "utf-8"},
        {"content": "plain"},
        {"content": "QQ==", "encoding": "base64"},
    ],
)
async def test_what_a_tool_calls_content_comes_back_as_the_very_same(bench, data):
    async with bench('{agents: {defaults: {workspace: "WS"}}, tools: {extra: ["give"]}}') as made:
        made.gateway.register("give", lambda: data)
        async with serving(made), client(made) as remote:
            assert (await remote.call(S, "give")).data == data


async def test_a_result_that_no_frame_can_carry_is_told(bench):
    async with bench('{agents: {defaults: {workspace: "WS"}}, tools: {extra: ["give"]}}') as made:
        made.gateway.register("give", lambda: {"value": object()})
        async with serving(made), client(made) as remote:
            result = await remote.call(S, "give")
            assert (result.error.code, result.place.value) == ("output_limit", "host")
            made.gateway.register("give", lambda: {"value": "x" * (2 << 20)})
            assert (await remote.call(S, "give")).error.code == "output_limit"


async def test_a_fault_of_ours_is_an_answer_and_not_an_endless_wait(bench):
    async with bench() as made, serving(made), client(made) as remote:
        made.gateway._decided = None
        result = await remote.call(S, "ls")
        assert isinstance(result, ToolResult)
        assert result.error.code == "internal"


# --- as a process -------------------------------------------------------------------------------------------------------


def test_the_program_serves_until_it_is_told_to_end_and_leaves_nothing(tmp_path):
    config = tmp_path / "crabpot.json5"
    config.write_text(f'{{agents: {{defaults: {{workspace: "{tmp_path}/ws", sandbox: {{mode: "off"}}}}}}}}')
    source = os.path.dirname(os.path.dirname(crabpot.__file__))
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": source}
    base = [sys.executable, "-m", "crabpot", "--config", str(config), "--state", str(tmp_path / "state")]
    served = subprocess.Popen([*base, "serve"], env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert "serves on" in served.stdout.readline()
        started = subprocess.run(
            [*base, "call", "exec", "--args", '{"command": "echo $$ > pid; sleep 1000", "background": true}'],
            env=environ,
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert started.returncode == 0, started.stderr
        pid = tmp_path / "ws" / "pid"
        asyncio.run(until(lambda: pid.exists() and pid.read_text()))
        assert os.path.exists(f"/proc/{pid.read_text().strip()}"), "it outlives the client that started it"
        served.terminate()
        _, complaints = served.communicate(timeout=30)
        assert (served.returncode, complaints) == (0, "")
        assert not os.path.exists(f"/proc/{pid.read_text().strip()}")
        assert not (tmp_path / "state" / SOCKET_NAME).exists()
    finally:
        served.kill()
        served.wait()


async def test_from_a_client_that_reads_no_answers_nothing_more_is_taken(bench):
    """Its answers would wait in the gateway's memory, as many as it likes to ask for."""
    async with bench() as made, serving(made) as path:
        raw = Raw(path)
        frame = encode({"id": "x", "inquiry": "huge-ish", "args": {}})
        sent = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(10):
                for number in range(20_000):
                    await raw.send(frame.replace(b'"x"', b'"%d"' % number, 1))
                    sent += 1
        assert sent < 20_000
        raw.sock.close()
        async with client(made) as remote:
            assert (await remote.call(S, "exec", {"command": "echo on"})).stdout == "on\n"


async def test_a_socket_that_somebody_else_made_stays_when_the_door_closes(tmp_path):
    """systemd's: without its file, no call would start the service again."""
    path = tmp_path / SOCKET_NAME
    nobody: Any = None
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.setblocking(False)
        door = Door(nobody, no_inquiries, dict)
        await door.accept_on(listener)
        await door.close()
        assert path.exists()


async def test_a_call_is_its_agents_from_its_first_step_on_and_so_is_what_is_read_after_it(bench, monkeypatch):
    behind = []
    take, call = Connection._take, Connection._answer

    def taken(self, header, payload):
        take(self, header, payload)
        behind.append(("read", PRINCIPAL.get()))

    async def answered(self, given, header):
        behind.append(("call", PRINCIPAL.get()))
        await call(self, given, header)

    monkeypatch.setattr(Connection, "_take", taken)
    monkeypatch.setattr(Connection, "_answer", answered)
    async with bench() as made, serving(made), client(made) as remote:
        await remote.call("agent:ops:main", "exec", {"command": "true"})
        await remote.call("agent:ops:", "exec", {"command": "true"})
        await remote.inquire("hello")
    assert ("call", "agent ops") in behind
    assert ("read", "agent ops") in behind
    # A key that names nobody, and what the gateway's own user asks, are nobody's.
    assert behind[-1] == ("call", None)
