"""`run`: a whole agent in the pot, in the folder where the person stands."""

from __future__ import annotations

import contextlib
import os
import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from crabpot.decide import placement, sessions
from crabpot.doors import ports, sandboxes
from crabpot.doors.cli import aftermath, introduction
from crabpot.doors.cli.commands.exec import exit_code, finished
from crabpot.doors.cli.frame import UsageError, complain, note
from crabpot.doors.cli.show import visible
from crabpot.doors.cli.terminal import raw_mode
from crabpot.doors.cli.terminal.bell import Bell
from crabpot.doors.cli.terminal.console import Console
from crabpot.doors.cli.terminal.prompt import Notice
from crabpot.doors.local.server import serve_beside
from crabpot.errors import CrabpotError, LayerBusy, LayerError
from crabpot.host_commands.git import identity
from crabpot.host_commands.review.holding import OwnSandboxes
from crabpot.layers.content import is_empty
from crabpot.layers.store import LayerStore
from crabpot.presets import plan as plans
from crabpot.presets import preset as presets
from crabpot.presets import programs
from crabpot.sandboxes.streams import Streams
from crabpot.settings import TRUSTED_PATH

if TYPE_CHECKING:
    from argparse import Namespace

    from crabpot.app import App
    from crabpot.doors.cli.frame import Frame
    from crabpot.gateway import Gateway
    from crabpot.presets.plan import RunPlan, Way

_SEED_S = 60.0
_PASSED = ("COLORTERM", "LANG", "LC_ALL", "LC_CTYPE", "TZ")


def run(frame: Frame, options: Namespace) -> int:
    """Run an agent program in a sandbox over a folder; its exit code is ours."""
    words = options.agent[1:] if options.agent[:1] == ["--"] else options.agent
    if not words:
        raise UsageError(f"run needs an agent, as in: crabpot run claude. Presets: {', '.join(presets.names(None))}")
    app = frame.app()
    plan = _plan(app, words[0], tuple(words[1:]), options)
    if plan.way == "review":
        _check_layer(app.around.state, plan, goes_on=options.goes_on)
    elif options.goes_on:
        raise UsageError("--continue goes on with changes under review; it does not go with --direct or --private")
    attended = _attended()
    since = aftermath.last_record(app.around.state)
    commits: list[dict[str, Any]] = []
    code = finished(_run(app, plan, commits, attended=attended))
    if not aftermath.report(plan, app.around.state, since, commits):
        return code
    if attended:
        from crabpot.doors.cli.main import invoke  # noqa: PLC0415  it imports this module by name

        own = [] if app.config is None else ["--config", app.config]
        aftermath.decide(plan, lambda words: invoke([*own, "--state", app.around.state, "changes", *words]))
    else:
        aftermath.remind(plan)
    return code


def _attended() -> bool:
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))


def _plan(app: App, name: str, arguments: tuple[str, ...], options: Namespace) -> RunPlan:
    around, environ = app.around, app.environ
    folder = os.path.realpath(options.folder or os.getcwd())
    if not os.path.isdir(folder):
        raise UsageError(f"--in {options.folder}: there is no such folder")
    if wrong := plans.folder_problem(folder, around):
        raise UsageError(wrong)
    way: Way = "direct" if options.direct else "private" if options.private else "review"
    preset = presets.find(os.path.basename(name), _own_presets(app))
    wanted = name if preset is None or "/" in name else preset.program
    program = programs.find(
        wanted, environ.get("PATH", TRUSTED_PATH), around.home, "" if preset is None else preset.install
    )
    wishes = plans.Wishes(
        folder=folder,
        way=way,
        arguments=arguments,
        allow=tuple(options.allow),
        ask=options.ask,
        ports=tuple(options.port),
        env=(*options.env, *(name for name in _PASSED if name in environ)),
        secrets=tuple(options.secret),
        home=options.home,
    )
    return plans.make(os.path.basename(name), preset, program=program, wishes=wishes, around=around, environ=environ)


def _own_presets(app: App) -> str | None:
    """Return the folder of the user's own presets, beside the configuration."""
    if app.config is not None:
        return os.path.join(os.path.dirname(os.path.abspath(app.config)), "presets")
    base = app.environ.get("XDG_CONFIG_HOME") or os.path.join(app.around.home, ".config")
    return os.path.join(base, "crabpot", "presets")


