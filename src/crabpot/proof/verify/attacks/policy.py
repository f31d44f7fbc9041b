"""Attacks on the gateway's own rules: tools by other names, sessions placed elsewhere, sandboxes that fail."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from crabpot.model import Place
from crabpot.proof.verify import trial
from crabpot.proof.verify.claims import Group, NotCarriedOut, Outcome, few

if TYPE_CHECKING:
    from crabpot.proof.verify.target import Target

arguments, configuration = Group("escape by tool arguments"), Group("escape by configuration")
resources = Group("resources")


@configuration.about("sandbox", "image", threats=("failed-set-up",))
async def runs_nothing_when_its_sandbox_cannot_be_made(target: Target) -> Outcome:
    """An agent whose sandbox failed to start went on without one: here the call fails, and that is all."""
    before = target.bait.planted()
    command = f"echo ran > {target.bait.open_folder}/ran-without-a-sandbox"
    results = {
        "exec": await target.gateway.call(trial.UNMAKEABLE, "exec", command=command),
        "write": await target.gateway.call(
            trial.UNMAKEABLE, "write", path=f"{target.bait.open_folder}/written", content="x"
        ),
    }
    appeared = target.bait.planted() - before
    codes = {tool: result.error.code if result.error else "no error" for tool, result in results.items()}
    return Outcome(
        held=not appeared and set(codes.values()) == {"sandbox_unavailable"},
        tried="two calls of an agent one of whose binds does not exist",
        came_back=f"{', '.join(f'{tool}: {code}' for tool, code in codes.items())}; "
        f"{f'{few(sorted(appeared))} APPEARED' if appeared else 'nothing ran'}",
    )


@arguments.about("sandbox", threats=("one-gateway",))
async def cannot_use_a_denied_tool_by_another_name(target: Target) -> Outcome:
    """Another case, an alias, a space or an invisible letter, and a tool that does the same under another name."""
    names = (
        "exec",
        "EXEC",
        "Exec",
        " exec",
        "exec ",
        "exec\n",
        "bash",
        "Bash",
        "BASH ",
        "process",
        "ｅｘｅｃ",
        "exec\u200b",
    )
    writing = ("write", "Write", "apply_patch", "apply-patch", "APPLY_PATCH", " apply-patch ")
    patch = "*** Begin Patch\n*** Add File: x\n+x\n*** End Patch"
    calls = [(name, {"command": "id"}) for name in names]
    calls += [(name, {"path": "x", "content": "x", "patch": patch}) for name in writing]
    used: list[str] = []
    codes: dict[str, list[str]] = {}
    for name, args in calls:
        result = await target.gateway.call(trial.DENIED, name, args)
        code = result.error.code if result.error else "no error"
        codes.setdefault(code, []).append(ascii(name))
        if result.success or result.place is not Place.NONE:
            used.append(ascii(name))
    if "denied" not in codes:
        raise NotCarriedOut(f"nothing was denied, so no rule was tried: {json.dumps(codes)}")
    return Outcome(
        held=not used,
        tried=few([ascii(name) for name, _ in calls]),
        came_back=f"USED: {few(used)}" if used else "; ".join(f"{code} ({few(who, 4)})" for code, who in codes.items()),
    )


@arguments.about("sandbox", threats=("child-on-the-host", "one-gateway"))
async def cannot_start_anything_that_is_less_confined(target: Target) -> Outcome:
    """CVE-2026-32048: a sandboxed session asked for a child session, and got one on the host."""
    before = target.bait.planted()
    command = f"echo ran > {target.bait.open_folder}/child"
    args = {"command": command, "session": "agent:main:main", "sandbox": "off", "prompt": command, "host": True}
    tools = ("sessions_spawn", "sessions_send", "cron", "gateway", "spawn", "host", "elevate", "sudo", "call", "shell")
    results = [(tool, await target.call(tool, **args)) for tool in tools]
    # From inside, by Crabpot itself: it is not there, nor any state that it could work on.
    inside = await target.shell("crabpot exec --session agent:main:main -- id; python3 -m crabpot exec -- id")
    outside = [tool for tool, result in results if result.success or result.place is Place.HOST]
    outside += ["crabpot inside"] if "uid=" in inside.stdout else []
    outside += sorted(target.bait.planted() - before)
    found = {f"{tool}: {result.error.code if result.error else 'done'}" for tool, result in results}
    return Outcome(
        held=not outside,
        tried=f"{few(list(tools))}, and Crabpot inside",
        came_back=f"OUT BY: {few(outside)}" if outside else few(sorted(found), 4),
    )


@arguments.about("sandbox", threats=("malformed-key", "one-gateway"))
async def cannot_act_as_another_agent_by_a_key_that_names_none(target: Target) -> Outcome:
    """`agent:denied:` matches, as text, what was granted for `agent:denied:*`, and then ran as the default agent."""
    keys = (
        "agent:denied:",
        "agent:denied",
        "agent:",
        "agent::x",
        "agent:denied\n:x",
        "agent: denied:x",
        "agent:deni\u0435d:x",
    )
    results = [(key, await target.gateway.call(key, "exec", command="id")) for key in keys]
    acted = [ascii(key) for key, result in results if result.success or result.place is not Place.NONE]
    codes = sorted({result.error.code if result.error else "no error" for _, result in results})
    return Outcome(
        held=not acted and codes == ["invalid_arguments"],
        tried=few([ascii(key) for key in keys]),
        came_back=f"ACTED BY: {few(acted)}" if acted else few(codes),
    )


@arguments.about("sandbox", threats=("token-on-the-host", "child-on-the-host"))
async def is_not_placed_on_the_host_by_a_token_that_was_not_made_for_it(target: Target) -> Outcome:
    """An agent's token reached a session that the configuration places on the host, and so was the gateway's user."""
    before = target.bait.planted()
    command = f"echo ran > {target.bait.open_folder}/by-a-token"
    calls = {"exec": {"command": command}, "write": {"path": "by-a-token", "content": "x"}, "ls": {}}
    results = [
        (tool, await target.gateway.call(trial.ON_HOST, tool, args, host_allowed=False)) for tool, args in calls.items()
    ]
    out = [tool for tool, result in results if result.success or result.place is not Place.NONE]
    out += sorted(target.bait.planted() - before) + list(target.gateway.tools(trial.ON_HOST, host_allowed=False))
    codes = sorted({result.error.code if result.error else "no error" for _, result in results})
    return Outcome(
        held=not out and codes == ["denied"],
        tried=f"{few(list(calls))}, and a list of the tools, in a session that is on the host",
        came_back=f"ON THE HOST BY: {few(out)}" if out else f"{few(codes)}; no tool is listed",
    )


@resources.about(threats=("session-flood", "exhaustion"))
async def cannot_open_more_sandboxes_than_an_agent_may_have(target: Target) -> Outcome:
    """Whoever chooses session names chose sixty, and had sixty sandboxes."""
    most = target.gateway.settings.gateway.max_sandboxes_per_agent
    sessions = [f"agent:{target.agent.id}:flood-{number}" for number in range(most + 3)]
    fleet = target.gateway.execution.fleet
    seen = 0
    try:
        for session in sessions:
            result = await target.gateway.call(session, "exec", command="true")
            if result.error is not None and result.error.code != "sandbox_unavailable":
                raise NotCarriedOut(f"{session}: {result.error.message}")
            seen = max(seen, sum(one.agent == target.agent.id for one in fleet.listed()))
        neighbour = await target.other.answers()
    finally:
        for session in sessions:
            await fleet.stop((Place.SANDBOX, session))
    return Outcome(
        held=seen <= most and neighbour,
        tried=f"{len(sessions)} sessions of an agent that may have {most} sandboxes",
        came_back=f"{seen} lived at once; neighbour {'answered' if neighbour else 'DID NOT ANSWER'}",
    )
