"""What a newcomer meets in the first hour: what is said before it surprises anybody, and hints that can be pasted."""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.request
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.ordinary_user import UID, interpreter, readable_source
from tests.support.program import PATIENCE_S, REPOSITORY, Program
from tests.support.terminal import Terminal
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NON_MAIN = "{agents: {defaults: {sandbox: {mode: 'non-main'}}}}"
SESSION = "agent:main:main"
ABOUT = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
PUSHES = "{tools: {elevated: {enabled: true, patterns: ['git push *', 'brew *']}}}"


# --- where it runs ----------------------------------------------------------------------------------------------------


def test_a_session_on_the_host_is_told_on_stderr_and_by_check(crabpot: Program) -> None:
    crabpot.configure(NON_MAIN)
    crabpot.workspace.mkdir()
    ended = crabpot("exec", "--", "echo ran")
    assert (ended.code, ended.out) == (0, "ran\n")
    assert "note: this runs on the HOST: main session exempted (agents.defaults.sandbox.mode)" in ended.err
    assert "main sessions run on the host" in crabpot("check").out
    called = crabpot("call", "exec", "--args", '{"command": "true"}')
    assert "this runs on the HOST" in called.err


def test_a_session_inside_is_told_nothing_of_the_host(crabpot: Program) -> None:
    crabpot.configure(NON_MAIN)
    assert "HOST" not in crabpot("exec", "--session", "agent:main:chat", "--", "true").err


def test_a_serving_gateway_tells_it_too(crabpot: Program) -> None:
    crabpot.configure(NON_MAIN)
    crabpot.workspace.mkdir()
    with crabpot.serving():
        assert "this runs on the HOST" in crabpot("exec", "--", "true").err


def test_with_mode_off_a_pipe_has_nothing_but_the_commands_own_errors(placed: Program) -> None:
    ended = placed("exec", "--", "echo own >&2")
    assert ended.err == "own\n"


def test_a_shell_on_the_host_says_so_once(placed: Program) -> None:
    terminal = Terminal(placed, "shell")
    try:
        terminal.wait_for("this runs on the HOST", within_s=PATIENCE_S)
        terminal.type("exit\n")
        terminal.end()
    finally:
        terminal.close()
    assert terminal.seen.count("on the HOST") == 1


# --- typos in sessions ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("agnet:main:main", 'did you mean "agent:main:main"?'),
        ("agent:mian:main", 'no agent "mian" is configured, so it has the defaults; did you mean "main"?'),
        ("agent:osp:main", 'did you mean "ops"?'),
        ("agent:zz9:main", 'no agent "zz9" is configured'),
    ],
)
def test_a_mistyped_session_is_told(key: str, told: str, crabpot: Program) -> None:
    crabpot.configure("{agents: {defaults: {sandbox: {mode: 'off'}}, entries: {ops: {}}}}")
    crabpot.workspace.mkdir()
    assert told in crabpot("exec", "--session", key, "--", "true").err


@pytest.mark.parametrize("key", ["agent:main:telegram:42", "agent:ops:main", "telegram:42", "main"])
def test_a_session_that_is_meant_is_told_nothing_of_its_key(key: str, crabpot: Program) -> None:
    crabpot.configure("{agents: {defaults: {sandbox: {mode: 'off'}}, entries: {ops: {}}}}")
    crabpot.workspace.mkdir()
    ended = crabpot("exec", "--session", key, "--", "true")
    assert ended.err == ""


def test_explain_live_opens_no_sandbox_for_keys_that_were_used_once(placed: Program) -> None:
    for name in ("one", "two"):
        placed("exec", "--session", f"agent:main:{name}", "--", "true")
    assert len(placed("explain", "--json").json) == 3
    assert placed("explain", "--live", "--json").json["session"] == "agent:main:main"


# --- what may leave ---------------------------------------------------------------------------------------------------


