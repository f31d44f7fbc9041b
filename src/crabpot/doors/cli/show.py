"""Format answers as lines for a person."""

from __future__ import annotations

import os
from typing import IO, TYPE_CHECKING, Any

from crabpot.decide.commands import is_deceptive, name_of
from crabpot.settings import Duration
from crabpot.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from crabpot.decide.check import Finding
    from crabpot.explain import Explainer

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_STATES = {"enforced": "green", "degraded": "yellow", "refused": "red", "violated": "red"}
_REACHED = {"allowed": "green", "asks": "yellow", "refused": "red", "unchecked": "yellow"}
_PLACES = {"host": "yellow", "sandbox": "green", "blocked": "red"}


def wants_colour(stream: IO[str] | None) -> bool:
    """Return whether to use colour: on a terminal, unless the user said not to (no-color.org)."""
    return (
        stream is not None and stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    )


class Pen:
    """Writes text in colour, or plain. The text came from outside: nothing in it may move the cursor."""

    def __init__(self, *, colour: bool) -> None:
        self.colour = colour

    def __call__(self, style: str, text: str) -> str:
        """Return the text, in colour if wanted."""
        return self.painted(style, visible(text))

    def painted(self, style: str, shown: str) -> str:
        """Return text that is safe to show already, in colour if wanted."""
        return f"\x1b[{_CODES[style]}m{shown}\x1b[0m" if self.colour else shown


def visible(text: str) -> str:
    """Return a text with every control, invisible, bidirectional or imitating character shown by number."""
    if text.isascii() and text.isprintable():
        return text
    from crabpot.approvals.display import imitating  # noqa: PLC0415  hardly any text needs it

    return " ".join(_visible_word(word, imitating(word)) for word in text.split(" "))


def _visible_word(word: str, imitators: frozenset[str]) -> str:
    return "".join(f"<{name_of(char)}>" if char in imitators or is_deceptive(char) else char for char in word)


def explanation(answers: list[dict[str, Any]], explainer: Explainer, *, colour: bool) -> Iterator[str]:
    """Return the lines for several sessions; what holds for all of an agent's sessions appears once."""
    pen = Pen(colour=colour)
    agents = list(dict.fromkeys(answer["agent"] for answer in answers))
    for position, agent in enumerate(agents):
        if position:
            yield ""
        if len(agents) > 1:
            yield pen("bold", f"Agent {agent}")
        own = [answer for answer in answers if answer["agent"] == agent]
        yield from _agent(own, explainer, pen)


def _agent(answers: list[dict[str, Any]], explainer: Explainer, pen: Pen) -> Iterator[str]:
    sandbox = answers[0]["sandbox"]
    settings = explainer.settings.agent(answers[0]["agent"])
    rows = (
        ("Sandbox mode:", sandbox["mode"], "sandbox.mode"),
        ("Sandbox scope:", sandbox["scope"], "sandbox.scope"),
        ("Workspace access:", sandbox["workspace"], "sandbox.workspace"),
        *((("Folder inside:", "its own path", "sandbox.workspaceAt"),) if "workspaceAt" in sandbox else ()),
        *((("Home:", sandbox["home"], "sandbox.home"),) if "home" in sandbox else ()),
        ("Network:", _network(sandbox["network"]), "sandbox.network"),
        ("Backend:", settings.sandbox.backend, "sandbox.backend"),
    )
    for label, value, path in rows:
        yield f"{label:<18}{pen('bold', value)}{_because(pen, settings.source(path), 20 - len(value))}"
    yield ""
    for answer in answers:
        yield from _session(answer, pen)
    yield from _elevated(answers, pen)
    kinds = {answer["placement"]["where"]: answer for answer in answers}
    differ = len({str(answer["tools"]) for answer in kinds.values()}) > 1
    for where, answer in kinds.items() if differ else [("", answers[0])]:
        yield from _tools(answer, settings.source("tools.profile"), pen, only=where)
    yield from _servers(answers[0].get("servers", []), pen)
    yield from _clauses(answers, pen)
    yield from _live(answers, pen)
    yield from _warnings(answers[0]["warnings"], pen)


def _servers(rows: list[dict[str, Any]], pen: Pen) -> Iterator[str]:
    """Return where the tools of MCP servers run, and which are offered."""
    for position, row in enumerate(rows):
        if not position:
            yield ""
            yield "MCP servers:"
        where = pen("green" if row["where"] == "sandbox" else "yellow", row["where"].upper())
        yield f"  {row['server']} → {where} ({visible(row['because'])}){_because(pen, row['source'])}"
        tools = visible(", ".join(row["effective"])) or "none"
        yield f"    network {visible(_network(row['network']))}; tools: {tools}"
        for tool, rule in row["denied"].items():
            yield f"    {pen('red', 'denied')}  {visible(tool)}  {visible(rule)}"
        for tool, why in row["withheld"].items():
            yield f"    {pen('yellow', 'withheld')}  {visible(tool)}  {visible(why)}"


def _clauses(answers: list[dict[str, Any]], pen: Pen) -> Iterator[str]:
    """Return the clauses on this machine, once for each backend: an agent's sandboxes differ only in name."""
    tables = {
        answer["sandbox"]["backend"]: answer["sandbox"]["clauses"] for answer in answers if answer["sandbox"]["name"]
    }
    guards: list[dict[str, Any]] = next(
        (answer["elevated"]["clauses"] for answer in answers if answer["elevated"]["clauses"]), []
    )
    tables["what leaves for the host"] = guards
    for backend, clauses in tables.items():
        if not clauses:
            continue
        yield ""
        yield f"Promises on this machine ({backend}):"
        width = max(len(clause["name"]) for clause in clauses)
        for clause in clauses:
            state = pen(_STATES[clause["state"]], f"{clause['state']:<8}")
            yield f"  {state}  {clause['name']:<{width}}  {visible(clause['how'])}"


