"""The command line itself: options anywhere, sessions of any bytes, and outputs that close, fill up or speak no UTF-8."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
from itertools import permutations
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.backends import skip_or_fail

if TYPE_CHECKING:
    from pathlib import Path

PATIENCE_S = 120.0


def test_config_and_state_stand_before_or_after_the_command(crabpot: Any) -> None:
    file = crabpot.home / "mine.json5"
    file.write_text("{agents: {defaults: {sandbox: {scope: 'agent'}}}}")
    parts = [("--config", str(file)), (f"--state={crabpot.home}/my-state",), ("explain", "--json")]
    hashes = set()
    for order in permutations(parts):
        ended = crabpot(*(word for part in order for word in part))
        assert (ended.code, ended.err) == (0, "")
        assert ended.json["sandbox"]["scope"] == "agent"
        hashes.add(ended.json["sandbox"]["hash"])
    assert len(hashes) == 1, "the private workspace lies in the state folder, so another one is another spec"
    assert crabpot("explain", "--json", "--config", str(file)).json["sandbox"]["hash"] not in hashes


def test_the_environment_names_the_files_where_no_flag_does(crabpot: Any) -> None:
    for name, scope in (("one", "agent"), ("two", "shared")):
        (crabpot.home / f"{name}.json5").write_text(f"{{agents: {{defaults: {{sandbox: {{scope: '{scope}'}}}}}}}}")
    environ = {"CRABPOT_CONFIG": str(crabpot.home / "one.json5")}
    assert crabpot("config", "get", "agents.defaults.sandbox.scope", **environ).out == "agent\n"
    flagged = crabpot("config", "get", "agents.defaults.sandbox.scope", "--config", "two.json5", **environ)
    assert flagged.out == "shared\n"


def test_after_the_dashes_everything_belongs_to_the_command(crabpot: Any) -> None:
    crabpot.configure("{tools: {elevated: {enabled: true, patterns: ['git push *']}}}")
    ended = crabpot("explain", "--json", "--", "git", "push", "--config", "x", "--json", "--", "-h")
    assert ended.json["command"]["argv"] == ["git", "push", "--config", "x", "--json", "--", "-h"]


def test_several_sessions_are_a_list_and_one_is_not(crabpot: Any) -> None:
    assert [each["session"] for each in crabpot("explain", "--json", "--session", "a", "--session", "b").json] == [
        "a",
        "b",
    ]
    assert crabpot("explain", "--json", "--session", "a").json["session"] == "a"
    assert crabpot("explain", "--json").json["session"] == "agent:main:main"


def test_an_agent_is_asked_about_by_its_name(crabpot: Any) -> None:
    crabpot.configure("{agents: {entries: {ops: {sandbox: {mode: 'off'}}}}}")
    answer = crabpot("explain", "--json", "--agent", "OPS").json
    assert (answer["session"], answer["placement"]["where"]) == ("agent:ops:main", "host")
    for wrong in (("--agent", "o p s"), ("--agent", "dev", "--session", "agent:ops:x")):
        ended = crabpot("explain", *wrong)
        assert ended.code == 2
        ended.said()


def test_the_sender_is_stated_on_the_command_line(crabpot: Any) -> None:
    crabpot.configure("{tools: {elevated: {enabled: true, patterns: ['ls'], allowFrom: ['me']}}}")
    for sender, where in ((("--sender", "me"), "host"), (("--sender", "you"), "sandbox"), ((), "sandbox")):
        assert crabpot("explain", "--json", *sender, "--", "ls").json["command"]["where"] == where


@pytest.mark.parametrize("key", ["", "agent:main:main\n", b"\xff\xfe", "\u202egnp", "x" * 4096, "shared"])
def test_a_session_key_may_be_any_bytes_but_none(key: str | bytes, crabpot: Any) -> None:
    ended = crabpot("explain", "--session", key, "--json")
    if not key:
        assert ended.code == 2
        assert "session key is empty" in ended.said()
        return
    assert (ended.code, ended.err) == (0, "")
    assert ended.json["placement"]["where"] == "sandbox"
    shown = crabpot("explain", "--session", key)
    assert shown.code == 0
    assert all(line.isprintable() for line in shown.out.splitlines())
    assert os.fsencode(ended.json["session"]) == (key if isinstance(key, bytes) else key.encode())


@pytest.mark.parametrize(
    ("code", "before", "after"),
    [
        (125, ("exec",), ("--", "id")),
        (125, ("call", "ls"), ()),
        (2, ("explain",), ()),
        (2, ("mcp",), ("--print-config", "generic")),
        (2, ("verify",), ()),
    ],
)
def test_a_key_that_names_no_session_is_an_error_of_every_command(
    code: int, before: tuple[str, ...], after: tuple[str, ...], crabpot: Any
) -> None:
    crabpot.configure("{agents: {defaults: {sandbox: {mode: 'off'}}, entries: {ops: {}}}}")
    for key in ("agent:ops:", "agent:ops", "agent:", "agent:m\u0430in:main", ""):
        ended = crabpot(*before, "--session", key, *after)
        assert (ended.code, "session" in ended.said()) == (code, True)


@pytest.mark.parametrize(
    "arguments",
    [(), ("nonsense",), ("explain", "--sesion", "x"), ("config",), ("config", "get"), ("explain", "--config")],
)
def test_a_command_line_that_asks_for_nothing_there_is(arguments: tuple[str, ...], crabpot: Any) -> None:
    ended = crabpot(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert "usage: crabpot" in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("exlain",), 2, 'did you mean "explain"?'),
        (("approvals", "alow", "x"), 2, 'did you mean "allow"?'),
        (("render", "docker-rum"), 2, 'did you mean "docker-run"?'),
        (("mcp", "--print-config", "claude"), 2, 'did you mean "claude-code"?'),
        (("serve", "--listen", "0.0.0.0:80"), 2, "is not the loopback"),
        (("serve", "--listen", "8080"), 2, '"8080" is not an address in numbers; write 127.0.0.1:8080'),
        (("tokens", "add", "bot"), 2, "an agent's token needs sessions: --session KEY"),
        (("call", "raed"), 126, 'did you mean \\"read\\"?'),
    ],
)
def test_what_was_mistyped_is_told_with_what_is_near(
    arguments: tuple[str, ...], code: int, said: str, crabpot: Any
) -> None:
    ended = crabpot(*arguments)
    assert ended.code == code
    assert said in ended.err + ended.out


def test_a_group_of_commands_says_what_it_is_for(crabpot: Any) -> None:
    for group in ("approvals", "leases", "config", "tokens", "render", "image", "audit"):
        assert len(re.split(r"\n\n", crabpot(group, "--help").out)) == 5, group


def test_help_names_every_command_of_deciding(crabpot: Any) -> None:
    ended = crabpot("--help")
    assert ended.code == 0
    for command in ("explain", "check", "init", "config"):
        assert re.search(rf"^    {command} ", ended.out, re.MULTILINE)
        assert crabpot(command, "--help").code == 0
    assert re.fullmatch(r"crabpot \d+\.\d+\.\d+\S*\n", crabpot("--version").out)


def _start(
    crabpot: Any, *arguments: str, cwd: Path | None = None, **streams: Any
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*crabpot.argv, *arguments],
        env=streams.pop("env", crabpot.environ),
        cwd=cwd or crabpot.home,
        timeout=PATIENCE_S,
        check=False,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, **streams},
    )


def test_a_reader_that_leaves_early_is_no_error_worth_a_word(crabpot: Any) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = _start(crabpot, "explain", stdout=writing)
    os.close(writing)
    assert done.stderr == b""
    assert done.returncode not in (0, 120)


def test_a_full_disk_is_told(crabpot: Any) -> None:
    with open("/dev/full", "wb") as full:
        done = _start(crabpot, "explain", "--json", stdout=full)
    assert done.returncode == 1
    assert done.stderr.decode().splitlines() == ["crabpot: [Errno 28] No space left on device"]


def test_a_closed_output_is_no_traceback(crabpot: Any) -> None:
    for closing in (">&-", ">&- 2>&-", "<&- >&-"):
        done = subprocess.run(
            ["/bin/sh", "-c", f'"$@" {closing}', "sh", *crabpot.argv, "explain"],
            env=crabpot.environ,
            cwd=crabpot.home,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert b"Traceback" not in done.stderr
        assert b"Exception" not in done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_an_output_that_knows_no_arrows_gets_them_by_number(encoding: str, crabpot: Any) -> None:
    environ = {**crabpot.environ, "PYTHONIOENCODING": encoding}
    done = _start(crabpot, "explain", env=environ)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b'Session "agent:main:main" \\u2192 SANDBOX' in done.stdout
    done = _start(crabpot, "explain", "--json", "--session", "\U0001f980", env=environ)
    assert json.loads(done.stdout)["session"] == "\U0001f980"


def test_a_working_directory_that_is_gone_is_told(crabpot: Any) -> None:
    gone = crabpot.home / "gone"
    gone.mkdir()
    done = subprocess.run(
        ["/bin/sh", "-c", 'rmdir "$PWD"; "$@"', "sh", *crabpot.argv, "explain"],
        env=crabpot.environ,
        cwd=gone,
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.decode() == "crabpot: the working directory no longer exists; change to another one\n"


def test_a_terminal_gets_colour_and_a_person_can_say_no(crabpot: Any) -> None:
    crabpot.configure("{agents: {defaults: {sandbox: {network: 'host'}}}}")
    for extra, coloured in (
        ({"TERM": "xterm"}, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
    ):
        ours, theirs = pty.openpty()
        done = _start(crabpot, "check", stdout=theirs, env={**crabpot.environ, **extra})
        os.close(theirs)
        shown = os.read(ours, 65536)
        os.close(ours)
        assert done.returncode == 0
        assert (b"\x1b[33mwarning\x1b[0m: " in shown) is coloured
        assert (b"\x1b" in shown) is coloured


def test_the_same_question_has_the_same_answer_in_every_process(crabpot: Any) -> None:
    crabpot.configure("{agents: {defaults: {sandbox: {env: {B: '1', A: '2'}, binds: ['/srv/a:/a', '/srv/b:/b']}}}}")
    answers = {crabpot("explain", "--json", PYTHONHASHSEED=seed).json["sandbox"]["hash"] for seed in ("1", "2", "3")}
    crabpot.configure("{agents: {defaults: {sandbox: {binds: ['/srv/a:/a', '/srv/b:/b'], env: {A: '2', B: '1'}}}}}")
    answers.add(crabpot("explain", "--json").json["sandbox"]["hash"])
    assert len(answers) == 1
    crabpot.configure("{agents: {defaults: {sandbox: {env: {B: '1', A: '2'}, binds: ['/srv/b:/b', '/srv/a:/a']}}}}")
    assert crabpot("explain", "--json").json["sandbox"]["hash"] not in answers


def imported(crabpot: Any, *arguments: str) -> set[str]:
    """Name the modules that a command imports, and the packages that they are in."""
    program, *rest = crabpot.argv
    command = [program, "-X", "importtime", *rest, *arguments]
    done = subprocess.run(command, env=crabpot.environ, capture_output=True, text=True, timeout=60, check=True)
    modules = {line.rsplit("|", 1)[1].strip() for line in done.stderr.splitlines() if "|" in line}
    return modules | {module.split(".")[0] for module in modules}


@pytest.mark.parametrize("arguments", [("--help",), ("explain",), ("call", "ls")])
def test_no_command_pays_for_doors_that_it_does_not_open(arguments: tuple[str, ...], crabpot: Any) -> None:
    modules = imported(crabpot, *arguments)
    assert "crabpot" in modules
    assert modules.isdisjoint(
        {"mcp", "mcp_types", "pydantic", "anyio", "fastapi", "starlette", "uvicorn", "prometheus_client"}
    )


def test_help_loads_the_description_of_the_commands_and_nothing_else_of_ours(crabpot: Any) -> None:
    modules = imported(crabpot, "--help")
    # The thin client looks at every command line first.
    modules -= {f"crabpot.doors.{name}" for name in ("thin", "thin.client", "thin.command", "local", "local.identity")}
    modules -= {"crabpot.runner", "crabpot.runner.core", "crabpot.runner.core.frames"}
    assert {module for module in modules if module.startswith("crabpot")} == {
        "crabpot",
        "crabpot.errors",
        "crabpot.doors",
        "crabpot.doors.cli",
        "crabpot.doors.cli.frame",
        "crabpot.doors.cli.main",
        "crabpot.doors.cli.parsers",
        "crabpot.doors.cli.parsing",
        "crabpot.doors.cli.review_parsers",
        "crabpot.doors.cli.run_parsers",
        "crabpot.doors.cli.server_parsers",
    }
    assert modules.isdisjoint({"asyncio", "json", "shutil", "socket", "sqlite3", "subprocess"})


@pytest.fixture
def known(crabpot: Any) -> Any:
    """A program that has found out about the machine, and has a log of it."""
    first = crabpot("exec", "--", "true")
    if "sandbox_unavailable" in first.err:
        skip_or_fail("bubblewrap", first.err)
    assert first.code == 0, first.err
    return crabpot


def test_explain_pays_for_no_event_loop_and_for_nothing_that_opens_a_sandbox(known: Any) -> None:
    modules = imported(known, "explain")
    assert {"crabpot.explain", "crabpot.backends.bubblewrap.backend", "crabpot.audit.tables"} <= modules
    assert modules.isdisjoint({"asyncio", "ssl", "socket", "subprocess", "logging", "concurrent", "threading"})
    assert modules.isdisjoint({"gzip", "secrets", "shutil", "urllib", "pathlib", "ctypes", "tempfile"})
    ours = (
        "audit.reading",
        "audit.store",
        "host_commands.loopback",
        "host_commands.trusted",
        "host_commands.plan",
        "gateway",
    )
    assert modules.isdisjoint({f"crabpot.{name}" for name in ours})
    opening = (
        "bubblewrap.opening",
        "bubblewrap.sandbox",
        "linux.processes",
        "bubblewrap.probe",
        "bubblewrap.detached",
        "bubblewrap.seal",
    )
    assert modules.isdisjoint({f"crabpot.backends.{name}" for name in opening})


def test_one_call_pays_for_no_way_out_that_it_does_not_take(known: Any) -> None:
    modules = imported(known, "exec", "--", "true")
    assert {"crabpot.gateway", "crabpot.backends.bubblewrap.opening"} <= modules
    assert modules.isdisjoint({"secrets", "shutil", "urllib", "pathlib", "tempfile"})
    ours = (
        "host_commands.plan",
        "host_commands.shims",
        "host_commands.guard",
        "host_commands.git",
        "egress",
        "explain",
        "decide.check",
    )
    assert modules.isdisjoint({f"crabpot.{name}" for name in ours})
    others = ("bubblewrap.probe", "docker", "socket")
    assert modules.isdisjoint({f"crabpot.backends.{name}" for name in others})


def test_changes_of_a_session_that_is_not_under_review_say_what_it_is(crabpot):
    assert 'agent:main:main is not under review: its workspace is "none" (default)' in crabpot("changes", "list").said()
    crabpot.configure('{agents: {defaults: {sandbox: {mode: "off", workspace: "review"}}}}')
    assert "agent:main:main is not under review: it runs on the host" in crabpot("changes", "list").said()
