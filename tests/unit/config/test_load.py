"""Reading the file itself: what is not a small regular text is refused, and one inside a workspace is not trusted."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from crabpot.config.load import MAX_BYTES, from_text, load, read_text
from crabpot.errors import ConfigError
from crabpot.settings import Gateway
from crabpot.spec.binds import Surroundings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from crabpot.settings import Settings


def said_of(file: Path | str) -> str:
    with pytest.raises(ConfigError) as caught:
        read_text(str(file))
    (problem,) = caught.value.problems
    assert problem.file == str(file)
    return problem.message


def test_a_missing_file_says_how_to_begin(tmp_path: Path) -> None:
    file = str(tmp_path / "none.json5")
    with pytest.raises(ConfigError) as caught:
        read_text(file)
    assert str(caught.value).startswith(f"{file}: cannot be read: No such file")
    assert "crabpot init" in str(caught.value)


def test_a_directory_is_refused(tmp_path: Path) -> None:
    assert said_of(tmp_path) == "cannot be read: Is a directory"


def test_a_fifo_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert said_of(tmp_path / "fifo") == "is not a regular file"


def test_a_device_that_never_ends_is_refused() -> None:
    assert said_of("/dev/zero") == "is not a regular file"


def test_a_socket_is_refused(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        assert said_of(tmp_path / "s").startswith("cannot be read: ")


def test_a_loop_of_links_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert said_of(tmp_path / "a").startswith("cannot be read: Too many levels of symbolic links")


def test_a_file_of_the_greatest_size_is_read_and_one_byte_more_is_not(tmp_path: Path) -> None:
    file = tmp_path / "big.json5"
    file.write_bytes(b"{}" + b" " * (MAX_BYTES - 2))
    assert len(read_text(str(file))) == MAX_BYTES
    file.write_bytes(b"{}" + b" " * (MAX_BYTES - 1))
    assert "larger than 1 MiB" in said_of(file)


@pytest.mark.parametrize(
    "content", [b"\x7fELF\x02\x01\xff", b"{\xff}", b"\xfe\xff\x00{", b"{'a': '\xed\xa0\x80'}", b"\xc0\xaf"]
)
def test_bytes_that_are_no_utf8_are_refused_and_the_first_is_named(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "bytes.json5"
    file.write_bytes(content)
    assert said_of(file).startswith("is not UTF-8 text (byte ")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "1: expected a value, found end of the text"),
        ("\n\n{", "3: expected a key, found end of the text"),
        ("{tools: {\n profile: full }}", "2: tools.profile: expected a value, found full; a string needs quotes"),
        ("{tools: {\n deny: ['exec', NaN]}}", "2: tools.deny[1]: NaN is not a number"),
        ("{tools: {\n profile: 'full }}", "2: tools.profile: unclosed string; it must end on its line"),
        ("{a: 1}\n}", "2: unexpected '}' after the end of the value"),
        ("{\n tools: {},\n tools: {},\n}", "3: tools: duplicate key 'tools'; keep one"),
        ("[]", "1: must be an object: { … }"),
        ("null", "1: must be an object: { … }"),
        ("\0\0", "1: expected a value, found '\\x00'"),
        ("[" * 100_000, "1: nested deeper than 64 levels"),
    ],
)
def test_what_is_not_one_object_of_json5_is_refused_with_its_line(
    text: str, said: str, refused: Callable[[str], str], around: Surroundings
) -> None:
    assert refused(text) == f"{around.config}:{said}"


def test_without_a_file_the_defaults_hold(around: Surroundings) -> None:
    settings = load(None, around, {})
    assert (settings.file, settings.defaults.sandbox.mode) == (None, "all")


@pytest.fixture
def home(tmp_path: Path) -> Surroundings:
    (tmp_path / "agent").mkdir()
    (tmp_path / "conf").mkdir()
    return Surroundings(home=str(tmp_path), state=str(tmp_path / "state"))


def inside(home: Surroundings, file: str, text: str = "{}") -> str:
    with pytest.raises(ConfigError) as caught:
        from_text(text, file, replace(home, config=file), {})
    return str(caught.value)


def loads(home: Surroundings, file: str, text: str = "{}") -> Settings:
    return from_text(text, file, replace(home, config=file), {})


def test_a_configuration_inside_the_workspace_is_refused(home: Surroundings) -> None:
    for name in ("crabpot.json5", "deep/er/crabpot.json5", "../agent/crabpot.json5", "./x"):
        message = inside(home, f"{home.home}/agent/{name}")
        assert "is inside the workspace" in message
        assert f"{home.home}/agent" in message


def test_a_configuration_beside_the_workspace_is_not(home: Surroundings) -> None:
    for file in (f"{home.home}/agent.json5", f"{home.home}/agent-conf/c", f"{home.home}/conf/crabpot.json5"):
        loads(home, file)


def test_a_configuration_inside_another_agents_workspace_is_refused(home: Surroundings) -> None:
    text = f"{{agents: {{entries: {{ops: {{workspace: '{home.home}/conf'}}}}}}}}"
    assert "agents.entries.ops.workspace" in inside(home, f"{home.home}/conf/c.json5", text)


def test_a_workspace_that_is_a_link_to_where_the_configuration_lies_is_refused(home: Surroundings) -> None:
    os.symlink(f"{home.home}/conf", f"{home.home}/ws")
    text = f"{{agents: {{defaults: {{workspace: '{home.home}/ws'}}}}}}"
    assert "is inside the workspace" in inside(home, f"{home.home}/conf/c.json5", text)


def test_a_link_that_leads_into_the_workspace_is_refused(home: Surroundings) -> None:
    os.symlink(f"{home.home}/agent/real.json5", f"{home.home}/conf/c.json5")
    assert "is inside the workspace" in inside(home, f"{home.home}/conf/c.json5")


def test_a_link_in_the_workspace_that_leads_out_is_refused_since_the_agent_can_turn_it(home: Surroundings) -> None:
    os.symlink(f"{home.home}/conf/real.json5", f"{home.home}/agent/c.json5")
    assert "is inside the workspace" in inside(home, f"{home.home}/agent/c.json5")
    os.symlink(f"{home.home}/agent/c.json5", f"{home.home}/conf/c.json5")
    assert "is inside the workspace" in inside(home, f"{home.home}/conf/c.json5")


def test_a_folder_link_in_the_workspace_that_leads_out_is_refused(home: Surroundings) -> None:
    os.symlink(f"{home.home}/conf", f"{home.home}/agent/out")
    assert "is inside the workspace" in inside(home, f"{home.home}/agent/out/c.json5")


def test_the_workspace_may_not_be_where_crabpot_keeps_its_own_files(home: Surroundings) -> None:
    for workspace in (home.state, f"{home.state}/sandboxes/x", home.home, "/", "/etc", f"{home.home}/.ssh"):
        text = f"{{agents: {{defaults: {{workspace: '{workspace}'}}}}}}"
        assert "agents.defaults.workspace" in inside(home, f"{home.home}/conf/c.json5", text), workspace


@pytest.mark.parametrize("workspace", ["agent", "./agent", "~bob/agent", "$HOME/agent", "", " /srv/x"])
def test_the_workspace_is_an_absolute_path(workspace: str, refused: Callable[[str], str]) -> None:
    assert "must be an absolute path or start with ~/" in refused(f"{{workspace: '{workspace}'}}")


def test_the_runner_socket_of_the_environment_is_for_those_that_chose_no_backend(
    load_text: Callable[..., Settings],
) -> None:
    text = "{agents: {entries: {a: {sandbox: {backend: 'docker'}}, b: {sandbox: {socket: '/run/b.sock'}}}}}"
    settings = load_text(text, RUNNER_SOCKET="/run/r.sock")
    chosen = {name: settings.agent(name).sandbox for name in ("main", "a", "b")}
    assert {name: (each.backend, each.socket) for name, each in chosen.items()} == {
        "main": ("socket", "/run/r.sock"),
        "a": ("docker", None),
        "b": ("socket", "/run/b.sock"),
    }
    assert settings.agent("main").source("sandbox.backend") == "$RUNNER_SOCKET"
    assert settings.agent("a").source("sandbox.backend") == "agents.entries.a.sandbox.backend"


TOOL_PROBLEMS = [
    ("{tools: {profile: 'codng'}}", "tools.profile", 'unknown profile "codng"; did you mean "coding"?'),
    ("{tools: {profile: ''}}", "tools.profile", "unknown profile"),
    (
        "{tools: {profile: 'zzz'}}",
        "tools.profile",
        'unknown profile "zzz"; use one of full, coding, messaging, minimal',
    ),
    ("{tools: {profile: 'Full'}}", "tools.profile", 'did you mean "full"?'),
    ("{tools: {allow: []}}", "tools.allow", "an empty allow"),
    ("{tools: {sandbox: {allow: []}}}", "tools.sandbox.allow", "an empty allow"),
    ("{tools: {allow: ['']}}", "tools.allow[0]", "an empty name"),
    ("{tools: {allow: ['group:files']}}", "tools.allow[0]", 'unknown group "group:files"'),
    ("{tools: {deny: ['group:fss']}}", "tools.deny[0]", 'did you mean "group:fs"?'),
    ("{tools: {deny: ['ls', 'web_serch']}}", "tools.deny[1]", 'did you mean "web_search"?'),
    ("{tools: {deny: ['zzzzzz']}}", "tools.deny[0]", "list it in tools.extra"),
    ("{tools: {sandbox: {deny: ['exce']}}}", "tools.sandbox.deny[0]", "unknown tool"),
    ("{tools: {deny: ['exec\\n']}}", "tools.deny[0]", "unknown tool"),
    ("{tools: {extra: ['*']}}", "tools.extra[0]", "cannot be the name of a tool"),
    ("{tools: {extra: ['ok', '']}}", "tools.extra[1]", "cannot be the name of a tool"),
    ("{tools: {extra: ['group:mine']}}", "tools.extra[0]", "cannot be the name of a tool"),
    ("{tools: {elevated: {path: 'bin'}}}", "tools.elevated.path", "must be an absolute folder"),
    ("{tools: {elevated: {path: ''}}}", "tools.elevated.path", "must be an absolute folder"),
    ("{tools: {elevated: {path: '/bin:'}}}", "tools.elevated.path", "must be an absolute folder"),
    ("{tools: {elevated: {path: '/bin:.:/usr/bin'}}}", "tools.elevated.path", '"." must be an absolute folder'),
    ("{tools: {elevated: {passEnv: ['A B']}}}", "tools.elevated.passEnv[0]", "cannot be the name of a variable"),
    ("{tools: {elevated: {passEnv: ['A=1']}}}", "tools.elevated.passEnv[0]", "cannot be the name of a variable"),
    ("{tools: {elevated: {approvalTimeout: 0}}}", "tools.elevated.approvalTimeout", "above zero"),
    ("{agents: {entries: {ops: {tools: {profile: 'x'}}}}}", "agents.entries.ops.tools.profile", "unknown profile"),
    ("{agents: {list: [{id: 'o', tools: {deny: ['x']}}]}}", "agents.list[0].tools.deny[0]", "unknown tool"),
]


@pytest.mark.parametrize(("text", "path", "said"), TOOL_PROBLEMS)
def test_names_that_mean_nothing_are_refused(
    text: str, path: str, said: str, refused: Callable[[str], str], around: Surroundings
) -> None:
    message = refused(text)
    assert message.startswith(f"{around.config}:1: {path}: ")
    assert said in message


def test_names_that_mean_something_are_taken(load_text: Callable[[str], Settings]) -> None:
    load_text(
        "{tools: {extra: ['Weather', 'a.b:c/d'], allow: ['weather', 'A.b:c/d', ' BASH ', 'group:FS', 'sessions_*', '*'],"
        " deny: ['github__push', 'github__*', 'apply-patch', 'nothing_like_it*']}}"
    )


@pytest.mark.parametrize(
    ("written", "seconds"), [("0", 0), ("90", 90), ('"30s"', 30), ('"10m"', 600), ('"1.5h"', 5400), ('"1d"', 86400)]
)
def test_how_long_a_gateway_lingers_is_a_duration(
    load_text: Callable[..., Settings], written: str, seconds: float
) -> None:
    assert load_text(f"{{gateway: {{linger: {written}}}}}").gateway.linger == seconds
    assert load_text("{}").gateway.linger.written() == "10m"


@pytest.mark.parametrize("written", ["-1", '"soon"', '"10x"', "true", '""', '"1e9"', "[]"])
def test_what_is_no_duration_is_refused(load_text: Callable[..., Settings], written: str) -> None:
    with pytest.raises(ConfigError, match="must be a duration"):
        load_text(f"{{gateway: {{linger: {written}}}}}")


def test_how_many_sandboxes_there_may_be_is_written_or_by_default(load_text: Callable[..., Settings]) -> None:
    assert load_text("{}").gateway == Gateway(max_sandboxes=500, max_sandboxes_per_agent=100)
    assert load_text("{gateway: {maxSandboxes: 9}}").gateway == Gateway(max_sandboxes=9)
    with pytest.raises(ConfigError, match="did you mean"):
        load_text("{gateway: {maxSandboxs: 9}}")