def _live(answers: list[dict[str, Any]], pen: Pen) -> Iterator[str]:
    """Return the kernel's facts about live sandboxes, if asked for."""
    for answer in answers:
        live = answer.get("live")
        if live is None:
            continue
        yield ""
        digest = live.get("digest")
        yield f'Live facts of "{visible(answer["session"])}"{f" (digest {digest[:16]})" if digest else ""}:'
        if "error" in live:
            yield f"  {pen('red', 'none')}  {visible(live['error'])}"
            continue
        width = max(len(fact["clause"]) for fact in live["facts"])
        for fact in live["facts"]:
            state = pen(_STATES[fact["state"]], f"{fact['state']:<8}")
            found = fact["found"] if fact["state"] == "enforced" else f"{fact['found']} (promised: {fact['promised']})"
            yield f"  {state}  {fact['clause']:<{width}}  {visible(fact['what'])}: {visible(found)}"


def _because(pen: Pen, source: str, pad: int = 0) -> str:
    return " " * max(pad, 1) + pen("dim", f"because {source}")


def _network(network: str | dict[str, Any]) -> str:
    if isinstance(network, str):
        return network
    places = [*network["allow"], *(f"{place} (unread)" for place in network.get("raw", ()))]
    return f"only {', '.join(places) or 'nothing'}"


def _session(answer: dict[str, Any], pen: Pen) -> Iterator[str]:
    placement, sandbox = answer["placement"], answer["sandbox"]
    where = pen(_PLACES[placement["where"]], placement["where"].upper())
    reason = f"({placement['because']})"
    yield f'Session "{visible(answer["session"])}" → {where} {reason}{_because(pen, placement["source"])}'
    if sandbox["name"]:
        yield f"  {pen('dim', sandbox['name'])} {pen('dim', 'spec ' + sandbox['hash'][:12])}"
    command = answer["command"]
    if command:
        words = "(not one simple command)" if command["argv"] is None else " ".join(map(repr, command["argv"]))
        approval = " (with approval)" if command["approval"] else ""
        approval += _CONFINED.get(command["confine"], "")
        yield f"  Command {visible(words)} → {pen(_PLACES[command['where']], command['where'])}{approval}"
        yield f"    {pen('dim', 'because ' + command['because'])}"
    connect = answer.get("connect")
    if connect:
        yield f"  Connection {visible(connect['place'])} → {pen(_REACHED[connect['answer']], connect['answer'])}"
        yield f"    {pen('dim', 'because ' + connect['because'])}"


# The default is not shown.
_CONFINED = {"guarded": "", "host": ", UNCONFINED", "user": ", as another user"}


def _elevated(answers: list[dict[str, Any]], pen: Pen) -> Iterator[str]:
    best: dict[str, dict[str, Any]] = {}
    for answer in answers:
        for row in answer["elevated"]["patterns"]:
            if row["pattern"] not in best or row["reachable"]:
                best[row["pattern"]] = row
    yield ""
    yield "Elevated patterns:"
    if not best:
        yield "  none"
    width = max(map(len, best), default=0)
    for pattern, row in best.items():
        how = "with approval" if row["approval"] else "WITHOUT approval"
        place = f"host ({how}){_CONFINED[row['confine']]}" if row["reachable"] else "unreachable"
        yield f"  {visible(pattern):<{width}} → {pen('yellow' if row['reachable'] else 'dim', place)}"


def _tools(answer: dict[str, Any], source: str, pen: Pen, *, only: str) -> Iterator[str]:
    tools = answer["tools"]
    yield ""
    yield f"Tool policy{f' ({only})' if only else ''}:"
    profile = tools["profile"] or "none (allow is the whole set)"
    yield f"  Profile: {pen('bold', profile)}{_because(pen, source)}"
    yield f"  Denied: {'' if tools['denied'] else 'none'}".rstrip()
    for rule in dict.fromkeys(tools["denied"].values()):
        names = ", ".join(name for name, by in tools["denied"].items() if by == rule)
        yield f"    {visible(names)}{_because(pen, rule)}"
    yield f"  Effective tools: {pen('cyan', ', '.join(tools['effective']) or 'none')}"


def _warnings(warnings: Iterable[str], pen: Pen) -> Iterator[str]:
    for position, warning in enumerate(warnings):
        if not position:
            yield ""
            yield "Warnings:"
        yield f"  {pen('yellow', '!')} {visible(warning)}"


def findings(found: list[Finding], file: str | None, *, colour: bool) -> Iterator[str]:
    """Return the lines for the findings of `check`."""
    pen = Pen(colour=colour)
    for finding in found:
        style = "red" if finding.severity == "error" else "yellow"
        yield f"{pen(style, finding.severity)}: {pen('bold', finding.path)}: {visible(finding.message)}"
        yield f"  {pen('dim', 'fix:')} {visible(finding.fix)}"
    errors = sum(finding.severity == "error" for finding in found)
    totals = f"{counted(errors, 'error')}, {counted(len(found) - errors, 'warning')}"
    yield f"{file or 'the defaults (no configuration file)'}: {totals}"


def gateway(found: Mapping[str, Any]) -> str:
    """Describe the gateway that serves a state folder."""
    lingers = found["lingers_s"]
    if lingers is None:
        return f"gateway {found['pid']} serves until crabpot serve stop"
    return f"gateway {found['pid']} lingers: idle for {found['idle_s']:.0f} s, ends after {Duration(lingers).written()}"
