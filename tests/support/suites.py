"""Check every promise or carry out every attack over one backend; also a program that does so as whoever starts it.

It is copied to where everybody can read it and prints one line of JSON for each name, so it imports nothing but the package.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import shutil
import sys
import tempfile
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from threading import Thread
from typing import TYPE_CHECKING, Any

from crabpot import app
from crabpot.backends.bubblewrap import bundle, probe_cache
from crabpot.backends.bubblewrap.backend import Bubblewrap
from crabpot.state.ownership import make_own

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from crabpot.gateway import Gateway


# What a backend needs to be told where the tests run: the plugin of their cluster enforces no NetworkPolicy.
TOLD: dict[str, dict[str, Any]] = {"kubernetes": {"kubernetes": {"inet": "refuse"}}}


# Bubblewrap's sandboxes as bwrap itself makes them, for machines where no fork server can.
BWRAP = "bwrap"


def plain_name(backend: str) -> Any:
    """Return the name of a backend in the configuration."""
    return "bubblewrap" if backend == BWRAP else backend


def configured(backend: str, **sandbox: Any) -> str:
    """Return the text of a configuration with which sessions get sandboxes of a backend."""
    name = plain_name(backend)
    return json.dumps({"agents": {"defaults": {"sandbox": {"backend": name, **TOLD.get(backend, {}), **sandbox}}}})


def open_gateway(text: str, state: str, *, forks: bool = True) -> Gateway:
    """Open a gateway over a configuration, as the program does the second time: this machine was examined before.

    Without `forks` it was found that no fork server can make a sandbox here.
    """
    take_over(state, images="docker" in text, forks=forks)
    return app.start(config=None, state=state, environ=os.environ).gateway(text)


def opener(backend: str) -> Callable[[str, str], Gateway]:
    """Return what opens a gateway for a backend."""
    return partial(open_gateway, forks=backend != BWRAP)


def take_over(state: str, *, images: bool = True, forks: bool = True) -> None:
    """Put into a new state folder what this process knows of the machine, which is the same for every one of them.

    That is the bundle of bwrap, what its probes found, and which Python the tests' image has: finding it out takes longer
    than most promises.
    """
    make_own(state)
    home = os.path.realpath(state)
    _take_over_bundle(f"{home}/bubblewrap", forks=forks)
    # Only with the tests' own engine: another one that this machine has is not ours to start containers on.
    if images and os.environ.get("DOCKER_HOST"):
        _take_over_images(f"{home}/docker")


def _take_over_bundle(home: str, *, forks: bool) -> None:
    if bundle.find(home) is not None:
        return
    examined = f"{_examined()}/bubblewrap"
    ready = bundle.find(examined)
    if ready is None:
        return
    chosen = probe_cache.recall(f"{examined}/probe.json", probe_cache.key(ready.folder))
    if chosen is None:
        return
    if not forks:
        chosen = replace(chosen, program=replace(chosen.program, forks=False))
    copy = f"{home}/{os.path.basename(ready.folder)}"
    shutil.copytree(ready.folder, copy, copy_function=_link_or_copy)
    probe_cache.keep(f"{home}/probe.json", probe_cache.key(copy), chosen)


def _take_over_images(home: str) -> None:
    """Say of each image what was found, by the place that the runner will have in this folder."""
    examined = f"{_tried()}/docker"
    try:
        with open(f"{examined}/images.json", encoding="utf-8") as file:
            known = file.read()
    except FileNotFoundError:
        return
    os.makedirs(home, mode=0o700, exist_ok=True)
    with suppress(FileExistsError), open(f"{home}/images.json", "x", encoding="utf-8") as file:
        file.write(known.replace(f"|{examined}/", f"|{home}/"))


def _link_or_copy(source: str, target: str) -> None:
    """Give a file another name where it can have one: nobody writes into a bundle, and a copy of each file takes longer."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


@cache
def _examined() -> str:
    """Examine the machine once in a process; return the state folder that knows it."""
    folder = _folder("crabpot-examined-")
    _run_apart(lambda: Bubblewrap(state=folder).look())
    return folder


@cache
def _tried() -> str:
    """Open a sandbox of docker's once in a process; return the state folder that knows its image, if there is one."""
    folder = _folder("crabpot-tried-")

    async def open_one() -> None:
        gateway = app.start(config=None, state=folder, environ=os.environ).gateway(configured("docker"))
        try:
            await gateway.call("agent:main:tried", "exec", command="true")
        finally:
            await gateway.close()

    _run_apart(open_one)
    return folder


def _folder(prefix: str) -> str:
    made = os.path.realpath(tempfile.mkdtemp(prefix=prefix))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def _run_apart(work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
    """Run it in a thread of its own: whoever asks may be in an event loop."""
    looking = Thread(target=lambda: asyncio.run(work()))
    looking.start()
    looking.join()


async def run_suite(suite: str, backend: Any) -> list[dict[str, str]]:
    """Run all of a suite."""
    if suite == "conformance":
        from crabpot.proof.conformance.harness import Harness
        from crabpot.proof.conformance.run import applying, check

        harness = Harness(open_gateway=opener(backend), backend=plain_name(backend), sandbox=TOLD.get(backend, {}))
        checked = [await check(promise, harness) for promise in applying(harness)]
        return [
            {"name": one.promise.name, "state": "broken" if one.broken else "held", "told": one.broken}
            for one in checked
        ]
    if suite == "unconfined":
        return await _unconfined()
    from crabpot.config.load import from_text
    from crabpot.proof.verify import trial
    from crabpot.proof.verify.run import targets, verify

    with trial.folder() as place:
        take_over(f"{place}/state", images=False, forks=backend != BWRAP)
        wired = app.start(config=None, state=f"{place}/state", environ=os.environ)
        settings = from_text(configured(backend), None, wired.around, os.environ)
        tried = trial.prepare(settings, "agent:main:x", place, wired.around, backend=plain_name(backend))
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
