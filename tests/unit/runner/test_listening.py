"""The runner on a socket of its own: its protocol to the letter, its file, and clients that behave badly."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crabpot.runner.core.frames import FrameReader, encode
from tests.unit.runner.driver import ENV, MAIN, PATIENCE_S, PYTHON, eventually, processes_with
from tests.unit.runner.listener import Client, Listener, descriptors


@pytest.fixture(scope="module")
def listener(tmp_path_factory):
    with Listener(tmp_path_factory.mktemp("listener")) as started:
        (started.root / "notes.txt").write_text("hello\n")
        yield started


def refused(answer, *codes):
    assert answer["success"] is False
    assert answer["error"]["code"] in codes, answer
    return answer["error"]["message"]


# --- the protocol ---------------------------------------------------------------------------------------------------


def test_one_line_of_json_is_answered_by_one_line_with_the_documents_fields(listener):
    answer = listener.ask("cat", ["notes.txt"], cwd=str(listener.root))
    wanted = {"id": "uuid", "success": True, "stdout": "hello\n", "stderr": "", "exit_code": 0}
    assert {name: answer[name] for name in wanted} == wanted


def test_a_command_that_fails_has_its_own_exit_code_and_words(listener):
    answer = listener.ask("cat", ["nothing-there"])
    assert (answer["success"], answer["exit_code"]) == (False, 1)
    assert "No such file" in answer["stderr"]
    assert answer["error"] is None


def test_id_cwd_and_args_may_be_left_out(listener):
    with listener.connect() as client:
        first, second, third = map(
            client.ask_as_it_is, (b'{"tool":"ls"}\n', b'{"tool":"ls","args":[]}\n', b'{"tool":"git"}\n')
        )
    assert first["id"] is None
    assert "notes.txt" in [entry["name"] for entry in first["data"]["entries"]]
    assert "notes.txt" in second["stdout"]
    assert "git version" in third["stdout"]


def test_args_as_an_object_are_a_tools(listener):
    answer = listener.ask("read", {"path": "notes.txt"})
    assert answer["data"]["content"] == "hello\n"
    assert (answer["success"], answer["exit_code"]) == (True, 0)
    assert "bytes" not in answer


def test_a_tools_relative_path_is_taken_from_the_requests_folder(listener):
    (listener.root / "deep").mkdir(exist_ok=True)
    assert listener.ask("write", {"path": "x", "content": "y"}, cwd=str(listener.root / "deep"))["success"]
    assert (listener.root / "deep" / "x").read_text() == "y"
    assert refused(listener.ask("write", {"path": "x", "content": "y"}, cwd="/etc"), "outside")


def test_shell_text_runs_as_one_simple_command_without_a_shell(listener):
    assert listener.ask("exec", {"command": "cat 'notes.txt'"})["stdout"] == "hello\n"
    for text in ("cat notes.txt | cat", "cat $HOME", "cat notes.txt; id", "cat *", "cat `id`", "cat <notes.txt"):
        assert "no shell" in refused(listener.ask("exec", {"command": text}), "invalid_arguments")
    assert "not among" in refused(listener.ask("exec", {"command": "id"}), "permission_denied")
    assert listener.ask("exec", {"command": "cat", "stdin": "in"})["stdout"] == "in"


@pytest.mark.parametrize("args", [{"env": {"LD_PRELOAD": "x.so"}}, {"tty": True}, {"argv": ["id"]}])
def test_exec_without_a_shell_takes_nothing_that_would_change_the_command(listener, args):
    assert refused(listener.ask("exec", {"command": "ls", **args}), "invalid_arguments")


def test_no_other_tool_of_the_runner_is_reachable(listener):
    binary = {"path": "/bin/true"}
    assert refused(listener.ask("run", {"argv": ["true"], "binary": binary}), "not_found")
    assert refused(listener.ask("run", {"argv": ["/bin/true"]}), "not_found")


def test_a_command_that_is_not_in_the_list_is_refused_and_the_list_is_told(listener):
    message = refused(listener.ask("python3", ["-c", "1"]), "permission_denied")
    assert "git, cat, ls, mkdir, cp, mv, rm, diff, jq" in message


@pytest.mark.parametrize("args", [[1], [None], [["x"]], [{}]])
def test_args_that_are_not_strings_are_refused(listener, args):
    assert refused(listener.ask("cat", args), "invalid_arguments")


def test_output_that_does_not_fit_into_a_line_is_cut_and_said_to_be(listener):
    (listener.root / "large").write_bytes(b"\x01" * (2 << 20))
    answer = listener.ask("cat", ["large"])
    assert answer["truncated"] is True
    assert len(answer["stdout"]) > 1000
    assert answer["exit_code"] == 0


def test_many_requests_on_one_connection_are_each_answered(listener):
    with listener.connect() as client:
        for number in range(200):
            client.begin("cat", ["notes.txt"], id=f"r{number}")
        ids = {client.line()["id"] for _ in range(200)}
    assert ids == {f"r{number}" for number in range(200)}


def test_a_client_that_ends_its_line_with_the_stream_is_answered(listener):
    with listener.connect() as client:
        client.send(b'{"id":"1","tool":"cat","args":["notes.txt"]}')
        client.socket.shutdown(socket.SHUT_WR)
        assert [line["stdout"] for line in client.until_cut_off()] == ["hello\n"]


@pytest.mark.parametrize(
    "sent",
    [
        b'{\n  "id": "1",\n  "tool": "ls"\n}\n',
        b"not json\n",
        b"[]\n",
        b"\n",
        b'{"op":"cancel","id":"1"}\n',
        b'{"id":"1","tool":"ls","bytes":-1}\n',
        b"\xff\xfe\n",
    ],
)
def test_what_is_no_request_is_answered_with_what_a_request_is_and_hung_up_on(listener, sent):
    with listener.connect() as client:
        client.send(sent)
        (answer,) = client.until_cut_off()
    assert answer["success"] is False
    assert answer["stderr"]


def test_pretty_printed_json_is_told_apart_clearly(listener):
    with listener.connect() as client:
        client.send(b'{\n "id": "1"}\n')
        assert "one line of JSON" in client.line()["stderr"]


def test_a_gateway_says_hello_and_has_the_whole_wire(listener):
    with listener.connect() as client:
        limits = {"output": 1 << 20}
        hello = {"op": "hello", "workspace": "/", "roots": ["/"], "shell": ["/bin/sh"], "env": ENV, "limits": limits}
        client.send(encode({**hello, "contained": True}))
        ready = client.line()
        assert (ready["op"], ready["roots"][0]) == ("ready", str(listener.root))
        # What hello says of the workspace and the roots changes nothing.
        client.send(encode({"id": "1", "tool": "exec", "args": {"command": "cat notes.txt"}, "stream": True}))
        frames = read_frames(client, 2)
        assert frames[0] == ({"op": "output", "id": "1", "stream": "stdout", "bytes": 6}, b"hello\n")
        client.send(encode({"id": "2", "tool": "read", "args": {"path": "/etc/passwd"}}))
        assert read_frames(client, 1)[0][0]["error"]["code"] == "outside"


def read_frames(client: Client, count: int):
    reader = FrameReader()
    frames: list[Any] = []
    while len(frames) < count:
        data = client.socket.recv(1 << 16)
        assert data
        frames += reader.feed(data)
    return frames


# --- its file -------------------------------------------------------------------------------------------------------


def test_the_socket_is_the_owners_and_the_groups_from_its_first_moment(listener):
    found = os.stat(listener.path)
    assert stat.S_ISSOCK(found.st_mode)
    assert stat.S_IMODE(found.st_mode) == 0o660


@pytest.mark.parametrize("options", [(), ("--without-landlock",)])
def test_the_file_of_a_dead_runner_is_replaced_and_goes_with_a_live_one(tmp_path, options):
    first = Listener(tmp_path, *options)
    with first:
        first.process.kill()
        first.process.wait()
        with Listener(tmp_path, *options) as second:
            assert second.ask("ls", [])["success"]
            assert os.path.exists(first.path)
    assert not os.path.exists(first.path)


def test_the_file_of_a_killed_runner_goes_too(tmp_path):
    with Listener(tmp_path) as listener:
        listener.process.kill()
        listener.process.wait()
        eventually(lambda: not os.path.exists(listener.path), "it stayed")


# --- the second wall ------------------------------------------------------------------------------------------------

TRIES = """
echo stolen > {out}/precious; echo x > {out}/new; cat {out}/secret; ls {out}; mkdir {out}/folder; rm {out}/precious;
ln {out}/secret hard; mv {out}/secret here; echo x > /tmp/crabpot-outside-{name}; touch {socket}.x; rm {socket}
echo x > file; cat file; mkdir folder; mv file folder; ls folder; cat /etc/passwd > /dev/null && echo works
"""


@pytest.mark.parametrize("wall", ["landlock", "none"])
def test_no_command_reaches_beyond_the_roots_even_if_it_runs_anything(tmp_path, wall):
    out = tmp_path / "out"
    out.mkdir()
    (out / "precious").write_text("mine")
    (out / "secret").write_text("s3cret")
    options = ["--allow", "sh"] + (["--without-landlock"] if wall == "none" else [])
    with Listener(tmp_path, *options) as listener:
        text = TRIES.format(out=out, socket=listener.path, name=os.getpid())
        said = listener.ask("exec", {"command": text})
        assert said["stdout"].endswith("x\nfile\nworks\n"), said
        beyond = f"/tmp/crabpot-outside-{os.getpid()}"
        if wall == "none":
            assert "s3cret" in said["stdout"]
            assert not (out / "precious").exists()
            os.unlink(beyond)
            return
        assert "s3cret" not in said["stdout"]
        assert (out / "precious").read_text() == "mine"
        assert sorted(os.listdir(out)) == ["precious", "secret"]
        assert not os.path.exists(beyond)
        assert listener.ask("exec", {"command": "echo again"})["stdout"] == "again\n"


def test_what_lies_in_the_roots_is_not_run_unless_a_shell_is_listed(tmp_path):
    program = "#!/bin/sh\necho ran\n"
    for names, ran in ((("git",), False), (("git", "sh"), True)):
        with Listener(tmp_path, "--allow", *names) as listener:
            (listener.root / "program").write_text(program)
            (listener.root / "program").chmod(0o755)
            with open(f"/proc/{listener.process.pid}/status", encoding="ascii") as status:
                assert "NoNewPrivs:\t1" in status.read()
            tried = listener.ask("exec", {"command": "./program"}) if ran else _run_by_git(listener)
            assert ("ran" in tried["stdout"]) is ran, tried


def _run_by_git(listener):
    """Have git itself run a program of the repository: every override of its configuration is beside the point."""
    listener.git("init", "-q")
    listener.git("config", "sequence.editor", str(listener.root / "program"))
    listener.git("config", "core.editor", str(listener.root / "program"))
    return listener.git("commit", "--allow-empty", "-q", "-m", "x")


def test_temporary_files_have_a_folder_of_their_own(tmp_path):
    with Listener(tmp_path, "--allow", "sh", "env", "mktemp") as listener:
        answer = listener.ask("exec", {"command": "t=$(mktemp) && echo x > $t && cat $t && ls -ld $TMPDIR"})
        assert answer["stdout"].startswith("x\ndrwx------"), answer
        folder = answer["stdout"].split()[-1]
        assert os.path.isdir(folder)
    eventually(lambda: not os.path.exists(folder), "it stayed")


def test_without_landlock_it_starts_only_where_that_is_said(tmp_path):
    """A filter that answers as a kernel without it does, around the real program."""
    (tmp_path / "r").mkdir()
    words = ["--socket", str(tmp_path / "s"), "--root", str(tmp_path / "r")]
    text = NO_LANDLOCK.format(argv=[PYTHON, "-I", "-S", MAIN, *words])
    ended = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1, ended.stderr
    assert "--without-landlock" in ended.stderr
    assert not (tmp_path / "s").exists()


NO_LANDLOCK = """
import ctypes, os, struct
libc = ctypes.CDLL(None, use_errno=True)
nr = 444
code = [(0x20, 0, 0, 0), (0x15, 0, 1, nr), (0x06, 0, 0, 0x00050026), (0x06, 0, 0, 0x7FFF0000)]
text = b"".join(struct.pack("HBBI", *one) for one in code)
held = ctypes.create_string_buffer(text)
program = struct.pack("HxxxxxxQ", len(code), ctypes.addressof(held))
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, program) == 0
argv = {argv!r}
os.execv(argv[0], argv)
"""


def run_to_the_end(*argv: str) -> tuple[int, str]:
    ended = subprocess.run(
        [PYTHON, "-I", "-S", MAIN, *argv], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert "Traceback" not in ended.stderr
    return ended.returncode, ended.stderr


def test_a_live_runner_is_never_replaced(listener):
    code, told = run_to_the_end("--socket", listener.path, "--root", str(listener.root))
    assert code == 1
    assert "listens there already" in told
    assert listener.ask("ls", [])["success"]


def test_a_link_at_the_sockets_place_is_neither_followed_nor_removed(tmp_path):
    (tmp_path / "root").mkdir()
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "s").symlink_to(tmp_path / "precious")
    (tmp_path / "dangling").symlink_to(tmp_path / "made-by-attack")
    for name in ("s", "dangling", "precious"):
        code, told = run_to_the_end("--socket", str(tmp_path / name), "--root", str(tmp_path / "root"))
        assert code == 1
        assert "left alone" in told
    assert (tmp_path / "precious").read_text() == "mine"
    assert not (tmp_path / "made-by-attack").exists()


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (("--root", "{tmp}"), "--socket"),
        (("--socket", "{tmp}/s"), "--root"),
        (("--socket", "{tmp}/s", "--root", "{tmp}/missing"), "mkdir -p"),
        (("--socket", "{tmp}/s", "--root", "/"), "whole machine"),
        (("--socket", "{tmp}/s", "--root", "/proc/self"), "kernel's"),
        (("--socket", "{tmp}/s", "--root", "{tmp}"), "lies in a root"),
        (("--socket", "{tmp}/r/s", "--root", "{tmp}/r", "--allow", "docker"), "lies in a root"),
        (("--socket", "{tmp}/s", "--root", "{tmp}/r", "--allow", "docker"), "never run"),
        (("--socket", "{tmp}/s", "--root", "{tmp}/r", "--allow", "sudo"), "never run"),
        (("--socket", "{tmp}/s", "--root", "{tmp}/r", "--allow", "../sh"), "plain name"),
        (("--socket", "{tmp}/s", "--root", "{tmp}/r", "--allow", ","), "no command"),
        (("--socket", "{tmp}/missing/s", "--root", "{tmp}/r"), "mkdir -p"),
        (("--socket", "{tmp}/" + "x" * 120, "--root", "{tmp}/r"), "longer"),
        (("--socket", "{tmp}/s", "--root", "{tmp}/r", "--patience", "nan"), "patience"),
        (("--fd", "x"), "usage"),
    ],
)
def test_a_command_line_that_cannot_be_is_refused_in_a_sentence(tmp_path, argv, told):
    (tmp_path / "r").mkdir()
    code, said = run_to_the_end(*(word.replace("{tmp}", str(tmp_path)) for word in argv))
    assert code in (1, 2)
    assert told in said


# --- clients that behave badly --------------------------------------------------------------------------------------


def test_a_silent_client_and_one_that_stops_in_the_middle_are_cut_off_and_others_are_served(tmp_path):
    with Listener(tmp_path, "--patience", "0.4") as listener:
        with listener.connect() as silent, listener.connect() as slow, listener.connect() as lazy:
            slow.send(b'{"id":"1","tool":')
            lazy.begin("ls", [])
            assert lazy.line()["success"]
            assert listener.ask("ls", [])["success"]
            assert "no request came" in silent.until_cut_off()[0]["stderr"]
            assert "not complete" in slow.until_cut_off()[0]["stderr"]
            # One that asked once and is quiet has longer, not for ever.
            assert lazy.until_cut_off() == []
        assert listener.ask("ls", [])["success"]


def test_an_oversized_request_is_refused_before_it_is_all_there(listener):
    with listener.connect() as client:
        try:
            for _ in range(64):
                client.send(b"x" * (64 << 10))
        except (BrokenPipeError, ConnectionResetError):
            pass
        lines = client.until_cut_off()
    assert [line["success"] for line in lines] == [False]
    assert "more than" in lines[0]["stderr"]
    assert listener.ask("ls", [])["success"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root sees the descriptors of a shielded process")
def test_a_client_that_does_not_read_is_cut_off_and_holds_nobody_up(tmp_path):
    with Listener(tmp_path, "--patience", "1") as listener:
        (listener.root / "large").write_bytes(b"x" * (300 << 10))
        alone = descriptors(listener.process.pid)
        with listener.connect() as deaf:
            for number in range(40):
                deaf.begin("cat", ["large"], id=str(number))
            assert listener.ask("ls", [])["success"]
            assert descriptors(listener.process.pid) > alone
            eventually(lambda: descriptors(listener.process.pid) == alone, "the deaf client was not cut off")
            assert listener.ask("ls", [])["success"]


def test_calls_end_with_the_client_that_asked(tmp_path):
    with Listener(tmp_path, "--allow", "sleep,ls") as listener:
        with listener.connect() as client:
            client.begin("sleep", ["977.31"])
            eventually(lambda: processes_with("977.31", program="/"), "it never started")
        eventually(lambda: not processes_with("977.31", program="/"), "it outlived its client")
        assert listener.ask("ls", [])["success"]


def test_one_client_with_endless_calls_does_not_keep_another_from_its_answer(tmp_path):
    with Listener(tmp_path, "--allow", "sleep", "cat") as listener:
        (listener.root / "a").write_text("a")
        with listener.connect() as greedy:
            # In one piece: what is not read waits in the client's buffer, which may hold fewer of many small ones.
            greedy.send(b'{"id":"uuid","tool":"sleep","args":["977.32"]}\n' * 100)
            eventually(lambda: len(processes_with("977.32", program="/")) == 8, "not as many as one client may have")
            assert listener.ask("cat", ["a"])["stdout"] == "a"
            assert len(processes_with("977.32", program="/")) == 8
        eventually(lambda: not processes_with("977.32", program="/"), "they outlived their client")


def test_one_client_cannot_keep_others_out_by_holding_every_connection(tmp_path):
    with Listener(tmp_path) as listener:
        other = subprocess.Popen(
            [sys.executable, "-c", OTHER_CLIENT, listener.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        held = []
        try:
            assert other.stdout.readline() == "connected\n"
            held += [listener.connect() for _ in range(200)]
            assert listener.ask("ls", [])["success"]
            # The other's only connection was not the one to go.
            other.stdin.write("ask\n")
            other.stdin.flush()
            assert json.loads(other.stdout.readline())["success"]
        finally:
            for client in held:
                client.socket.close()
            other.stdin.close()
            other.stdout.close()
            other.wait(PATIENCE_S)


OTHER_CLIENT = """
import socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect(sys.argv[1])
stream = connection.makefile("rwb")
def ask():
    stream.write(b'{"id":"1","tool":"ls","args":[]}\\n')
    stream.flush()
    return stream.readline().decode()
