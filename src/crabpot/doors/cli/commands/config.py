"""`init` and `config get|set`."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from crabpot.config import edit, load, places, starter
from crabpot.config.document import Object, SyntaxProblem, is_null, line_of, plain
from crabpot.config.reading import parse
from crabpot.doors.cli.frame import OK, UsageError, note
from crabpot.doors.cli.invocation import pasted
from crabpot.errors import ConfigError, CrabpotError
from crabpot.settings import TRUSTED_PATH, Duration, Size, camel
from crabpot.wording import closest

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from crabpot.app import App
    from crabpot.doors.cli.frame import Frame
    from crabpot.settings import AgentSettings, McpServer, Sandbox, Settings


def init(frame: Frame, _options: Namespace) -> int:
    """Write the starter configuration; an existing file is left alone."""
    app = frame.app()
    file = _target(app)
    if os.path.lexists(file):
        raise CrabpotError(f"{file} already exists and was left alone; change it with `crabpot config set`")
    load.from_text(starter.TEXT, file, app.around, app.environ)
    _write(file, starter.TEXT)
    print(f"wrote {file}")
    print(pasted("next: crabpot check, crabpot explain"))
    return OK


def get(frame: Frame, options: Namespace) -> int:
    """Print one value, as written or by default."""
    app = frame.app()
    settings = app.settings()
    steps = _steps(options.path)
    root = parse(load.read_text(app.config)) if app.config else None
    found = edit.find(root, steps) if root else None
    if found is not None and not is_null(found) and not (isinstance(found, Object) and _is_known(settings, steps)):
        _print(plain(found))
    else:
        _print(_effective(settings, steps, options.path))
    return OK


def _is_known(settings: Settings, steps: list[edit.Step]) -> bool:
    """Return whether defaults can be filled in: not if another spelling is used."""
    try:
        _effective(settings, steps, "")
    except UsageError:
        return False
    return True


def _effective(settings: Settings, steps: list[edit.Step], path: str) -> Any:
    at: Any = _tree(settings)
    for step in steps:
        known = at if isinstance(at, dict) else range(len(at)) if isinstance(at, list) else ()
        if step not in known:
            near = closest(str(step), at) if isinstance(at, dict) else ""
            raise UsageError(f'"{path}": there is no "{step}"{near}')
        at = at[step]
    return at


def _tree(settings: Settings) -> dict[str, Any]:
    """Return the settings in the configuration's layout, with defaults filled in."""
    defaults = _agent(settings.defaults)
    return {
        "agents": {
            "defaults": {key: defaults[key] for key in ("workspace", "sandbox")},
            "entries": {name: _agent(agent) for name, agent in settings.entries.items()},
        },
        "tools": defaults["tools"],
        "mcp": {"servers": {name: _server(server) for name, server in settings.mcp.servers.items()}},
        **{key: _camelled(asdict(getattr(settings, key))) for key in ("gateway", "runner", "audit")},
    }


def _server(server: McpServer) -> dict[str, Any]:
    made: dict[str, Any] = _camelled(asdict(server))
    return made | {"env": dict(server.env), "sandbox": _sandbox(server.sandbox)}


def _agent(agent: AgentSettings) -> dict[str, Any]:
    tools = agent.tools
    made: dict[str, Any] = _camelled(asdict(tools))
    made["profile"] = tools.profile or ("full" if tools.allow is None else None)
    made["elevated"]["path"] = tools.elevated.path or TRUSTED_PATH
    return {"workspace": agent.workspace, "sandbox": _sandbox(agent.sandbox), "tools": made}


def _sandbox(sandbox: Sandbox) -> dict[str, Any]:
    made: dict[str, Any] = _camelled(asdict(sandbox))
    # Their keys are a person's own, and no names of settings.
    made["env"] = dict(sandbox.env)
    made["kubernetes"]["nodeSelector"] = dict(sandbox.kubernetes.node_selector)
    name = made["network"].pop("name")
    if name != "allow":
        made["network"] = name
    return made


def _camelled(value: Any) -> Any:
    """Return a value as a person would write it: keys in the configuration's spelling, sizes and times with units."""
    if isinstance(value, dict):
        return {camel(key): _camelled(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_camelled(item) for item in value]
    if isinstance(value, Size | Duration):
        return value.written() if value else 0
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _print(value: Any) -> None:
    print(value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False))


def set_value(frame: Frame, options: Namespace) -> int:
    """Change one value, if the file still loads afterwards."""
    file, changed = change(frame.app(), [(options.path, options.value)])
    if changed:
        print(f"{file}: {options.path} set")
    else:
        note(f"{options.path} already has this value")
    return OK


def change(app: App, values: Sequence[tuple[str, str]]) -> tuple[str, bool]:
    """Set values, all or none; return the file, and whether it changed. UsageError if it would not load."""
    file = _target(app)
    text = changed = load.read_text(file) if os.path.lexists(file) else "{\n}\n"
    try:
        for path, value in values:
            changed = edit.set_value(changed, path, value)
        load.from_text(changed, file, app.around, app.environ)
    except edit.EditRefused as refused:
        raise UsageError(str(refused)) from None
    except SyntaxProblem as problem:
        raise UsageError(f"{file}:{line_of(text, problem.offset)}: {problem}") from None
    except ConfigError as error:
        raise UsageError(f"refused, {file} is unchanged: it would not load\n{error}") from None
    if changed != text:
        _write(file, changed)
    return file, changed != text


def _steps(path: str) -> list[edit.Step]:
    try:
        return edit.parse_path(path)
    except edit.EditRefused as refused:
        raise UsageError(str(refused)) from None


def _target(app: App) -> str:
    return app.config or places.usual_config(app.environ, app.around.home)


def _write(file: str, text: str) -> None:
    try:
        edit.write_atomically(file, text)
    except OSError as error:
        raise CrabpotError(f"{file} cannot be written: {error.strerror}; it is unchanged") from None
