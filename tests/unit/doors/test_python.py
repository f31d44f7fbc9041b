"""The door for programs: a gateway, or a sandbox of one's own, for as long as a block lasts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import crabpot
from crabpot import app
from crabpot.audit import tables
from crabpot.audit.reading import AuditReader


def sandboxed_or_skip(result):
    """Skip on a machine that makes no sandbox; fail where $CRABPOT_REQUIRE_BACKENDS says that it must."""
    if result.error is not None and result.error.code == "sandbox_unavailable":
        required = "bubblewrap" in os.environ.get("CRABPOT_REQUIRE_BACKENDS", "")
        (pytest.fail if required else pytest.skip)(result.error.message)


@pytest.fixture
def config(tmp_path):
    file = tmp_path / "crabpot.json5"
    file.write_text(
        f'{{agents: {{defaults: {{workspace: "{tmp_path}/ws", sandbox: {{mode: "off"}}}}}}, tools: {{extra: ["greet"]}}}}'
    )
    return str(file)


async def test_a_gateway_is_open_for_a_block_and_leaves_nothing(config, tmp_path):
    async with crabpot.Gateway.open(config, state=str(tmp_path / "state")) as gateway:
        gateway.register("greet", lambda name: f"hello {name}")
        result = await gateway.call("agent:main:main", "exec", command="echo $$ > pid; echo hi")
        assert (result.stdout, result.place) == ("hi\n", crabpot.Place.HOST)
        assert (await gateway.call("main", "greet", name="crab")).data == {"value": "hello crab"}
        started = await gateway.call("main", "exec", command="echo $$ > kept; sleep 1000", background=True)
        assert started.success
        runners = [live.wire.ready["pid"] for live in gateway.execution.fleet.listed()]
    assert len(runners) == 1
    assert not any(os.path.exists(f"/proc/{pid}") for pid in runners)
    assert AuditReader(str(tmp_path / "state")).verify() == (6, None)


async def test_a_block_that_raises_leaves_nothing_either(config, tmp_path):
    runners: list[Any] = []

    async def fail():
        async with crabpot.Gateway.open(config, state=str(tmp_path / "state")) as gateway:
            await gateway.call("agent:main:main", "ls")
            runners.extend(live.wire.ready["pid"] for live in gateway.execution.fleet.listed())
            raise KeyError

    with pytest.raises(KeyError):
        await fail()
    assert runners
    assert not any(os.path.exists(f"/proc/{pid}") for pid in runners)


@pytest.fixture
def leaving(tmp_path):
    file = tmp_path / "leaving.json5"
    file.write_text(
        f'{{agents: {{defaults: {{workspace: "{tmp_path}/ws", sandbox: {{workspace: "rw"}}}}}},'
        ' tools: {elevated: {enabled: true, patterns: ["pwd"]}}}'
    )
    (tmp_path / "ws").mkdir()
    return str(file)


class Object:
    """An approver as an object; the other form is its method alone."""

    def __init__(self):
        self.asked = []

    async def ask(self, request):
        self.asked.append(request)
        return crabpot.Answer(allowed=True, by="program")


@pytest.mark.parametrize("form", [lambda one: one, lambda one: one.ask])
async def test_a_program_answers_by_an_object_or_by_a_function(leaving, tmp_path, form):
    approver = Object()
    async with crabpot.Gateway.open(leaving, state=str(tmp_path / "state"), approver=form(approver)) as gateway:
        result = await gateway.call("agent:main:x", "exec", command="pwd")
        assert (result.stdout, result.place) == (f"{tmp_path}/ws\n", crabpot.Place.HOST)
    (request,) = approver.asked
    assert isinstance(request, crabpot.Request)
    assert request.argv == ("pwd",)


async def test_a_command_that_may_leave_something_running_inside_leaves_for_the_host_like_any_other(leaving, tmp_path):
    approver = Object()
    async with crabpot.Gateway.open(leaving, state=str(tmp_path / "state"), approver=approver) as gateway:
        result = await gateway.session("agent:main:x").exec("pwd", detach=True, env={}, text=True)
    assert (result.stdout, result.place, result.error) == (f"{tmp_path}/ws\n", "host", None)


async def test_without_an_approver_a_program_is_denied_at_once(leaving, tmp_path):
    async with crabpot.Gateway.open(leaving, state=str(tmp_path / "state")) as gateway:
        result = await gateway.call("agent:main:x", "exec", command="pwd")
        assert (result.error.code, result.place) == ("approval_denied", crabpot.Place.NONE)
        assert "no operator is connected" in result.error.message


async def test_an_approver_that_breaks_has_not_agreed(leaving, tmp_path):
    async def breaks(_request):
        raise KeyError("secret")

    async with crabpot.Gateway.open(leaving, state=str(tmp_path / "state"), approver=breaks) as gateway:
        result = await gateway.call("agent:main:x", "exec", command="pwd")
        assert (result.error.code, "KeyError" in result.error.message) == ("approval_denied", True)


async def test_a_configuration_that_does_not_load_opens_nothing(tmp_path):
    (tmp_path / "bad.json5").write_text("{agents: 5}")
    with pytest.raises(crabpot.ConfigError):
        async with crabpot.Gateway.open(str(tmp_path / "bad.json5"), state=str(tmp_path / "state")):
            pass
    assert not (tmp_path / "state").exists()


async def test_files_and_folders_may_be_path_objects(config, tmp_path):
    async with crabpot.Gateway.open(Path(config), state=tmp_path / "state") as gateway:
        assert gateway.settings.file == config
    assert (tmp_path / "state").is_dir()
    assert crabpot.named_sandboxes(state=tmp_path / "state") == []
    assert not crabpot.delete_sandbox("none", state=tmp_path / "state")
    async with crabpot.sandbox(tmp_path, state=tmp_path.parent / "state", socket=tmp_path / "s") as box:
        assert box.state == str(tmp_path.parent / "state")


async def test_a_configuration_may_be_a_mapping(tmp_path):
    defaults = {"workspace": tmp_path / "ws", "sandbox": {"mode": "off"}}
    written = {"agents": {"defaults": defaults}, "tools": {"deny": ("exec",)}}
    async with crabpot.Gateway.open(written, state=tmp_path / "state") as gateway:
        assert gateway.settings.defaults.workspace == str(tmp_path / "ws")
        assert (await gateway.call("main", "exec", command="true")).error.code == "denied"


async def test_a_mapping_that_does_not_load_names_the_path_and_no_file(tmp_path):
    with pytest.raises(crabpot.ConfigError) as caught:
        async with crabpot.Gateway.open({"tools": {"deny": ["exek"]}}, state=tmp_path / "state"):
            pass
    assert str(caught.value) == 'crabpot.Gateway.open(): tools.deny[0]: unknown tool "exek"; did you mean "exec"?'
    assert not (tmp_path / "state").exists()


async def test_every_public_name_is_there():
    for name in crabpot.__all__:
        assert getattr(crabpot, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        crabpot.nothing  # noqa: B018


async def test_a_sandbox_of_ones_own_is_private_and_thrown_away(open_folder):
    state = open_folder / "state"
    async with crabpot.sandbox(state=str(state), env={"COLOUR": "red"}, limits={"timeLimit": 5}) as box:
        result = await box.call("exec", command="pwd; echo $COLOUR; echo kept > file")
        sandboxed_or_skip(result)
        assert result.stdout == "/workspace\nred\n"
        assert result.place is crabpot.Place.SANDBOX
        assert (await box.call("read", path="file")).data["content"] == "kept\n"
        assert len(list((state / "sandboxes").glob("crabpot-agent-main-box-*"))) == 2
    assert not list((state / "sandboxes").glob("crabpot-agent-main-box-*"))
    assert tables.sessions(str(state)) == [box.session]
    assert app.start(config=None, state=str(state), environ={}).sessions_seen() == [], "explain is about upcalls"


async def test_a_sandbox_over_a_folder_writes_it_and_nothing_else(open_folder):
    folder = open_folder / "project"
    folder.mkdir()
    if os.geteuid() == 0:
        os.chown(folder, 65534, 65534)
    async with crabpot.sandbox(str(folder), state=str(open_folder / "state")) as box:
        result = await box.call("exec", command="echo out > file; touch /usr/x /etc/x /x 2>/dev/null; true")
        sandboxed_or_skip(result)
        assert result.success, result
    assert (folder / "file").read_text() == "out\n"
    assert not any(os.path.exists(path) for path in ("/usr/x", "/etc/x", "/x"))


async def test_two_sandboxes_see_nothing_of_each_other(open_folder):
    state = str(open_folder / "state")
    async with crabpot.sandbox(state=state) as one, crabpot.sandbox(state=state) as two:
        result = await one.call("write", path="secret", content="x")
        sandboxed_or_skip(result)
        assert (await two.call("read", path="secret")).error.code == "not_found"


async def test_what_makes_it_a_sandbox_of_its_own_cannot_be_set_otherwise(tmp_path):
    state = str(tmp_path / "state")
    with pytest.raises(crabpot.ConfigError) as told:
        async with crabpot.sandbox(state=state, mode="off", scope="shared", workspace="ro"):
            pass
    assert str(told.value).splitlines() == [
        "crabpot.sandbox(): mode: is \"all\" here and cannot be 'off' (crabpot.Gateway has agents with modes and scopes)",
        "crabpot.sandbox(): scope: is \"session\" here and cannot be 'shared' (crabpot.Gateway has agents with modes and scopes)",
        "crabpot.sandbox(): workspace: is \"none\" here and cannot be 'ro' (pass `folder` to use one of the host's)",
    ]
    async with crabpot.sandbox(state=state, mode="all", scope=None) as box:
        assert box.session


async def test_the_tools_of_a_sandbox_of_ones_own_can_be_denied(tmp_path):
    state = str(tmp_path / "state")
    tools = {"deny": ["write"], "elevated": {"enabled": True, "patterns": ["pwd"]}}
    async with crabpot.sandbox(state=state, tools=tools) as box:
        sandboxed_or_skip(await box.call("ls"))
        with pytest.raises(PermissionError, match=r"tools\.deny"):
            await box.write("note", "x")
        with pytest.raises(PermissionError, match="no operator is connected"):
            (await box.exec("pwd")).check()
    with pytest.raises(crabpot.ConfigError, match=r"tools\.deny"):
        await crabpot.sandbox(state=state, tools={"deny": ["no_such_tool"]})


async def test_a_setting_that_there_is_not_is_an_error(tmp_path):
    with pytest.raises(crabpot.ConfigError) as told:
        async with crabpot.sandbox(state=str(tmp_path / "state"), limits={"memry": "1g"}, colour="red"):
            pass
    memory, colour = str(told.value).splitlines()
    assert memory == 'crabpot.sandbox(): limits.memry: unknown key; did you mean "memory"?'
    assert colour.startswith("crabpot.sandbox(): colour: unknown key; use one of ")
