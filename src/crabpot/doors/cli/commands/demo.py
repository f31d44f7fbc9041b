"""`demo`: a live tour on the embedded backend. An agent's session, the three questions, and a dozen attacks."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tempfile
import textwrap
import time
from typing import TYPE_CHECKING, Any

from crabpot import app
from crabpot.doors.cli.frame import FAILED, OK
from crabpot.doors.cli.show import visible, wants_colour
from crabpot.proof.verify.run import targets, verify

if TYPE_CHECKING:
    from argparse import Namespace

    from crabpot.doors.cli.frame import Frame
    from crabpot.gateway import Gateway
    from crabpot.model import ToolResult
    from crabpot.proof.verify.claims import Finding
    from crabpot.proof.verify.target import Target

_SESSION = "agent:main:demo"
_CONFIG: dict[str, Any] = {
    "agents": {"defaults": {"sandbox": {"backend": "bubblewrap", "limits": {"pids": 64, "output": "256k"}}}},
    "tools": {"profile": "coding", "deny": ["browser"], "elevated": {"enabled": True, "patterns": ["git push *"]}},
}

_SCRIPT = """\
def primes(limit):
    found = []
    for n in range(2, limit):
        if all(n % p for p in found):
            found.append(n)
    return found


print(*primes(30))
"""
_SERVER = (
    'exec python3 -I -c \'import http.server as h; s = h.HTTPServer(("127.0.0.1", 8000), h.SimpleHTTPRequestHandler); '
    'print("listening on port 8000", flush=True); s.serve_forever()\''
)
_FETCH = "python3 -I -c \"import urllib.request as u; print(u.urlopen('http://127.0.0.1:8000/primes.py').status)\""

_ATTACKS = (
    "cannot_read_a_file_of_the_host",
    "cannot_write_to_the_system",
    "cannot_see_the_hosts_processes",
    "cannot_take_the_runners_end_of_the_wire",
    "finds_only_the_promised_environment",
    "is_not_root_on_the_host_either",
    "cannot_make_a_namespace_of_its_own",
    "cannot_make_a_system_call_by_another_entry",
    "has_no_way_to_the_world",
    "cannot_reach_a_socket_file_of_the_host",
    "harms_nobody_by_a_fork_bomb",
    "cannot_flood_the_gateway_with_output",
    "cannot_win_a_race_against_the_file_tools",
)

_NEXT = {
    "crabpot exec -- COMMAND": "runs a command of yours inside",
    "crabpot shell": "opens a shell there",
    "crabpot explain": "says what a session may do, and why",
    "crabpot init": "writes a configuration to start from",
}

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_WIDEST, _NARROWEST, _ASKED = 120, 60, 26


def demo(_frame: Frame, _options: Namespace) -> int:
    """Run the tour on its own state folder; return 1 if there is no sandbox, or an attack succeeds."""
    with tempfile.TemporaryDirectory(prefix="crabpot-demo-") as folder:
        if os.geteuid() == 0:
            os.chmod(folder, 0o711)  # noqa: S103  a sandbox started by root runs as another user, who must get through
        return asyncio.run(_tour(_Stage(), folder))


class _Stage:
    """Prints lines. Nothing from inside may move the cursor."""

    def __init__(self) -> None:
        self._colour = wants_colour(sys.stdout)
        self.width = max(_NARROWEST, min(shutil.get_terminal_size().columns, _WIDEST))

    def say(self, *parts: str) -> None:
        print("".join(parts), flush=True)

    def paint(self, style: str, text: str) -> str:
        shown = visible(text)
        return f"\x1b[{_CODES[style]}m{shown}\x1b[0m" if self._colour else shown

    def heading(self, title: str, text: str) -> None:
        self.say("\n", self.paint("bold", title))
        for line in textwrap.wrap(text, self.width - 2):
            self.say("  ", self.paint("dim", line))

    def row(self, tool: str, what: str, answer: str, duration_ms: float) -> None:
        """Show one call: what was asked, what came back, how long it took."""
        took = self.paint("dim", f"{duration_ms:6.1f} ms")
        asked = f"{_clipped(what, _ASKED):<{_ASKED}}"
        answer = _clipped(answer, self.width - _ASKED - 24)
        self.say(f"  {self.paint('cyan', f'{tool:<8}')} {visible(asked)} {took}  {visible(answer)}")

    def note(self, style: str, label: str, text: str) -> None:
        """Show a long answer below its row."""
        lines = textwrap.wrap(visible(text), self.width - 19, max_lines=3, placeholder=" …", break_on_hyphens=False)
        for number, line in enumerate(lines):
            self.say("         ", self.paint(style, f"{'' if number else label:<9}"), line)


def _clipped(text: str, width: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= width else f"{line[: width - 1]}…"


async def _tour(stage: _Stage, folder: str) -> int:
    config = {**_CONFIG, "agents": {"defaults": {**_CONFIG["agents"]["defaults"], "workspace": f"{folder}/agent"}}}
    text = json.dumps(config)

    def open_gateway() -> Gateway:
        return app.start(config=None, state=f"{folder}/state", environ=os.environ).gateway(text)

    began = time.monotonic()
    stage.say(stage.paint("bold", "Crabpot keeps an AI agent's tool calls inside a pot. Here is one, live."))
    async with targets(open_gateway) as target:
        opened = await target.gateway.call(_SESSION, "exec", command="true")
        if opened.error is not None:
            _advise(stage, opened.error.message)
            return FAILED
        await _at_work(stage, target.gateway, opened)
        await _three_questions(stage, target.gateway)
        failed = await _attacks(stage, target)
    took = time.monotonic() - began
    verdict = f"These did NOT hold: {'; '.join(failed)}" if failed else f"All {len(_ATTACKS)} attacks stayed inside"
    stage.say("\n", stage.paint("red" if failed else "green", f"{verdict}. {took:.0f} s, and nothing is left of it."))
    for command, what in _NEXT.items():
        stage.say(f"  {stage.paint('cyan', f'{command:<24}')} {what}")
    return FAILED if failed else OK


def _advise(stage: _Stage, reason: str) -> None:
    stage.say("\n", stage.paint("red", "This machine does not let Crabpot make a sandbox yet, so nothing was run."))
    for line in textwrap.wrap(reason, stage.width - 2):
        stage.say("  ", visible(line))
    stage.say("Fix that and try again; nothing ever runs without a sandbox instead.")


async def _at_work(stage: _Stage, gateway: Gateway, opened: ToolResult) -> None:
    stage.heading("1. An agent at work", "A sandbox opens at the first call, and later calls find it warm.")
    stage.row("exec", "true", "a sandbox was opened for it", opened.duration_ms)

    async def show(tool: str, what: str, **args: Any) -> ToolResult:
        result = await gateway.call(_SESSION, tool, args)
        stage.row(tool, what, _answer(tool, result), result.duration_ms)
        return result

    await show("write", "primes.py", path="primes.py", content=_SCRIPT)
    await show("exec", "python3 primes.py", command="python3 primes.py")
    await show("grep", "primes(30)", pattern=r"primes\(30\)")
    await show("edit", "primes.py: 30 → 60", path="primes.py", old="primes(30)", new="primes(60)")
    await show("exec", "python3 primes.py", command="python3 primes.py")
    started = await show("exec", "a server in the background", command=_SERVER, background=True)
    process = str((started.data or {}).get("process"))
    for _ in range(100):
        polled = await gateway.call(_SESSION, "process", action="poll", id=process)
        if polled.stdout or not polled.success:
            break
        await asyncio.sleep(0.05)
    stage.row("process", f"poll {process}", _answer("process", polled), polled.duration_ms)
    await show("exec", "fetch a page from it", command=_FETCH)
    await show("process", f"kill {process}", action="kill", id=process)


def _answer(tool: str, result: ToolResult) -> str:
    """Return a short form of a result."""
    if result.error is not None:
        return f"{result.error.code}: {result.error.message}"
    data = result.data or {}
    if tool == "grep":
        return "; ".join(f"{one['path']}:{one['line']}: {one['text']}" for one in data["matches"])
    if tool == "process" and not result.stdout:
        return "running" if data["running"] else f"ended with {data['exit_code']}"
    return result.stdout or ", ".join(f"{key} {value}" for key, value in data.items()) or "done"


_COMMITTED = (
    "git init -q -b main . && git remote add origin ssh://git@example.com/project.git"
    " && git -c user.name=agent -c user.email=agent@example.com commit -q --allow-empty -m first"
)


async def _three_questions(stage: _Stage, gateway: Gateway) -> None:
    stage.heading(
        "2. The three questions", "Asked of every call, in this order, and answered with the rule that decides."
    )
    which = await gateway.call(_SESSION, "browser", url="https://example.com")
    where = await gateway.call(_SESSION, "exec", command="id -un; pwd; hostname")
    chained = await gateway.call(_SESSION, "exec", command="git push origin main; id -un")
    # There must be something to push, and a remote: the person who would be asked is shown both.
    await gateway.call(_SESSION, "exec", command=_COMMITTED)
    alone = await gateway.call(_SESSION, "exec", command="git push origin main")
    rows = (
        ("WHICH", "browser https://example.com", which),
        ("WHERE", "id -un; pwd; hostname", where),
        ("WHEN", "git push origin main; id -un", chained),
        ("WHEN", "git push origin main", alone),
    )
    for question, what, result in rows:
        said = result.error.message if result.error else " ".join(result.stdout.split())
        style, label = ("yellow", "blocked") if result.error else ("green", "inside")
        stage.say(f"  {stage.paint('bold', f'{question:<8}')} {visible(what)}")
        stage.note(style, label, said)


async def _attacks(stage: _Stage, target: Target) -> list[str]:
    story = "Hostile programs inside try to get out, and bait lies on the host. What came back is the kernel's word."
    stage.heading("3. Attacks", story)

    def show(finding: Finding) -> None:
        details = finding.as_json()
        style = "red" if finding.failed else "green"
        mark = {"held": "held", "degraded": "in part", "broken": "BROKEN", "error": "NOT RUN"}[finding.state]
        stage.say(f"  {stage.paint(style, f'{mark:<8}')} {stage.paint('bold', finding.claim.text)}")
        if details["tried"]:
            stage.note("dim", "tried", details["tried"])
        stage.note("dim", "got", details["came_back"])

    findings = await verify(target, only=_ATTACKS, progress=show)
    return [finding.claim.text for finding in findings if finding.failed]