def _check_layer(state: str, plan: RunPlan, *, goes_on: bool) -> None:
    """Refuse a second run in one folder, and a new run over changes that nobody has decided about."""
    store = LayerStore(state)
    layer = store.find(plan.session)
    if layer is None:
        if goes_on:
            raise LayerError(f"there is nothing to continue in {plan.folder}: no earlier run left changes there")
        return
    try:
        os.close(store.lock(layer))
    except LayerBusy:
        raise LayerBusy(f"another run is going on in {plan.folder}: wait for its end, or use another folder") from None
    if goes_on or is_empty(layer):
        return
    what = f"crabpot changes diff|apply|discard --session {plan.session}"
    raise LayerError(f"an earlier run left changes in {plan.folder}: go on with --continue, or decide: {what}")


async def _run(app: App, plan: RunPlan, commits: list[dict[str, Any]], *, attended: bool) -> int:
    settings = plans.settings_for(plan, app.settings())
    agent = settings.entries[plans.AGENT]
    who = await _identity(app)
    if who:
        sandbox = replace(agent.sandbox, env={**who, **agent.sandbox.env})
        settings = replace(settings, entries={**settings.entries, plans.AGENT: replace(agent, sandbox=sandbox)})
    gateway = app.gateway(settings=settings)
    gateway.desk.ends_with = "this run"
    try:
        detach = gateway.desk.attach(Bell() if attended else Notice(app.around.state))
        try:
            await _seed(gateway, plan)
            for text in (*await introduction.lines(app, plan, settings), *await _ports(gateway, plan)):
                note(text)
            async with serve_beside(gateway, app.around.state, partial(_inquire, gateway)):
                code = await _attach(gateway, plan, attended=attended)
                commits += await _commits(gateway, plan)
                return code
        finally:
            detach()
    finally:
        await gateway.close()


async def _commits(gateway: Gateway, plan: RunPlan) -> list[dict[str, Any]]:
    """Return what the agent committed, while there is a sandbox whose git can tell."""
    layer = LayerStore(gateway.execution.around.state).find(plan.session) if plan.way == "review" else None
    if layer is None:
        return []
    with contextlib.suppress(CrabpotError):
        return await OwnSandboxes(settings=gateway.settings, execution=gateway.execution).commits(layer)
    return []


async def _inquire(gateway: Gateway, name: str, args: dict[str, Any]) -> Any:
    """Answer what the same user's other programs ask of this run."""
    if name == "live":
        return sandboxes.live(gateway)
    if name == "ports":
        return await ports.answer(gateway, args)
    raise CrabpotError(f"a run answers no {name!r}")


async def _identity(app: App) -> dict[str, str]:
    """Return the person's name and address for commits, and none of the person's credentials."""
    path = app.environ.get("PATH", TRUSTED_PATH)
    with contextlib.suppress(Exception):
        found = await identity.variables({"PATH": path}, app.around.home)
        return {name: value for name, value in found.items() if name.startswith(("GIT_AUTHOR_", "GIT_COMMITTER_"))}
    return {}


async def _ports(gateway: Gateway, plan: RunPlan) -> list[str]:
    """Open the sandbox, and return where its ports are on this machine."""
    if not plan.agent.sandbox.ports:
        return []
    agent = gateway.settings.agent(plans.AGENT)
    placed = placement.decide(sessions.parse(plan.session), agent).answer
    live = await gateway.execution.acquire(agent, placed)
    opened = {} if live.ports is None else live.ports.opened
    return [f"port {inside} inside: http://127.0.0.1:{outside}" for inside, outside in opened.items()]


async def _seed(gateway: Gateway, plan: RunPlan) -> None:
    """Write what a new home begins with, from inside, as the agent's own user; what is there is left alone."""
    for path, text in plan.seed.items():
        inside = f"/home/agent/{path}"
        found = await gateway.call(plan.session, "read", {"path": inside, "limit": 1, "timeout": _SEED_S})
        if found.error is not None and found.error.code == "not_found":
            await gateway.call(plan.session, "write", {"path": inside, "content": text, "timeout": _SEED_S})


async def _attach(gateway: Gateway, plan: RunPlan, *, attended: bool) -> int:
    args: dict[str, Any] = {"command": list(plan.argv)}
    with raw_mode.taken(wanted=attended) as size:
        if size is not None:
            args |= {"tty": {"rows": size[0], "cols": size[1]}, "env": raw_mode.kind()}
        console = Console()

        async def show(stream: str, data: bytes) -> None:
            # A terminal has one stream. What comes beside it is ours, in the agent's picture, and is told at the end.
            if stream == "stdout":
                await console.write(stream, data)

        streams = Streams(
            source=console.read(),
            sink=console.write if size is None else show,
            resizes=raw_mode.resizes() if size is not None else None,
        )
        try:
            result = await gateway.call(plan.session, "exec", args, streams=streams)
        finally:
            console.leave()
    if result.error is not None:
        complain(visible(f"{result.error.code}: {result.error.message}"))
    return exit_code(result)