ask()
print("connected", flush=True)
for line in sys.stdin:
    print(ask(), end="", flush=True)
"""


def test_a_time_limit_is_kept_and_capped(tmp_path):
    with Listener(tmp_path, "--allow", "sleep") as listener:
        answer = listener.ask("sleep", ["977"], timeout=0.2)
        assert (answer["error"]["code"], answer["exit_code"]) == ("timeout", 124)


def test_it_leaves_nothing_behind_when_it_is_told_to_end(tmp_path):
    with Listener(tmp_path, "--allow", "sleep") as listener:
        client = listener.connect()
        client.begin("sleep", ["977.33"])
        eventually(lambda: processes_with("977.33", program="/"), "it never started")
        assert listener.end() == 0
        client.socket.close()
        assert not processes_with("977.33", program="/")
        assert not os.path.exists(listener.path)
        listener.__enter__()


def test_with_sh_in_the_list_shell_text_is_run_by_a_shell_and_a_warning_says_what_that_means(tmp_path):
    with Listener(tmp_path, "--allow", "sh") as listener:
        assert "can run anything" in listener.told
        assert listener.ask("exec", {"command": "echo a | tr a b; exit 3"})["stdout"] == "b\n"


@pytest.mark.parametrize(
    "args",
    [
        ["-" + "a/" * 60] * 2000,
        ["a/" * 100_000],
        ["log", *["a/" * 100] * 4000],
        ["commit", "-" + "q" * 400],
    ],
    ids=["clusters", "deep", "many", "long"],
)
def test_a_request_that_would_take_long_to_check_is_refused_at_once(listener, args):
    answer = listener.ask("git", args)
    assert answer["error"]["code"] in ("invalid_arguments", "permission_denied")


@pytest.mark.slow
def test_a_folder_with_very_many_files_is_listed_beside_other_requests(listener):
    crowd = listener.root / "crowd"
    crowd.mkdir()
    for number in range(20_000):
        (crowd / str(number)).touch()
    with listener.connect() as slow:
        for _ in range(8):
            slow.begin("ls", {"path": "crowd"})
        assert listener.ask("cat", ["notes.txt"])["stdout"] == "hello\n"
        assert all(slow.line()["success"] for _ in range(8))


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.binary(max_size=200), max_size=8), st.booleans())
def test_no_bytes_end_the_runner(listener, pieces, begins_well):
    with listener.connect() as client:
        if begins_well:
            client.send(b'{"id":"1","tool":"ls","args":')
        for piece in pieces:
            try:
                client.send(piece)
            except (BrokenPipeError, ConnectionResetError):
                break
    assert listener.ask("cat", ["notes.txt"])["success"]
    assert listener.process.poll() is None


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    request_=st.dictionaries(
        st.sampled_from(["id", "tool", "args", "cwd", "timeout", "op", "bytes", "stream", "input", "up", "n"]),
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers(-5, 1 << 40)
            | st.floats(allow_nan=False, allow_infinity=False)
            | st.text(max_size=5)
            | st.sampled_from(["ls", "read", "exec", "process", "write", "hello", "git", "cancel", "ack", "input"]),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
            max_leaves=6,
        ),
    )
)
def test_no_request_ends_the_runner(listener, request_):
    with listener.connect() as client:
        client.send(json.dumps(request_).encode() + b"\n")
        client.socket.shutdown(socket.SHUT_WR)
        client.until_cut_off()
    assert listener.process.poll() is None
