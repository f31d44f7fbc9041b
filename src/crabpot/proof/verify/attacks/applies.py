"""Attacks by what a person applies: a layer full of links, odd files, and files that the host runs."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import subprocess
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING

from crabpot.layers import copying
from crabpot.layers.store import LayerStore
from crabpot.proof.verify.claims import HAND_OFF, Group, NotCarriedOut, Outcome, few

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crabpot.layers.layer import Layer
    from crabpot.proof.verify.target import Target

claim = Group(HAND_OFF)

_MADE = "hostile"
_SOCKET = "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"socket\")'"
# What the host's own tools would run, what is no file, and what runs as somebody else.
_ODD = (
    "mkdir -p .git/hooks .vscode .github/workflows sub/.git/hooks node_modules/.bin .venv/bin; "
    "for f in .git/hooks/pre-commit sub/.git/hooks/pre-commit .envrc .vscode/tasks.json .github/workflows/x.yml "
    ".mcp.json evil.pth sitecustomize.py conftest.py .pre-commit-config.yaml node_modules/.bin/x .venv/bin/python "
    "build.rs; "
    "do echo evil > $f; done; printf '[core]\\n\\tfsmonitor = ./evil\\n' > .git/config; "
    f"mkfifo fifo; {_SOCKET}; cp /bin/sh setuid && chmod 6755 setuid || true"
)


@contextmanager
def _reviewed(target: Target) -> Iterator[tuple[str, Layer]]:
    """Make a project of the host's, and a layer over it."""
    with tempfile.TemporaryDirectory(prefix="crabpot-verify-", dir=target.bait.folder) as place:
        project = os.path.join(place, "project")
        os.makedirs(os.path.join(project, "docs"))
        store = LayerStore(os.path.join(place, "state"))
        layer = store.make(
            scope_key=target.session, session=target.session, agent=target.agent.id, folder=project, mechanism="copy"
        )
        copying.copy_folder(layer)
        yield project, layer


async def _fill(target: Target, layer: Layer, script: str) -> None:
    """Have the agent make a tree, and take it into the layer as it is."""
    await target.must_run(f"rm -rf {_MADE}; mkdir {_MADE}; cd {_MADE}; {script}")
    source = os.path.join(target.spec.workspace, _MADE)
    copy = ["cp", "-a", f"{source}/.", layer.content]
    taken = await asyncio.to_thread(subprocess.run, copy, capture_output=True, check=False)
    await target.shell(f"rm -rf {_MADE}")
    if taken.returncode != 0:
        raise NotCarriedOut(f"the layer could not be filled: {taken.stderr.decode('utf-8', 'replace').strip()[-200:]}")


@claim.about("sandbox", threats=("hostile-layer", "swapped-folder"))
async def cannot_have_an_apply_follow_a_link(target: Target) -> Outcome:
    """A link to a secret; and one that leads out, with a file behind it in the next apply. A person agrees to all."""
    before = target.bait.planted()
    with _reviewed(target) as (project, layer):
        await _fill(target, layer, f"ln -s {target.bait.secret_file} stolen; ln -s {target.bait.open_folder} out")
        target.apply(layer, gated=True)
        os.unlink(os.path.join(layer.content, "out"))
        await _fill(target, layer, "mkdir out; echo x > out/written")
        target.apply(layer, gated=True)
        stolen = os.path.join(project, "stolen")
        got = ["a secret of the host's"] if os.path.isfile(stolen) and not os.path.islink(stolen) else []
    got += sorted(target.bait.planted() - before)
    for name in target.bait.planted() - before:
        os.unlink(os.path.join(target.bait.open_folder, name))
    return Outcome(
        held=not got,
        tried="two applies: links to a secret and to an open folder, then a file behind the second",
        came_back=f"GOT: {few(got)}" if got else "the links arrived as links, and nothing through them",
    )


@claim.about("sandbox", threats=("hostile-layer", "host-git"))
async def cannot_have_an_apply_bring_what_the_host_would_run(target: Target) -> Outcome:
    """Hooks, git's configuration, editor tasks, CI files, .pth, virtual environments, setuid programs, devices."""
    with _reviewed(target) as (project, layer):
        await _fill(target, layer, f"{_ODD}; echo honest > honest.txt")
        odd = ("a FIFO", "a socket", "a setuid shell", *_device_in(layer))
        target.apply(layer, gated=False)
        arrived = sorted(
            os.path.relpath(os.path.join(at, name), project) for at, _, files in os.walk(project) for name in files
        )
        if "honest.txt" not in arrived:
            raise NotCarriedOut("nothing arrived at all")
        shutil.rmtree(project)
    got = [name for name in arrived if name != "honest.txt"]
    return Outcome(
        held=not got,
        tried=f"a layer with 13 files that the host executes, a hooked repository, {', '.join(odd)}",
        came_back=f"ARRIVED: {few(got)}" if got else "one honest file arrived, and none of these",
    )


def _device_in(layer: Layer) -> tuple[str, ...]:
    """Put a device into a layer as if an agent could make one, and return its name; only root can."""
    try:
        os.mknod(os.path.join(layer.content, "device"), stat.S_IFCHR | 0o666, os.makedev(1, 3))
    except PermissionError:
        return ()
    return ("a device",)
