"""Read the configuration into settings, or raise one error that lists every problem."""

from __future__ import annotations

import errno
import os
from dataclasses import field, replace
from typing import TYPE_CHECKING

from crabpot.config import problems
from crabpot.config.dialects import DialectProblem, translate
from crabpot.config.document import Array, Object, SyntaxProblem, Value, is_null, line_of
from crabpot.config.merge import merge, places
from crabpot.config.reading import parse
from crabpot.config.schema import File, read
from crabpot.decide import servers
from crabpot.decide.sessions import is_agent_id
from crabpot.errors import ConfigError, Problem
from crabpot.frozen import dataclass
from crabpot.settings import (
    DEFAULT_WORKSPACE,
    AgentSettings,
    Audit,
    Gateway,
    Runner,
    Sandbox,
    Settings,
    Tools,
)
from crabpot.spec import binds, build, grants
from crabpot.state.untrusted import read_regular

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from crabpot.spec.binds import Surroundings

MAX_BYTES = 1024**2
MAX_PROBLEMS = 20
MAX_LINKS = 40

_UNFIT = {
    errno.EINVAL: "is not a regular file",
    errno.EFBIG: "is larger than 1 MiB; no configuration needs that",
}

EMPTY_ALLOW = 'an empty allow reads as both "nothing" and "anything"; leave it out, or use profile "minimal"'


def load(file: str | None, around: Surroundings, environ: Mapping[str, str]) -> Settings:
    """Read a file into settings; ConfigError if anything about it is wrong."""
    text = "{}" if file is None else read_text(file)
    return from_text(text, file, around, environ)


def read_text(file: str) -> str:
    """Read a small, regular UTF-8 file; a FIFO or device could block or never end."""
    try:
        content = read_regular(file, most=MAX_BYTES, follow=True)
    except OSError as error:
        hint = "check the path; `crabpot init` writes a starter" if isinstance(error, FileNotFoundError) else ""
        message = _UNFIT.get(error.errno or 0, f"cannot be read: {error.strerror}")
        raise ConfigError(Problem(file=file, message=message, hint=hint)) from None
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        message = f"is not UTF-8 text (byte {error.start})"
        raise ConfigError(Problem(file=file, message=message)) from None
    return text


def from_text(text: str, file: str | None, around: Surroundings, environ: Mapping[str, str]) -> Settings:
    """Return the settings that a text defines."""
    report = _Report(text=text, file=file or "")
    root = _canonical(report)
    read(File, root, report.add)
    report.raise_if_any()
    runner = read(Runner, _get(root, "runner"), report.add)
    gateway = read(Gateway, _get(root, "gateway"), report.add) or Gateway()
    for path, message in problems.of_gateway(gateway):
        report.add(_get(root, "gateway"), path, message)
    audit = read(Audit, _get(root, "audit"), report.add) or Audit()
    for path, message in problems.of_audit(audit):
        report.add(_get(root, "audit"), path, message)
    agents = _get(root, "agents")
    defaults, entries = _get(agents, "defaults"), _get(agents, "entries")
    base = _agent("main", _Layers(root=root, defaults=defaults), report, around, environ)
    made = {}
    for member in entries.members if isinstance(entries, Object) else ():
        if not is_agent_id(member.key):
            message = "an agent's id has letters, digits, _ and -, at most 64, and starts with a letter or digit"
            report.add(member.value, member.value.path, message)
        layers = _Layers(root=root, defaults=defaults, entry=member.value)
        made[member.key.lower()] = _agent(member.key.lower(), layers, report, around, environ)
    settings = Settings(defaults=base, entries=made, gateway=gateway, runner=runner or Runner(), audit=audit, file=file)
    if (mcp := _get(root, "mcp")) is not None:
        from crabpot.config.servers import with_servers  # noqa: PLC0415  most configurations have none

        settings = with_servers(settings, mcp, around, report.add)
    report.raise_if_any()
    everybody = [base, *made.values(), *(servers.acting(name, settings, base) for name in settings.mcp.servers)]
    for agent in everybody:
        for path, message in build.swappable(agent, everybody, around):
            report.add(None, agent.source(path), message)
    report.raise_if_any()
    return settings


