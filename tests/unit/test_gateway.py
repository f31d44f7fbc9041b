"""The five steps, in their order: which, where, when, run, record."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import tracemalloc

import pytest

from crabpot.approvals.requests import Answer
from crabpot.audit import FILE_NAME
from crabpot.audit.reading import AuditReader
from crabpot.errors import CrabpotError, SessionError
from crabpot.sandboxes.streams import Streams
from tests.support.runners import Scripted, answering
from tests.support.waiting import until

S = "agent:main:main"
# Blueprint §9, to the letter.
SHAPE = ["id", "success", "stdout", "stderr", "exit_code", "error", "truncated", "data", "place", "duration_ms"]


def settings(tools="{}", sandbox="{}"):
    return f'{{agents: {{defaults: {{workspace: "WS", sandbox: {sandbox}}}}}, tools: {tools}}}'


async def records(made):
    await made.audit.durable()
    return AuditReader(made.state).last(1000)


# --- the shape of a result ----------------------------------------------------------------------------------------------


async def test_a_result_has_the_shape_that_was_published_whatever_happened(bench):
    async with bench(settings('{deny: ["ls"]}')) as made:
        results = [
            await made.gateway.call(S, "exec", command="echo out; echo err >&2; exit 3"),
            await made.gateway.call(S, "read", path="missing"),
            await made.gateway.call(S, "ls"),
            await made.gateway.call(S, "exec", command="kill -9 $PPID; sleep 2"),
            await made.gateway.call(S, "exec", command="true", timeout=10**6),
        ]
        for result in results:
            shaped = result.as_json()
            assert list(shaped) == SHAPE
            json.dumps(shaped)
            assert shaped["place"] in ("sandbox", "host", "none")
            assert shaped["duration_ms"] > 0
        first = results[0].as_json()
        assert (first["stdout"], first["stderr"], first["exit_code"]) == ("out\n", "err\n", 3)
        assert (first["success"], first["error"], first["data"]) == (False, None, None)
        assert results[1].as_json()["error"]["code"] == "not_found"
        assert [result.place.value for result in results] == ["sandbox", "sandbox", "none", "sandbox", "none"]


async def test_every_call_has_an_id_of_its_own_that_the_log_knows(bench):
    async with bench() as made:
        results = await asyncio.gather(*(made.gateway.call(S, "ls") for _ in range(20)))
        assert len({result.id for result in results}) == 20
        assert {record["call"] for record in await records(made)} == {result.id for result in results}


async def test_what_a_caller_makes_of_its_own_list_afterwards_is_not_what_is_recorded(bench):
    async with bench() as made:
        command = ["echo", "first"]
        assert (await made.gateway.call(S, "exec", command=command)).stdout == "first\n"
        command[:] = ["echo", "second"]
        assert [record["args"]["command"] for record in await records(made)] == ["echo first"]


# --- 1: which -----------------------------------------------------------------------------------------------------------


async def test_a_denied_tool_does_not_run_and_the_rule_is_named(bench):
    async with bench(settings('{deny: ["group:runtime"]}')) as made:
        result = await made.gateway.call(S, "exec", command="true")
        assert result.error.code == "denied"
        assert 'tools.deny[0] "group:runtime"' in result.error.message
        assert made.backend.opened == []
        (record,) = await records(made)
        assert (record["kind"], record["error"], record["place"]) == ("call", "denied", "none")
        assert "tools.deny[0]" in record["rule"]


@pytest.mark.parametrize("tool", ["exec", "EXEC", " Exec\t", "bash", "Bash"])
async def test_a_name_is_decided_in_its_canonical_form_and_recorded_so(bench, tool):
    async with bench(settings('{deny: ["exec"]}')) as made:
        assert (await made.gateway.call(S, tool, command="true")).error.code == "denied"
        assert (await records(made))[0]["tool"] == "exec"


@pytest.mark.parametrize("tool", ["bash", " EXEC "])
async def test_an_alias_runs_what_it_stands_for(bench, tool):
    async with bench() as made:
        assert (await made.gateway.call(S, tool, command="echo x")).stdout == "x\n"


@pytest.mark.parametrize("tool", ["", "no-such-tool", "exec\n", "exec\0", "еxec", "../exec", "group:runtime", "*"])
async def test_a_tool_that_there_is_not_is_denied(bench, tool):
    async with bench() as made:
        result = await made.gateway.call(S, tool, command="true")
        assert result.error.code == "denied"
        assert made.backend.opened == []


async def test_a_deny_for_sandboxed_sessions_holds_there_alone(bench):
    text = settings('{sandbox: {deny: ["exec"]}}', '{mode: "non-main"}')
    async with bench(text) as made:
        assert (await made.gateway.call(S, "exec", command="echo x")).stdout == "x\n"
        assert (await made.gateway.call("agent:main:other", "exec", command="true")).error.code == "denied"


# --- 2: where -----------------------------------------------------------------------------------------------------------


async def test_the_main_session_is_exempted_only_by_the_letter_of_its_key(bench):
    async with bench(settings(sandbox='{mode: "non-main"}')) as made:
        for key in ("agent:main:main", "main", "AGENT:main:main", "agent:main:main ", "agent:main:main\n", "x"):
            result = await made.gateway.call(key, "ls")
            assert result.place.value == ("host" if key in ("agent:main:main", "main") else "sandbox"), key


@pytest.mark.parametrize("key", ["", "agent:", "agent:ops", "agent:ops:", "agent::main", "agent:o s:main"])
async def test_a_key_that_names_no_session_runs_nothing_anywhere(bench, key):
    # As text it matches what was granted for agent:ops:*, and it once ran as the default agent: here, on the host.
    async with bench('{agents: {defaults: {workspace: "WS", sandbox: {mode: "off"}}, entries: {ops: {}}}}') as made:
        result = await made.gateway.call(key, "exec", command="id")
        assert (result.error.code, result.place.value) == ("invalid_arguments", "none")
        with pytest.raises(SessionError):
            made.gateway.tools(key)
        assert made.execution.fleet.listed() == []
        await made.audit.durable()
        assert AuditReader(made.state).last(1)[0]["error"] == "invalid_arguments"
        # `explain` asks about every session that was seen; a key that names none must not make it fail.
        assert made.app.sessions_seen() == []


@pytest.mark.parametrize("session", [S, "agent:main:{n}" + "x" * 4000, "agent:main:{n}" + "x" * 2**20])
async def test_names_that_an_agent_invents_do_not_stay_in_memory(bench, session):
    async with bench(settings('{profile: "minimal"}')) as made:
        tracemalloc.start()
        try:
            before = 0
            for number in range(64):
                before = before or tracemalloc.get_traced_memory()[0]
                key = session.replace("{n}", str(number))
                result = await made.gateway.call(key, f"tool{number}" + "x" * 2**20)
                assert not result.success
                assert len(result.error.message) < 2000
            assert tracemalloc.get_traced_memory()[0] - before < 8 * 2**20
        finally:
            tracemalloc.stop()


async def test_who_was_never_given_the_host_is_not_placed_there(bench):
    async with bench(settings(sandbox='{mode: "non-main"}')) as made:
        for key in ("agent:main:main", "main", "agent:other:main"):
            result = await made.gateway.call(key, "exec", command="id", host_allowed=False)
            assert (result.error.code, result.place.value) == ("denied", "none")
            assert "--allow-host" in result.error.message
            assert made.gateway.tools(key, host_allowed=False) == {}
        inside = await made.gateway.call("agent:main:1", "exec", command="echo in", host_allowed=False)
        assert (inside.stdout, inside.place.value) == ("in\n", "sandbox")
        made.gateway.register("message", lambda: "sent")
        told = await made.gateway.call("main", "message", host_allowed=False)
        assert told.success
        assert list(made.gateway.tools("main", host_allowed=False)) == ["message"]


# --- 3: when ------------------------------------------------------------------------------------------------------------


class Says:
    """An approver with one answer to everything."""

    def __init__(self, **answer):
        self.answer = Answer(by="test", **answer)
        self.asked = []

    async def ask(self, request):
        self.asked.append(request)
        return self.answer


def leaving(*patterns, **more):
    written = {"enabled": True, "patterns": patterns, **more}
    return settings(json.dumps({"elevated": written}), '{workspace: "rw"}')


async def test_without_anybody_to_ask_a_command_that_would_leave_is_refused_and_runs_nowhere(bench, tmp_path):
    async with bench(leaving("touch *")) as made:
        made.workspace.mkdir()
        result = await made.gateway.call(S, "exec", command="touch touched")
        assert (result.error.code, result.place.value) == ("approval_denied", "none")
        assert "no operator is connected" in result.error.message
        assert "tools.elevated.patterns[0]" in result.error.message
        assert os.listdir(made.workspace) == []
        assert made.backend.opened == []
        kinds = [record["kind"] for record in await records(made)]
        assert kinds == ["request", "answer", "call"]
        stays = await made.gateway.call(S, "exec", command="echo stays; true")
        assert stays.stdout == "stays\n"


async def test_an_approved_command_runs_on_the_host_by_its_own_words_and_everything_is_written_down(bench):
    async with bench(leaving("touch *")) as made:
        (made.workspace / "deep").mkdir(parents=True)
        approver = Says(allowed=True)
        made.desk.attach(approver)
        call = {"command": "touch 'a b' '$(c)'", "cwd": "deep"}
        result = await made.gateway.call(S, "exec", call, sender="alice")
        assert (result.success, result.exit_code, result.place.value) == (True, 0, "host")
        assert sorted(os.listdir(made.workspace / "deep")) == ["$(c)", "a b"]
        (request,) = approver.asked
        assert (request.argv, request.sender, request.session) == (("touch", "a b", "$(c)"), "alice", S)
        assert request.folder.path == str(made.workspace / "deep")
        assert request.binary.path == os.path.realpath("/usr/bin/touch")
        assert (request.pattern, request.source) == ("touch *", "tools.elevated.patterns[0]")
        asked, answered, intent, ended = await records(made)
        assert [one["kind"] for one in (asked, answered, intent, ended)] == ["request", "answer", "intent", "call"]
        assert {one["request"] for one in (asked, answered, intent)} == {request.id}
        assert (asked["shown"], asked["binary"]["sha256"]) == (request.shown, request.binary.sha256)
        assert (answered["allowed"], answered["by"], intent["by"]) == (True, "test", "test")
        assert (ended["place"], ended["rule"]) == ("host", "tools.elevated.patterns[0]")


async def test_a_denial_tells_the_agent_why_and_the_command_runs_nowhere(bench):
    async with bench(leaving("touch *")) as made:
        made.workspace.mkdir()
        made.desk.attach(Says(allowed=False, reason="not on a Friday\x1b[2J"))
        result = await made.gateway.call(S, "exec", command="touch x")
        assert (result.error.code, result.place.value) == ("approval_denied", "none")
        assert "the operator said no: not on a Friday" in result.error.message
        assert "\x1b" not in result.error.message
        assert os.listdir(made.workspace) == []


async def test_silence_is_a_denial_with_a_code_of_its_own(bench):
    class Silent:
        async def ask(self, _request):
            await asyncio.Event().wait()

    async with bench(leaving("touch *", approvalTimeout=0.05)) as made:
        made.workspace.mkdir()
        made.desk.attach(Silent())
        result = await made.gateway.call(S, "exec", command="touch x")
        assert (result.error.code, result.place.value) == ("approval_timeout", "none")
        assert "nobody answered within 0.05 s" in result.error.message
        assert os.listdir(made.workspace) == []


async def test_without_approval_a_command_goes_out_and_nobody_is_asked(bench):
    async with bench(leaving("pwd", requireApproval=False)) as made:
        made.workspace.mkdir()
        approver = Says(allowed=False)
        made.desk.attach(approver)
        result = await made.gateway.call(S, "exec", command="pwd")
        assert (result.stdout, result.place.value) == (f"{made.workspace}\n", "host")
        assert approver.asked == []
        intent, _ = await records(made)
        assert (intent["kind"], intent["by"]) == ("intent", "config")


async def test_a_lease_spares_the_question_for_the_very_same_command_alone(bench):
    async with bench(leaving("touch *")) as made:
        made.workspace.mkdir()
        approver = Says(allowed=True, grant="session")
        made.desk.attach(approver)
        for command, sender, asked in (
            ("touch x", None, 1),
            ("touch x", None, 1),
            ("touch  'x'", None, 1),
            ("touch x y", None, 2),
            ("touch x", "mallory", 3),
        ):
            result = await made.gateway.call(S, "exec", {"command": command}, sender=sender)
            assert (result.success, len(approver.asked)) == (True, asked), command
        await made.gateway.call("agent:main:other", "exec", command="touch x")
        assert len(approver.asked) == 4, "another scope asks for itself"
        by = [one["by"] for one in await records(made) if one["kind"] == "intent"]
        assert [one.split()[0] for one in by] == ["test", "lease", "lease", "test", "test", "test"]


async def test_the_caller_is_asked_about_its_own_scope_while_its_call_lasts(bench):
    approver = Says(allowed=True)
    async with bench(leaving("pwd")) as made:
        made.workspace.mkdir()
        attended = Streams(approver=approver)
        assert (await made.gateway.call(S, "exec", {"command": "pwd"}, streams=attended)).place.value == "host"
        assert (await made.gateway.call(S, "exec", command="pwd")).error.code == "approval_denied"
        assert len(approver.asked) == 1


@pytest.mark.parametrize("args", [{"background": True}, {"shell": "x"}, {"cwd": 5}, {"timeout": 0}, {"timeout": 10**9}])
async def test_what_a_host_command_cannot_have_is_refused_before_anybody_is_asked(bench, args):
    async with bench(leaving("pwd")) as made:
        approver = Says(allowed=True)
        made.desk.attach(approver)
        result = await made.gateway.call(S, "exec", {"command": "pwd", **args})
        assert (result.error.code, approver.asked) == ("invalid_arguments", [])


async def test_what_a_program_obeys_may_not_change_between_the_answer_and_the_start(bench):
    class Swaps(Says):
        async def ask(self, request):
            (made.workspace / "Makefile").write_text("all:\n\ttouch evil\n")
            return await super().ask(request)

    async with bench(leaving("make")) as made:
        made.workspace.mkdir()
        (made.workspace / "Makefile").write_text("all:\n\ttouch fine\n")
        made.desk.attach(Swaps(allowed=True, grant="session"))
        result = await made.gateway.call(S, "exec", command="make")
        assert (result.error.code, result.place.value) == ("conflict", "none")
        assert os.listdir(made.workspace) == ["Makefile"]
        approver = Says(allowed=False)
        made.desk.attach(approver)
        await made.gateway.call(S, "exec", command="make")
        assert len(approver.asked) == 1, "the lease was for another Makefile"


async def test_nothing_leaves_while_the_log_cannot_be_written(bench):
    async with bench(leaving("touch *")) as made:
        made.workspace.mkdir()
        made.desk.attach(Says(allowed=True))
        await made.audit.durable()
        log = sqlite3.connect(os.path.join(made.state, FILE_NAME), isolation_level=None)
        log.execute("ALTER TABLE head RENAME TO hidden")
        result = await made.gateway.call(S, "exec", command="touch x")
        assert (result.error.code, result.place.value) == ("internal", "none")
        log.execute("ALTER TABLE hidden RENAME TO head")
        log.close()
        assert os.listdir(made.workspace) == []


async def test_a_host_command_is_refused_as_well(bench):
    async with bench(settings(sandbox='{hostCommands: ["git"], workspace: "rw"}')) as made:
        made.workspace.mkdir()
        assert (await made.gateway.call(S, "exec", command="git status")).error.code == "approval_denied"


async def test_a_private_folder_is_there_before_the_first_command_leaves(bench):
    text = settings('{elevated: {enabled: true, patterns: ["pwd"]}}')
    async with bench(text) as made:
        made.desk.attach(Says(allowed=True))
        result = await made.gateway.call(S, "exec", command="pwd")
        assert result.stdout.startswith(f"{made.state}/sandboxes/")


async def test_a_private_folder_stays_while_a_person_is_asked_and_goes_with_the_answer_if_it_is_empty(bench):
    class Silent:
        async def ask(self, _request):
            await asyncio.Event().wait()

    text = settings('{elevated: {enabled: true, patterns: ["pwd"]}}')
    async with bench(text) as made:
        made.desk.attach(Silent())
        asked = asyncio.create_task(made.gateway.call(S, "exec", command="pwd"))
        (request,) = await until(made.desk.pending)
        (live,) = made.execution.fleet.listed()
        await made.execution.fleet.stop(live.key)
        made.desk.answer(request.id, Answer(allowed=True, by="me"))
        assert (await asked).stdout.startswith(f"{made.state}/sandboxes/")
        assert os.listdir(f"{made.state}/sandboxes") == []


async def test_a_caller_that_leaves_while_an_operator_is_asked_takes_the_question_along(bench):
    class Silent:
        async def ask(self, _request):
            await asyncio.Event().wait()

    async with bench(leaving("touch *")) as made:
        made.workspace.mkdir()
        made.desk.attach(Silent())
        task = asyncio.create_task(made.gateway.call(S, "exec", command="touch x"))
        (request,) = await until(made.desk.pending)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not made.desk.answer(request.id, Answer(allowed=True, by="too late"))
        assert os.listdir(made.workspace) == []
        assert (await records(made))[-1]["error"] == "cancelled"


LOOK_LIKE_PUSHING = [
    "git push; id",
    "git push && id",
    "git push | sh",
    "git push & id",
    "git push $(id)",
    "git push `id`",
    "git push > /etc/passwd",
    "git push <<EOF\nid\nEOF",
    "git push\nid",
    "git push\r\nid",
    "git push \\\n; id",
    "(git push)",
    "X=1 git push",
    "env git push",
    "/usr/bin/git push",
    "./git push",
    "GIT push",
    "g'i't push",
    "\u0261it push",
    "git\u00a0push",
    "git push \u202eniam",
    "git push ~/x",
    "git push *",
    "git push #",
    "git -c core.sshCommand=id push",
]


@pytest.mark.parametrize("command", LOOK_LIKE_PUSHING)
async def test_what_only_looks_like_an_allowed_command_stays_in_and_nobody_is_asked(bench, command):
    async with bench(leaving("git push *"), backend=Scripted(answering)) as made:
        approver = Says(allowed=True)
        made.desk.attach(approver)
        result = await made.gateway.call(S, "exec", command=command)
        assert (result.place.value, result.stdout, approver.asked) == ("sandbox", "fine\n", [])


async def test_the_sender_is_the_doors_word_and_never_an_argument(bench):
    tools = '{elevated: {enabled: true, patterns: ["id"], allowFrom: ["alice"]}}'
    async with bench(settings(tools)) as made:
        # As an argument it names nobody: the call stays in, where the runner knows no such argument.
        claimed = await made.gateway.call(S, "exec", {"command": "id", "sender": "alice"})
        assert (claimed.error.code, claimed.place.value) == ("invalid_arguments", "sandbox")
        assert (await made.gateway.call(S, "exec", {"command": "id"})).error is None
        refused = await made.gateway.call(S, "exec", {"command": "id"}, sender="alice")
        assert refused.error.code == "approval_denied"


async def test_deny_speaks_before_elevation(bench):
    tools = '{deny: ["exec"], elevated: {enabled: true, patterns: ["id"]}}'
    async with bench(settings(tools)) as made:
        assert (await made.gateway.call(S, "exec", command="id")).error.code == "denied"


async def test_on_the_host_nothing_is_elevated(bench):
    tools = '{elevated: {enabled: true, patterns: ["id"]}}'
    async with bench(settings(tools, '{mode: "off"}')) as made:
        assert (await made.gateway.call(S, "exec", command="id")).place.value == "host"


# --- 4: run, host tools -------------------------------------------------------------------------------------------------


EXTRA = settings('{extra: ["greet", "crash"]}')


async def test_host_tools_run_whether_they_can_be_awaited_or_not(bench):
    async def later(name):
        await asyncio.sleep(0)
        return {"greeting": f"hello {name}"}

    async with bench(EXTRA) as made:
        made.gateway.register("Greet ", later)
        result = await made.gateway.call(S, "greet", name="crab")
        assert (result.success, result.data, result.place.value) == (True, {"greeting": "hello crab"}, "host")
        made.gateway.register("greet", lambda name: f"hi {name}")
        assert (await made.gateway.call(S, "GREET", {"name": "crab"})).data == {"value": "hi crab"}
        made.gateway.register("greet", lambda: None)
        assert (await made.gateway.call(S, "greet")).data is None
        made.gateway.register("greet", max)
        assert (await made.gateway.call(S, "greet", name="crab")).error.code == "internal"


@pytest.mark.parametrize("args", [{}, {"nam": "x"}, {"name": "x", "more": 1}, {"": 1}])
async def test_wrong_arguments_of_a_host_tool_are_told_and_it_does_not_run(bench, args):
    ran = []
    async with bench(EXTRA) as made:
        made.gateway.register("greet", lambda name: ran.append(f"hello {name}"))
        result = await made.gateway.call(S, "greet", args)
        assert (result.error.code, result.place.value) == ("invalid_arguments", "none")
        assert ran == []


async def test_arguments_may_have_any_name(bench):
    async with bench(EXTRA) as made:
        made.gateway.register("greet", lambda **given: given)
        given = {"self": 1, "session": 2, "tool": 3, "args": 4, "sender": 5, "streams": 6}
        assert (await made.gateway.call(S, "greet", given)).data == given


@pytest.mark.parametrize("fault", [ValueError("secret"), KeyError("x"), CrabpotError("why"), RecursionError()])
async def test_a_host_tool_that_raises_is_a_result(bench, fault):
    def crash():
        raise fault

    async with bench(EXTRA) as made:
        made.gateway.register("crash", crash)
        result = await made.gateway.call(S, "crash")
        assert (result.error.code, result.place.value) == ("internal", "host")
        assert result.error.message.startswith("crash: ")
        assert [record["kind"] for record in await records(made)] == ["intent", "call"]


async def test_the_record_of_a_host_tool_says_where_it_ran_and_by_which_rule(bench):
    async with bench(EXTRA) as made:
        made.gateway.register("greet", lambda: None)
        await made.gateway.call(S, "greet")
        intent, call = await records(made)
        because = "a host tool runs in the program that registered it"
        assert (call["place"], call["because"]) == ("host", because)
        assert (intent["because"], intent["rule"], call["rule"]) == (
            because,
            'tools.profile "full" (default)',
            intent["rule"],
        )


async def test_a_host_tool_that_is_cancelled_was_on_the_host(bench):
    started = asyncio.Event()

    async def hang():
        started.set()
        await asyncio.Event().wait()

    async with bench(EXTRA) as made:
        made.gateway.register("greet", hang)
        calling = asyncio.ensure_future(made.gateway.call(S, "greet"))
        await started.wait()
        calling.cancel()
        await asyncio.wait([calling])
        assert [record.get("place") for record in await records(made)] == [None, "host"]


async def test_a_host_tool_that_nobody_registered_is_not_found(bench):
    async with bench(EXTRA) as made:
        result = await made.gateway.call(S, "greet", name="x")
        assert (result.error.code, result.place.value) == ("not_found", "none")


async def test_a_registered_tool_passes_the_same_policy(bench):
    ran = []
    async with bench(settings('{extra: ["greet"], deny: ["greet"]}')) as made:
        made.gateway.register("greet", lambda: ran.append(1))
        made.gateway.register("unlisted", lambda: ran.append(1))
        assert (await made.gateway.call(S, "greet")).error.code == "denied"
        assert (await made.gateway.call(S, "unlisted")).error.code == "denied"
        assert ran == []


async def test_a_program_cannot_put_its_own_tool_in_the_place_of_a_built_in_one(bench):
    ran = []
    async with bench() as made:
        made.gateway.register("exec", lambda **_: ran.append(1))
        assert (await made.gateway.call(S, "exec", command="echo real")).stdout == "real\n"
        assert ran == []


# --- timeouts -----------------------------------------------------------------------------------------------------------


async def test_a_time_limit_above_the_ceiling_is_refused_by_the_name_of_the_setting(bench):
    async with bench(settings(sandbox="{limits: {timeCeiling: 100}}")) as made:
        result = await made.gateway.call(S, "exec", command="true", timeout=101)
        assert (result.error.code, result.place.value) == ("invalid_arguments", "none")
        assert "agents.defaults.sandbox.limits.timeCeiling" in result.error.message
        assert made.backend.opened == []
        result = await made.gateway.call(S, "exec", command="true", timeout=10**400)
        assert result.error.code == "invalid_arguments"


async def test_a_runner_that_never_answers_costs_its_sandbox_and_no_other(bench):
    async with bench(backend=Scripted(lambda peer: peer.greet()), grace_s=0.1) as made:
        result = await made.gateway.call(S, "exec", command="true", timeout=0.1)
        assert result.error.code == "sandbox_lost"
        assert "did not end a call" in result.error.message
        made.backend.script = answering
        assert (await made.gateway.call(S, "exec", command="true")).stdout == "fine\n"


async def test_a_hostile_runner_costs_its_sandbox_and_the_gateway_goes_on(bench):
    def script(peer):
        peer.greet()
        peer.take()
        peer.raw(b"\xff" * 100 + b"\n")

    async with bench(backend=Scripted(script)) as made:
        hostile = [made.gateway.call(f"agent:main:{number}", "ls") for number in range(10)]
        for result in await asyncio.gather(*hostile):
            assert result.error.code == "sandbox_lost"
            assert "broke the protocol" in result.error.message
        made.backend.script = answering
        assert (await made.gateway.call(S, "exec", command="true")).success


# --- 5: record ----------------------------------------------------------------------------------------------------------


async def test_a_sandboxed_call_is_recorded_after_it_ended(bench):
    async with bench() as made:
        await made.gateway.call(S, "exec", {"command": "echo hi"}, sender="alice")
        (record,) = await records(made)
        expected = {
            "kind": "call",
            "session": S,
            "agent": "main",
            "sender": "alice",
            "tool": "exec",
            "args": {"command": "echo hi"},
            "place": "sandbox",
            "success": True,
            "exit_code": 0,
            "error": None,
            "because": "every session is sandboxed",
            "rule": "agents.defaults.sandbox.mode",
        }
        assert expected.items() <= record.items()


async def test_a_call_on_the_host_is_recorded_before_and_after(bench):
    async with bench(settings(sandbox='{mode: "off"}')) as made:
        seen = await made.gateway.call(S, "exec", command=f"cat {made.state}/{FILE_NAME}* | strings | grep -c intent")
        assert int(seen.stdout) >= 1, "the intent is on disk while the command runs"
        kinds = [(record["kind"], record.get("place")) for record in await records(made)]
        assert kinds == [("intent", None), ("call", "host")]


async def test_nothing_touches_the_host_while_the_log_cannot_be_written(bench, tmp_path):
    text = settings('{extra: ["greet"]}', '{mode: "off"}')
    ran = []
    async with bench(text) as made:
        made.gateway.register("greet", lambda: ran.append(1))
        await made.audit.durable()
        log = sqlite3.connect(os.path.join(made.state, FILE_NAME), isolation_level=None)
        log.execute("ALTER TABLE head RENAME TO hidden")
        for tool, args in (("exec", {"command": f"touch {tmp_path}/ran"}), ("greet", {})):
            result = await made.gateway.call(S, tool, args)
            assert (result.error.code, result.place.value) == ("internal", "none")
            assert "audit log" in result.error.message
        assert not (tmp_path / "ran").exists()
        assert ran == []
        log.execute("ALTER TABLE hidden RENAME TO head")
        log.close()
        assert (await made.gateway.call(S, "exec", command="echo on")).stdout == "on\n"
        kinds = [record["kind"] for record in await records(made)]
        assert kinds == ["intent", "call", "intent", "call", "intent", "call"]


async def test_what_a_call_carries_is_never_written(bench):
    secret = "hunter2-hunter2"
    async with bench(settings(sandbox='{mode: "off"}')) as made:
        await made.gateway.call(S, "write", path="f", content=secret)
        await made.gateway.call(S, "read", path="f")
        await made.gateway.call(S, "edit", path="f", old=secret, new=secret + "!")
        await made.gateway.call(S, "exec", command="cat", stdin=secret, env={"TOKEN": secret})
        await records(made)
        for name in os.listdir(made.state):
            path = os.path.join(made.state, name)
            if os.path.isfile(path):
                with open(path, "rb") as stream:
                    assert b"hunter2" not in stream.read(), name


async def test_a_caller_that_gives_up_is_recorded_and_leaves_no_process(bench):
    async with bench() as made:
        await made.gateway.call(S, "ls")
        (live,) = made.execution.fleet.listed()
        task = asyncio.create_task(made.gateway.call(S, "exec", command="echo $$ > pid; sleep 1000"))
        pid = os.path.join(live.sandbox.hello["workspace"], "pid")
        await until(lambda: os.path.exists(pid) and os.path.getsize(pid))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with open(pid) as stream:
            assert not os.path.exists(f"/proc/{stream.read().strip()}")
        last = (await records(made))[-1]
        assert (last["error"], last["place"]) == ("cancelled", "sandbox")
        assert (await made.gateway.call(S, "exec", command="echo on")).stdout == "on\n"


async def test_a_reader_that_leaves_ends_the_call_and_gets_its_own_exception(bench):
    fault = BrokenPipeError()

    async def broken(_stream, _data):
        raise fault

    async with bench() as made:
        with pytest.raises(BrokenPipeError) as caught:
            await made.gateway.call(S, "exec", {"command": "yes"}, streams=Streams(sink=broken))
        assert caught.value is fault
        assert (await records(made))[-1]["error"] == "cancelled"


async def test_the_log_has_the_sizes_of_what_was_streamed_and_of_what_was_not(bench):
    taken = []

    async def sink(stream, data):
        taken.append((stream, data))

    async with bench() as made:
        for streams in (Streams(sink=sink), None):
            await made.gateway.call(S, "exec", {"command": "printf täglich; printf no >&2"}, streams=streams)
        await made.gateway.call(S, "write", path="file", content="x" * 1000)
        await made.gateway.call(S, "read", {"path": "file"}, streams=Streams(sink=sink))
        streamed, whole, _, read = await records(made)
        assert streamed["sizes"] == whole["sizes"] == {"stdout": 8, "stderr": 2}
        assert (streamed["digests"], set(whole["digests"])) == ({}, {"stdout", "stderr"})
        assert read["sizes"] == {"stdout": 0, "stderr": 0, "content": 1000}
        assert sum(len(data) for _, data in taken) == 8 + 2 + 1000


async def test_the_log_has_what_was_streamed_before_the_caller_left(bench):
    async def leaves(_stream, _data):
        raise BrokenPipeError

    async with bench() as made:
        with pytest.raises(BrokenPipeError):
            await made.gateway.call(S, "exec", {"command": "printf four; sleep 1000"}, streams=Streams(sink=leaves))
        assert (await records(made))[-1]["sizes"]["stdout"] == 4


async def test_decisions_are_remembered_but_not_for_every_session_ever_seen(bench):
    async with bench(settings('{deny: ["ls"]}')) as made:
        for number in range(6000):
            await made.gateway.call(f"agent:main:{number}", "ls")
        assert made.gateway._cached.cache_info().currsize <= 4096


async def test_a_hundred_first_calls_open_one_sandbox(bench):
    async with bench() as made:
        results = await asyncio.gather(*(made.gateway.call(S, "exec", command="echo x") for _ in range(100)))
        assert all(result.stdout == "x\n" for result in results)
        assert len(made.backend.opened) == 1


async def test_background_processes_are_polled_fed_and_killed_through_the_gateway(bench):
    async with bench() as made:
        started = await made.gateway.call(S, "exec", command="cat; sleep 1000", background=True)
        process = started.data["process"]
        await made.gateway.call(S, "process", action="write", id=process, data="hello\n")
        seen = ""
        for _ in range(200):
            seen += (await made.gateway.call(S, "process", action="poll", id=process)).stdout
            if seen:
                break
        assert seen == "hello\n"
        ended = await made.gateway.call(S, "process", action="kill", id=process)
        assert ended.data["running"] is False


async def test_closing_ends_every_sandbox_even_if_one_of_them_fails_to(bench):
    async with bench() as made:
        await made.gateway.call(S, "ls")
        await made.gateway.close()
        assert AuditReader(made.state).verify()[1] is None
        result = await made.gateway.call(S, "ls")
        assert result.error.code == "sandbox_unavailable"
