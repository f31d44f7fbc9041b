"""An image by name, and which Python in it can run the runner; the latter is tried once and cached."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from crabpot.backends.docker import naming, render
from crabpot.backends.docker.demultiplexer import Demultiplexer
from crabpot.backends.docker.engine import EngineRefused
from crabpot.backends.docker.removal import made_or_removed, remove
from crabpot.errors import SandboxUnavailable
from crabpot.state.files import write_whole
from crabpot.state.untrusted import read_regular

if TYPE_CHECKING:
    from crabpot.backends.docker.engine import Engine
    from crabpot.backends.docker.render import ContainerPlan
    from crabpot.spec.spec import SandboxSpec

INTERPRETERS = ("/usr/bin/python3", "/usr/local/bin/python3")

_NOT_FOUND = 404
_PROBE_S = 60.0
_MOST_CACHED = 256
_WORKS = "crabpot: it works"
# What the engine's init says of a program that it cannot start.
_INIT_FAILED = re.compile(r"exec \S+ failed: No such file or directory")
# Imports what the runner imports at start-up, and what its tools will.
_PROBE = f"""
import sys
sys.version_info >= (3, 9) or sys.exit("it is Python %d.%d, and 3.9 or newer is needed" % sys.version_info[:2])
package = type(sys)("crabpot_runner")
package.__path__ = ["{render.RUNNER}"]
sys.modules["crabpot_runner"] = package
sys.dont_write_bytecode = True
import _ctypes, re, resource, termios, crabpot_runner.core.server
print("{_WORKS}")
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """One image of the engine. Variables and volumes are those that its maker declared."""

    name: str
    id: str
    env: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()
    created: str = ""


async def find(engine: Engine, name: str) -> Image | str:
    """Look up an image, or return why it is missing and what to do."""
    try:
        said: dict[str, Any] = await engine.get(f"/images/{quote(name)}/json")
    except EngineRefused as error:
        if error.status == _NOT_FOUND:
            return f"the engine has no image {name}: crabpot image build, docker pull, or name another in docker.image"
        raise
    config = said.get("Config") or {}
    return Image(
        name=name,
        id=str(said["Id"]),
        env=tuple(str(one).partition("=")[0] for one in config.get("Env") or ()),
        volumes=tuple(sorted(config.get("Volumes") or ())),
        created=str(said.get("Created", "")),
    )


class Interpreters:
    """Which Python of an image runs the runner, by image id and runner version. Only successes are cached."""

    def __init__(self, home: str) -> None:
        self._file = f"{home}/images.json"
        self._known: dict[str, str] | None = None

    async def of(self, engine: Engine, spec: SandboxSpec, plan: ContainerPlan) -> str:
        """Return its path, or raise SandboxUnavailable."""
        key = "|".join((plan.image_id, *(bind.source for bind in plan.binds), spec.docker.runtime or ""))
        if self._known is None:
            self._known = self._recall()
        if key not in self._known:
            self._known[key] = await _try_all(engine, spec, plan)
            self._store()
        return self._known[key]

    def _recall(self) -> dict[str, str]:
        try:
            document = json.loads(read_regular(self._file, most=1024**2))
        except (OSError, ValueError, RecursionError):
            return {}
        if not isinstance(document, dict):
            return {}
        return {key: path for key, path in document.items() if path in INTERPRETERS}

    def _store(self) -> None:
        known = dict(list((self._known or {}).items())[-_MOST_CACHED:])
        # What cannot be stored is found out again.
        with contextlib.suppress(OSError):
            write_whole(self._file, json.dumps(known))


async def _try_all(engine: Engine, spec: SandboxSpec, plan: ContainerPlan) -> str:
    failures = []
    for path in INTERPRETERS:
        wrong = await _try(engine, spec, replace(plan, interpreter=path))
        if wrong is None:
            return path
        failures.append(f"{path}: {wrong}")
    raise SandboxUnavailable(
        f"the image {spec.docker.image} has no Python for the runner, 3.9 or newer with its standard library "
        f"({'; '.join(failures)}): install python3 in it, or crabpot image build"
    )


async def _try(engine: Engine, spec: SandboxSpec, plan: ContainerPlan) -> str | None:
    """Try it in a throw-away container; return None if it works, else why not."""
    body = render.probe_body(spec, plan, _PROBE)
    container = await made_or_removed(engine, naming.create_passing(engine, body))
    try:
        demultiplexer = Demultiplexer()
        said = demultiplexer(await engine.run_to_end(container, timeout_s=_PROBE_S)).decode("utf-8", "replace")
    finally:
        await asyncio.shield(remove(engine, container))
    if _WORKS in said:
        return None
    lines = demultiplexer.errors().splitlines()
    if lines and _INIT_FAILED.search(lines[-1]):
        return "it does not exist"
    return lines[-1] if lines else "it ended without output"
