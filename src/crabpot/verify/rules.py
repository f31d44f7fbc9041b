"""Attacks on the gateway's own rules: tools by other names, sessions that would be elsewhere, sandboxes that fail."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from crabpot.model import Place
from crabpot.verify import trial
from crabpot.verify.claims import Group, NotCarriedOut, Outcome, few

if TYPE_CHECKING:
    from crabpot.verify.target import Target

arguments, configuration = Group("escape by tool arguments"), Group("escape by configuration")


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
    # From inside, by Crabpot itself: there is none, and no state that it could work on.
    inside = await target.shell("crabpot exec --session agent:main:main -- id; python3 -m crabpot exec -- id")
    outside = [tool for tool, result in results if result.success or result.place is Place.HOST]
    outside += ["crabpot inside"] if "uid=" in inside.stdout else []
    outside += sorted(target.bait.planted() - before)
    told = {f"{tool}: {result.error.code if result.error else 'done'}" for tool, result in results}
    return Outcome(
        held=not outside,
        tried=f"{few(list(tools))}, and Crabpot inside",
        came_back=f"OUT BY: {few(outside)}" if outside else few(sorted(told), 4),
    )