@dataclass(frozen=True, slots=True, kw_only=True)
class _Report:
    """The problems of one file, each with its line, reported all at once."""

    text: str
    file: str
    problems: dict[Problem, None] = field(default_factory=dict)

    def add(self, value: Value | None, path: str, message: str) -> None:
        """Add a problem; after enough of them reading stops, since a person corrects a few at a time."""
        self.problems[self.problem(None if value is None else value.start, path, message)] = None
        if len(self.problems) >= MAX_PROBLEMS:
            self.raise_if_any()

    def problem(self, offset: int | None, path: str, message: str) -> Problem:
        line = None if offset is None else line_of(self.text, offset)
        return Problem(file=self.file or "(defaults)", line=line, path=path, message=message)

    def raise_if_any(self) -> None:
        if self.problems:
            raise ConfigError(*self.problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layers:
    """The layers that an agent's settings are merged from."""

    root: Object
    defaults: Value | None
    entry: Value | None = None

    def part(self, name: str) -> Value | None:
        base = _get(self.root if name == "tools" else self.defaults, name)
        return merge(base, _get(self.entry, name), name)

    def written_allows(self) -> Iterator[Value]:
        """Yield each layer's own allow lists: an empty one would vanish in the merge."""
        for layer in (self.root, self.entry):
            tools = _get(layer, "tools")
            yield from filter(None, (_get(tools, "allow"), _get(_get(tools, "sandbox"), "allow")))

    def declared(self) -> frozenset[str]:
        """Return each layer's own extra tools: an agent's replace the others, and must not make their deny unknown."""
        lists = (_get(_get(layer, "tools"), "extra") for layer in (self.root, self.entry))
        items = (item for one in lists if isinstance(one, Array) for item in one.items)
        return frozenset(item.scalar for item in items if isinstance(item.scalar, str))


def _get(value: Value | None, key: str) -> Value | None:
    """Return a member's value; a null counts as unset."""
    found = value.get(key) if isinstance(value, Object) else None
    return None if found is None or is_null(found) else found


def _canonical(report: _Report) -> Object:
    try:
        root = parse(report.text)
        if isinstance(root, Object):
            return translate(root)
        raise ConfigError(report.problem(root.start, "", "must be an object: { … }"))
    except SyntaxProblem as problem:
        raise ConfigError(report.problem(problem.offset, problem.path, str(problem))) from None
    except DialectProblem as problem:
        raise ConfigError(report.problem(problem.start, problem.path, str(problem))) from None


def _agent(
    agent_id: str, layers: _Layers, report: _Report, around: Surroundings, environ: Mapping[str, str]
) -> AgentSettings:
    parts = {name: layers.part(name) for name in ("workspace", "sandbox", "tools")}
    written = {path: value for name, part in parts.items() for path, value in places(part, name)}
    folder = parts["workspace"]
    sandbox = read(Sandbox, parts["sandbox"], report.add) or Sandbox()
    made = AgentSettings(
        id=agent_id,
        workspace=DEFAULT_WORKSPACE if folder is None else str(folder.scalar),
        sandbox=with_runner_socket(sandbox, environ),
        tools=read(Tools, parts["tools"], report.add) or Tools(),
        sources={path: value.path for path, value in written.items()} | _given_by(environ, sandbox),
    )
    for allow in layers.written_allows():
        if isinstance(allow, Array) and not allow.items:
            report.add(allow, allow.path, EMPTY_ALLOW)
    own_file = _own_file(report.file, made, around)
    granted = grants.problems(made.tools.elevated, around)
    tools = problems.of_tools(made, layers.declared())
    for path, message in (*tools, *granted, *(own_file or build.problems(made, around))):
        value = _nearest(written, path)
        report.add(value, path if value is None else value.path, message)
    return made


def _own_file(file: str, agent: AgentSettings, around: Surroundings) -> list[tuple[str, str]]:
    """Refuse a file that an agent can write, or reach by a link it can write: it could grant itself anything."""
    folder = binds.expand(agent.workspace, around.home)
    if not file or not folder.startswith("/"):
        return []
    workspace = os.path.realpath(folder)
    if not any(step.startswith(workspace.rstrip("/") + "/") for step in _ways_to(file)):
        return []
    message = f"this file is inside the workspace {workspace}, where the agent could rewrite it; move it elsewhere"
    return [("workspace", message)]


def _ways_to(file: str) -> Iterator[str]:
    """List the file as it was named, and every link on the way to the real file."""
    at = os.path.abspath(file)
    yield at
    for _ in range(MAX_LINKS):
        at = os.path.join(os.path.realpath(os.path.dirname(at)), os.path.basename(at))
        yield at
        if not os.path.islink(at):
            return
        at = os.path.join(os.path.dirname(at), os.readlink(at))


def with_runner_socket(sandbox: Sandbox, environ: Mapping[str, str]) -> Sandbox:
    """Let $RUNNER_SOCKET choose the socket backend if the file chose none."""
    path = environ.get("RUNNER_SOCKET")
    if not path or sandbox.backend not in ("auto", "socket"):
        return sandbox
    return replace(sandbox, backend="socket", socket=sandbox.socket or path)


def _given_by(environ: Mapping[str, str], sandbox: Sandbox) -> dict[str, str]:
    """Record that a backend was chosen by the environment."""
    chosen = with_runner_socket(sandbox, environ).backend
    return {} if chosen == sandbox.backend else {"sandbox.backend": "$RUNNER_SOCKET"}


def _nearest(places: Mapping[str, Value], path: str) -> Value | None:
    """Return the value at a merged path, or the closest one that encloses it."""
    while path and path not in places:
        cut = max(path.rfind("."), path.rfind("["))
        path = path[:cut] if cut > 0 else ""
    return places.get(path)
