"""Seal a package: install it in a sandbox that reaches the registry alone, and keep its files by their digest."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any

from crabpot.approvals.display import line
from crabpot.decide.placement import Placement
from crabpot.errors import CrabpotError, SandboxLost
from crabpot.model import Place
from crabpot.sandboxes import private_folders
from crabpot.servers import packages, registries, trees
from crabpot.settings import AgentSettings, Limits, Network, Sandbox
from crabpot.spec import hardening
from crabpot.state.ownership import make_own
from crabpot.state.untrusted import read_regular

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crabpot.sandboxes.execution import Execution
    from crabpot.servers.packages import Package
    from crabpot.servers.pins import Pins
    from crabpot.servers.registries import Installer

    # What a package was resolved to: each part's version and hash, the digest of all files, and what is started.
    Lock = Mapping[str, Any]

_INSTALL_S = 900.0
_LARGEST = 64 << 20
_LIMITS = Limits(pids=512)
_LAYER = "layer"
_LEFT_S = 7 * 86_400.0


async def seal(name: str, package: Package, execution: Execution, environ: Mapping[str, str]) -> Lock:
    """Resolve and install a server's package, and return what it is now; CrabpotError if that fails."""
    make = registries.npm if package.manager == "npm" else registries.pip
    installer = await make(environ, execution.around.home)
    state, key = execution.around.state, f"server:{name}:sealing"
    agent = _agent(installer)
    execution.forget(agent, key)
    try:
        installed = os.path.join(execution.describe(agent, key)[0].workspace, _LAYER)
        await _install(name, package, installer, execution, agent, key)
        return await asyncio.to_thread(_keep, package, installed, state)
    finally:
        await asyncio.to_thread(private_folders.remove, state, lambda kept: kept.scope_key == key)


def _agent(installer: Installer) -> AgentSettings:
    path = ":".join(dict.fromkeys((*installer.program.path, *hardening.PATH.split(":"))))
    sandbox = Sandbox(
        network=Network(name="allow", allow=installer.places),
        programs=(*installer.program.shows, *installer.shows),
        env={"PATH": path, **installer.env},
        limits=_LIMITS,
    )
    return AgentSettings(id="main", workspace="", sandbox=sandbox)


async def _install(  # noqa: PLR0913, PLR0917  what, by what, where
    name: str, package: Package, installer: Installer, execution: Execution, agent: AgentSettings, key: str
) -> None:
    live = await execution.acquire(agent, Placement(where=Place.SANDBOX, scope_key=key))
    try:
        command = [*installer.argv, *_words(package)]
        reply = await live.wire.call("exec", {"command": command}, timeout_s=_INSTALL_S)
    except SandboxLost as error:
        raise CrabpotError(f"the package of the server {name} was not installed: {error}") from None
    finally:
        await execution.fleet.stop(live.key)
    if reply.error is not None or reply.exit_code:
        said = reply.error[1] if reply.error is not None else (reply.stderr or reply.stdout).strip()[-1500:]
        raise CrabpotError(f"the package of the server {name} was not installed: {line(said)}")


def _words(package: Package) -> list[str]:
    """Return what npm or pip is told. No script of a package runs, and nothing is built: what is published is taken."""
    if package.manager == "npm":
        quiet = ["--no-audit", "--no-fund", "--omit=dev", "--ignore-scripts", "--loglevel=error"]
        return ["install", *quiet, "--prefix", f"/workspace/{_LAYER}", "--", *package.specs]
    quiet = ["--quiet", "--only-binary", ":all:", "--no-compile", "--report", f"/workspace/{_LAYER}.json"]
    return ["install", *quiet, "--target", f"/workspace/{_LAYER}", *package.specs]


def _keep(package: Package, installed: str, state: str) -> Lock:
    make_own(state)
    make_own(os.path.join(state, trees.FOLDER))
    draft = tempfile.mkdtemp(prefix=".draft-", dir=os.path.join(state, trees.FOLDER))
    try:
        made = os.path.join(draft, _LAYER)
        trees.copy(installed, made)
        parts = _npm_parts(made) if package.manager == "npm" else _pypi_parts(f"{installed}.json")
        program = _npm_program(made, package) if package.manager == "npm" else _pypi_program(made, package)
        digest = trees.digest(made)
        if not os.path.isdir(trees.folder(state, digest)):
            os.rename(made, trees.folder(state, digest))
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CrabpotError(
            f"the package is not as {package.manager} installs one: {type(error).__name__}: {error}"
        ) from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    lock = {"manager": package.manager, "parts": parts, "tree": digest, "program": program}
    # Compiled parts are for one version of Python alone.
    return lock if package.manager == "npm" else {**lock, "python": getattr(sys, "_base_executable", sys.executable)}


def forget_unused(state: str, pins: Pins) -> None:
    """Remove packages that nothing approved is made of. Not at once: a server may still run on one."""
    used = {pin.lock["tree"] for pin in pins.all() if pin.lock is not None}
    for name in (
        os.listdir(os.path.join(state, trees.FOLDER)) if os.path.isdir(os.path.join(state, trees.FOLDER)) else ()
    ):
        path = os.path.join(state, trees.FOLDER, name)
        if name not in used and time.time() - os.stat(path).st_mtime > _LEFT_S:
            shutil.rmtree(path, ignore_errors=True)


def _read(root: str, path: str) -> Any:
    """Return the JSON at a path below a folder. Whoever installed the package chose every part of that path."""
    folder = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        return json.loads(read_regular(path, most=_LARGEST, folder=folder))
    finally:
        os.close(folder)


def _npm_parts(layer: str) -> dict[str, list[str]]:
    listed = _read(layer, "package-lock.json")["packages"]
    return {
        path.removeprefix("node_modules/"): [str(one["version"]), str(one["integrity"])]
        for path, one in sorted(listed.items())
        if path
    }


def _pypi_parts(report: str) -> dict[str, list[str]]:
    found = {}
    for one in _read(*os.path.split(report))["install"]:
        hashes = one["download_info"]["archive_info"]["hashes"]
        found[str(one["metadata"]["name"])] = [str(one["metadata"]["version"]), f"sha256-{hashes['sha256']}"]
    return dict(sorted(found.items()))


def _npm_program(layer: str, package: Package) -> str:
    """Return the program as npx chooses it: the only one, or the one that is called like the package."""
    program = package.program
    if program is None:
        own = packages.name_of("npm", package.specs[0])
        said = _read(layer, f"node_modules/{own}/package.json").get("bin")
        names = [own.rpartition("/")[2]] if isinstance(said, str) else list(said or {})
        called = own.rpartition("/")[2]
        if len(names) != 1 and called not in names:
            raise CrabpotError(
                f"{own} has the programs {', '.join(map(repr, names)) or 'none'}: say which, with npx -p"
            )
        program = names[0] if len(names) == 1 else called
    return _there(layer, f"node_modules/.bin/{program}")


def _pypi_program(layer: str, package: Package) -> str:
    program = package.program or packages.name_of("pypi", package.specs[0])
    return _there(layer, f"bin/{program}")


def _there(layer: str, path: str) -> str:
    real = os.path.realpath(f"{layer}/{path}")
    if not real.startswith(f"{os.path.realpath(layer)}/") or not os.path.isfile(real):
        raise CrabpotError(f"the package has no program {os.path.basename(path)!r}")
    return path