def test_an_agent_is_told_how_a_command_that_stayed_in_could_have_left(crabpot: Program) -> None:
    crabpot.configure(PUSHES)
    ended = crabpot("exec", "--", "true && git push origin main")
    assert "`git push origin main` stayed in the sandbox" in ended.err
    assert "only as a single command" in ended.err
    said = crabpot("call", "exec", "--args", json.dumps({"command": ["git", "push"]})).json
    assert "`git push` stayed in the sandbox" in said["stderr"]
    assert "single command" not in crabpot("exec", "--", "echo 'a; git push b'").err


def test_the_descriptions_of_tools_name_what_may_leave_through_every_door_that_has_some(crabpot: Program) -> None:
    crabpot.configure(PUSHES)
    messages = (
        {"method": "initialize", "id": 1, "params": ABOUT},
        {"method": "notifications/initialized"},
        {"method": "tools/list", "id": 2},
    )
    with crabpot.listening() as (_, port):
        token = (crabpot.state / "http.token").read_text().strip()
        asked = urllib.request.Request(
            f"http://127.0.0.1:{port}/v1/sessions/{SESSION}/tools", headers={"Authorization": f"Bearer {token}"}
        )
        with urllib.request.urlopen(asked, timeout=PATIENCE_S) as answer:
            over_http = json.load(answer)["tools"]
        client = crabpot.start("mcp", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            assert client.stdin is not None
            assert client.stdout is not None
            for message in messages:
                client.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            client.stdin.flush()
            client.stdout.readline()
            over_mcp = json.loads(client.stdout.readline())["result"]["tools"]
            client.stdin.close()
            client.wait(timeout=PATIENCE_S)
        finally:
            client.kill()
            client.wait()
            client.stdout.close()
    for tools in (over_http, over_mcp):
        (described,) = [one["description"] for one in tools if one["name"] == "exec"]
        assert "runs on the host once a person agrees" in described
        assert "git push *, brew *" in described


# --- limits that are not kept -------------------------------------------------------------------------------------------


@contextmanager
def as_somebody() -> Iterator[Any]:
    """Run the program as an ordinary user where the tests run as root, else as whoever runs them."""
    with readable_source() as (environ, home):
        who: dict[str, Any] = {"user": UID, "group": UID, "extra_groups": []} if os.geteuid() == 0 else {}

        def call(*words: str) -> subprocess.CompletedProcess[str]:
            command = [interpreter(), "-m", "crabpot", *words]
            options: dict[str, Any] = {"env": environ, "cwd": home, "capture_output": True, "text": True, **who}
            return subprocess.run(command, check=False, timeout=PATIENCE_S, start_new_session=True, **options)

        yield call


def test_limits_that_this_machine_does_not_keep_are_told_once_and_by_check() -> None:
    with as_somebody() as call:
        clauses = json.loads(call("explain", "--json").stdout)["sandbox"]["clauses"]
        states = {clause["name"]: clause["state"] for clause in clauses}
        short = "degraded" in (states["limits.memory"], states["limits.cpus"])
        sentence = "this machine does not keep every limit in full: limits.memory"
        first, second = call("exec", "--", "true"), call("exec", "--", "true")
        assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
        assert (sentence in first.stderr) is short
        assert sentence not in second.stderr
        assert (sentence in call("check").stdout) is short


# --- hints that can be pasted -----------------------------------------------------------------------------------------


def test_a_hint_names_the_program_as_it_was_called(crabpot: Program) -> None:
    checkout = Program(home=crabpot.home, more={"CRABPOT_CALLED": "./crabpot"})
    assert "see: ./crabpot approvals list" in checkout("approvals", "allow", "feedbeef").err
    assert "see: crabpot approvals list" in crabpot("approvals", "allow", "feedbeef").err
    assert 'CRABPOT_CALLED=$0 exec "$root/.venv/bin/python"' in (REPOSITORY / "crabpot").read_text()


@pytest.mark.parametrize("elsewhere", [False, True])
def test_the_notice_of_a_request_names_the_state_folder_only_where_it_must(elsewhere: bool, crabpot: Program) -> None:  # noqa: FBT001
    crabpot.configure("{tools: {elevated: {enabled: true, patterns: ['touch *'], approvalTimeout: 0.2}}}")
    options = ("--state", str(crabpot.home / "my state")) if elsewhere else ()
    ended = crabpot(*options, "exec", "--", "touch", "x")
    expected = (
        f"crabpot --state '{crabpot.home}/my state' approvals allow" if elsewhere else ": crabpot approvals allow"
    )
    assert expected in ended.err


def test_serve_says_where_the_dashboard_and_its_token_are(crabpot: Program) -> None:
    with crabpot.listening() as (served, port):
        assert served.stdout is not None
        told = served.stdout.readline().decode()
    assert told == f"dashboard: http://127.0.0.1:{port}/ (its token is in {crabpot.state}/http.token)\n"


# --- smaller ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("served", [False, True])
def test_a_pipe_is_not_cut(served: bool, placed: Program) -> None:  # noqa: FBT001
    def long() -> int:
        return len(placed("exec", "--", "head -c 3000000 /dev/zero").out)

    if not served:
        assert long() == 3_000_000
        return
    with placed.serving():
        assert long() == 3_000_000


def test_explain_refuses_what_the_gateway_would_refuse_of_localhost(crabpot: Program) -> None:
    crabpot.configure("{agents: {defaults: {sandbox: {network: {allow: ['localhost:8099']}}}}}")
    said = crabpot("explain", "--json", "--connect", "localhost:8099").json["connect"]
    assert (said["answer"], "loopback" in said["because"]) == ("refused", True)


def test_a_name_that_leads_nowhere_is_told(crabpot: Program) -> None:
    crabpot.configure("{agents: {defaults: {sandbox: {network: {allow: ['nowhere.invalid:443']}}}}}")
    ended = crabpot("exec", "--", "curl -sS https://nowhere.invalid/")
    assert "nowhere.invalid:443 is allowed, but its name leads nowhere" in ended.err


@pytest.mark.skipif(os.geteuid() != 0, reason="only root owns what root owns")
def test_check_names_a_workspace_that_belongs_to_root(crabpot: Program) -> None:
    crabpot.configure("{agents: {defaults: {sandbox: {workspace: 'rw', backend: 'bubblewrap'}}}}")
    crabpot.workspace.mkdir()
    said = crabpot("check").out
    assert "belongs to root, and no sandbox runs as root" in said
    assert "fix: chown -R" in said


def test_a_live_sandbox_says_when_it_was_used(crabpot: Program) -> None:
    with crabpot.serving():
        crabpot("exec", "--", "true")
        (row,) = crabpot("sandboxes", "list", "--json").json
        assert row["state"] == "live"
        before = row["used"]
        crabpot("exec", "--", "true")
        (row,) = crabpot("sandboxes", "list", "--json").json
        assert row["used"] > before
        assert "used just now" in crabpot("sandboxes", "list").out


def test_an_installation_without_the_packages_of_the_doors_runs_commands_and_names_what_a_door_needs(
    crabpot: Program, tmp_path: Path
) -> None:
    for name in ("uvicorn", "fastapi", "mcp", "prometheus_client", "cryptography"):
        (tmp_path / f"{name}.py").write_text(f"raise ModuleNotFoundError('No module', name={name!r})\n")
    bare = replace(crabpot, more={"PYTHONPATH": f"{tmp_path}:{REPOSITORY / 'src'}"})
    assert bare("exec", "--", "echo inside").out == "inside\n"
    assert bare("explain").code == 0
    ended = bare("serve")
    assert (ended.code, "needs the Python package uvicorn" in ended.said()) == (1, True)


def records(program: Program) -> list[dict[str, Any]]:
    return [json.loads(line) for line in program("audit", "export").out.splitlines()]


# --- a configuration that changes ---------------------------------------------------------------------------------------


def test_a_serving_gateway_takes_a_changed_configuration_and_keeps_its_sandboxes(crabpot: Program) -> None:
    crabpot.configure("{tools: {}}")
    with crabpot.serving():
        crabpot("call", "exec", "--args", '{"command": "echo kept > /tmp/note; sleep 1000", "background": true}')
        assert crabpot("config", "set", "tools.deny[+]", '"ls"').code == 0
        denied = crabpot("call", "ls")
        assert (denied.code, denied.err) == (126, "")
        assert crabpot("serve", "reload").out == "nothing had changed\n"
        assert crabpot("exec", "--", "cat /tmp/note").out == "kept\n"
        (record,) = [one for one in records(crabpot) if one["kind"] == "reload"]
        assert record["adopted"] is True
        assert "adopted" in crabpot("audit", "tail").out


def test_a_client_that_is_connected_stays_so(crabpot: Program) -> None:
    crabpot.configure("{tools: {}}")
    with crabpot.serving():
        client = crabpot.start("mcp", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            assert client.stdin is not None
            assert client.stdout is not None

            def ask(number: int, method: str, **params: Any) -> Any:
                assert client.stdin is not None
                assert client.stdout is not None
                message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
                client.stdin.write(json.dumps(message).encode() + b"\n")
                client.stdin.flush()
                return json.loads(client.stdout.readline())["result"]

            about = {"name": "test", "version": "1"}
            ask(1, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=about)
            client.stdin.write(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
            assert "ls" in [tool["name"] for tool in ask(2, "tools/list")["tools"]]
            crabpot("config", "set", "tools.deny[+]", '"ls"')
            assert crabpot("call", "ls").code == 126
            assert "ls" not in [tool["name"] for tool in ask(3, "tools/list")["tools"]]
            client.stdin.close()
            assert client.wait(timeout=PATIENCE_S) == 0
        finally:
            client.kill()
            client.wait()
            client.stdout.close()


def test_a_serving_gateway_goes_on_with_a_configuration_that_no_longer_loads(crabpot: Program) -> None:
    crabpot.configure("{tools: {deny: ['ls']}}")
    served = crabpot.start("serve", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert served.stdout is not None
        assert served.stderr is not None
        assert b"serves on" in served.stdout.readline()
        crabpot.configure("{tools: {deni: []}}")
        # It noticed by itself.
        assert b"changed and was NOT reloaded" in served.stderr.readline()
        refused = crabpot("serve", "reload")
        assert (refused.code, 'did you mean "deny"' in refused.err) == (1, True)
        ended = crabpot("exec", "--", "true")
        assert (ended.code, 'did you mean "deny"' in ended.err) == (125, True)
        crabpot.configure("{tools: {deny: ['ls', 'grep']}}")
        assert crabpot("call", "grep").code == 126
        served.terminate()
        assert served.wait(timeout=PATIENCE_S) == 0
    finally:
        served.kill()
        served.communicate()


def test_a_live_sandbox_whose_settings_changed_is_replaced_at_its_next_call(crabpot: Program) -> None:
    crabpot.configure("{agents: {defaults: {sandbox: {env: {WHICH: 'old'}}}}}")
    with crabpot.serving():
        assert crabpot("exec", "--", "echo $WHICH").out == "old\n"
        crabpot.configure("{agents: {defaults: {sandbox: {env: {WHICH: 'new'}}}}}")
        assert crabpot("serve", "reload").code == 0
        assert crabpot("exec", "--", "echo $WHICH").out == "new\n"


def test_a_place_that_is_listed_or_no_longer_so_is_that_for_live_sandboxes_too(crabpot: Program) -> None:
    def listed(*places: str) -> None:
        allow = json.dumps(places)
        crabpot.configure(f"{{agents: {{defaults: {{sandbox: {{network: {{allow: {allow}}}}}}}}}}}")
        assert crabpot("serve", "reload").code == 0

    def refused() -> bool:
        return "b.invalid:443 was refused" in crabpot("exec", "--", "curl -sS https://b.invalid/").err

    crabpot.configure("{agents: {defaults: {sandbox: {network: {allow: ['a.invalid:443']}}}}}")
    with crabpot.serving():
        crabpot("exec", "--", "echo kept > /tmp/note")
        assert refused()
        listed("a.invalid:443", "b.invalid:443")
        assert not refused()
        listed("a.invalid:443")
        assert refused()
        assert crabpot("exec", "--", "cat /tmp/note").out == "kept\n"


def test_a_lingering_gateway_is_not_changed_but_makes_room(crabpot: Program) -> None:
    lingering = replace(crabpot, more={"CRABPOT_LINGER": "10m"})
    lingering.configure("{agents: {defaults: {sandbox: {mode: 'off'}}}}")
    lingering.workspace.mkdir()
    lingering("exec", "--", "true")
    try:
        assert lingering("serve", "reload").out == "nothing had changed\n"
        lingering.configure("{agents: {defaults: {sandbox: {mode: 'off'}}}, tools: {deny: ['ls']}}")
        assert "the next one starts another" in lingering("serve", "reload").out
        assert lingering("call", "ls").code == 126
    finally:
        lingering("serve", "stop")


def test_a_first_configuration_is_taken_too(crabpot: Program) -> None:
    with crabpot.serving():
        assert crabpot("call", "ls").code == 0
        crabpot.configure("{tools: {deny: ['ls']}}")
        denied = crabpot("call", "ls")
        assert (denied.code, denied.err) == (126, "")


def test_without_a_gateway_there_is_nothing_to_reload(crabpot: Program) -> None:
    assert "no gateway serves" in crabpot("serve", "reload").said()


# --- questions and the calls that wait for them -------------------------------------------------------------------------


def asking(*, ceiling: int = 100, patience: int = 300) -> str:
    limits = f"limits: {{timeLimit: 2, timeCeiling: {ceiling}}}"
    network = "network: {allow: ['a.invalid:443'], ask: true}"
    sandbox = f"sandbox: {{{limits}, {network}, hostCommands: ['id']}}"
    return f"{{agents: {{defaults: {{{sandbox}}}}}, tools: {{elevated: {{approvalTimeout: {patience}}}}}}}"


def pending(program: Program) -> list[dict[str, Any]]:
    waiting: list[dict[str, Any]] = program("approvals", "list", "--json").json
    return waiting


CURL = "curl -sS https://b.invalid/"


def test_a_question_ends_with_its_call(crabpot: Program) -> None:
    crabpot.configure(asking())
    with crabpot.serving():
        started = crabpot.start("exec", "--", CURL, stderr=subprocess.PIPE)
        try:
            (asked,) = wait_until(lambda: pending(crabpot))
            started.terminate()
            started.communicate(timeout=PATIENCE_S)
            wait_until(lambda: pending(crabpot) == [])
            late = crabpot("approvals", "allow", asked["id"])
            assert (late.code, "no longer pending" in late.err) == (1, True)
        finally:
            started.kill()
            started.communicate()


def test_a_question_ends_with_the_program_that_asked_while_its_call_goes_on(crabpot: Program) -> None:
    crabpot.configure(asking())
    with crabpot.serving():
        command = f"{CURL} & sleep 0.1; read -r _; kill $!; cat"
        started = crabpot.start(
            "exec", "--", command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        try:
            assert started.stdin is not None
            wait_until(lambda: pending(crabpot))
            started.stdin.write(b"go\n")
            started.stdin.flush()
            wait_until(lambda: pending(crabpot) == [])
            out, err = started.communicate(b"still here\n", timeout=PATIENCE_S)
            assert (started.returncode, out) == (0, b"still here\n")
            assert b"whoever asked has gone" in err
        finally:
            started.kill()
            started.wait()


@pytest.mark.parametrize(("command", "told"), [(CURL, "its name leads nowhere"), ("id -u >&2; exit 3", "")])
def test_waiting_for_a_person_takes_nothing_of_the_calls_time(command: str, told: str, crabpot: Program) -> None:
    crabpot.configure(asking())
    with crabpot.serving():
        started = crabpot.start("exec", "--", command, stderr=subprocess.PIPE)
        try:
            (asked,) = wait_until(lambda: pending(crabpot))
            # Longer than the whole time limit, which has begun.
            wait_until(lambda: time.time() > asked["asked_at"] + 4)
            assert pending(crabpot) == [asked]
            assert crabpot("approvals", "allow", asked["id"]).code == 0
            _, err = started.communicate(timeout=PATIENCE_S)
            assert started.returncode not in (0, 124)
            assert told in err.decode()
        finally:
            started.kill()
            started.communicate()


def test_the_clock_goes_on_once_a_person_has_answered(crabpot: Program) -> None:
    crabpot.configure(asking())
    with crabpot.serving():
        started = crabpot.start("exec", "--", f"{CURL}; sleep 1000", stderr=subprocess.PIPE)
        try:
            (asked,) = wait_until(lambda: pending(crabpot))
            assert crabpot("approvals", "deny", asked["id"]).code == 0
            started.communicate(timeout=PATIENCE_S)
            assert started.returncode == 124
        finally:
            started.kill()
            started.communicate()


def test_no_question_holds_a_call_beyond_its_ceiling_and_the_deadline_shown_says_so(crabpot: Program) -> None:
    crabpot.configure(asking(ceiling=5))
    with crabpot.serving():
        started = crabpot.start("exec", "--", CURL, stderr=subprocess.PIPE)
        try:
            (asked,) = wait_until(lambda: pending(crabpot))
            assert asked["deadline"] - asked["asked_at"] <= 5
            started.communicate(timeout=PATIENCE_S)
            wait_until(lambda: pending(crabpot) == [])
        finally:
            started.kill()
            started.communicate()


def test_what_is_allowed_for_a_while_says_what_it_ends_with(crabpot: Program) -> None:
    crabpot.configure("{tools: {elevated: {enabled: true, patterns: ['id *']}}}")
    terminal = Terminal(crabpot, "exec", "--", "id -u", cols=200)
    try:
        terminal.wait_for("left] >", within_s=PATIENCE_S)
        assert "s and m end with this command at the latest" in terminal.seen
        terminal.type("m 5\r")
        terminal.wait_for("allowed for 5 minutes, or until this command ends", within_s=PATIENCE_S)
        terminal.end()
    finally:
        terminal.close()


def test_an_answer_from_elsewhere_says_it_too(crabpot: Program) -> None:
    lingering = replace(crabpot, more={"CRABPOT_LINGER": "10m"})
    lingering.configure("{tools: {elevated: {enabled: true, patterns: ['id *']}}}")
    started = lingering.start("exec", "--", "id -u", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        (asked,) = wait_until(lambda: pending(lingering))
        allowed = lingering("approvals", "allow", "--minutes", "5", asked["id"]).out
        assert "allowed for 5 minutes, or until the lingering gateway (10m after its last command) ends" in allowed
        started.communicate(timeout=PATIENCE_S)
        assert started.returncode == 0
    finally:
        started.kill()
        started.communicate()
        lingering("serve", "stop")


# --- the end ------------------------------------------------------------------------------------------------------------


def test_purge_removes_all_state_once_somebody_agreed(crabpot: Program) -> None:
    crabpot.configure("{}")
    crabpot("exec", "--", "mkdir -p deep/er; touch deep/er/file; chmod 0 deep")
    asked = crabpot("purge")
    assert (asked.code, "crabpot purge --yes" in asked.err) == (2, True)
    assert crabpot.state.exists()
    done = crabpot("purge", "--yes")
    assert (done.code, done.err) == (0, "")
    assert not crabpot.state.exists()
    assert crabpot.usual_file.exists()
    assert crabpot("purge").code == 0


def test_purge_asks_on_a_terminal_and_takes_nothing_else_for_a_yes(crabpot: Program) -> None:
    crabpot("exec", "--", "true")
    terminal = Terminal(crabpot, "purge")
    try:
        terminal.wait_for('type "purge" to go on', within_s=PATIENCE_S)
        terminal.type("y\n")
        assert terminal.end() == 1
    finally:
        terminal.close()
    assert crabpot.state.exists()


def test_purge_leaves_alone_what_a_gateway_serves_and_what_is_not_crabpots(crabpot: Program) -> None:
    crabpot.configure("{}")
    with crabpot.serving():
        assert "a gateway serves" in crabpot("purge", "--yes").err
    other = crabpot.home / "photos"
    other.mkdir(mode=0o700)
    (other / "one.jpg").write_bytes(b"x")
    assert "nothing of Crabpot's" in crabpot("--state", str(other), "purge", "--yes").err
    assert (other / "one.jpg").exists()
