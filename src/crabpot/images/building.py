"""Make an image, by the engine from a Dockerfile or by mmdebstrap from packages, and report the progress."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import tarfile
import tempfile
from dataclasses import dataclass
from textwrap import shorten
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from crabpot.backends.docker.engine import EngineError, EngineRefused
from crabpot.images import archive, bootstrap, dockerfile, machine
from crabpot.images.bootstrap import BuildFailed
from crabpot.images.recipe import RECIPE
from crabpot.images.sending import send
from crabpot.spec import hardening

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from crabpot.backends.docker.engine import Engine
    from crabpot.images.recipe import Recipe

_STEP = re.compile(r"Step ([0-9]+)/([0-9]+) : (.*)")
# The engine colours red what a build prints to its standard error.
_COLOUR = re.compile("\x1b\\[[0-9;]*m")
_SHOWN = 100
_PIECE = 1024**2
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_COMMAND = ("sleep", "infinity")
_TOLD_AT_THE_END = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One image to make: what is in it, its name, and where a tarball of packages may be kept."""

    recipe: Recipe
    tag: str
    cache: str | None = None
    base: str | None = None
    network: str | None = None
    """The docker network that a build uses; its bridge, if none is named."""
    checked: bool = True
    again: bool = False


async def from_dockerfile(engine: Engine, order: Order, progress: Callable[[str], None]) -> str:
    """Let the engine build it, and return the image's id."""
    _check_room(order, await _engine_folders(engine))
    text = dockerfile.text(order.recipe) if order.base is None else dockerfile.text(order.recipe, base=order.base)
    query = {"t": order.tag, "rm": "1", "forcerm": "1", "nocache": "1" if order.again else "0"}
    if order.network is not None:
        query["networkmode"] = order.network
    said: list[str] = []
    try:
        async for message in send(engine, "/build", query, [_context(text)]):
            line = _COLOUR.sub("", str(message.get("stream") or message.get("status") or "")).strip()
            said = [*said[1 - _TOLD_AT_THE_END :], line] if line else said
            if step := _STEP.match(line):
                progress(f"step {step[1]} of {step[2]}: {shorten(step[3], _SHOWN, placeholder=' …')}")
    except EngineError as error:
        output = "\n".join(said)
        raise BuildFailed(f"the engine could not build the image: {error}\n{output}".rstrip()) from None
    return await _id(engine, order.tag)


async def from_packages(engine: Engine, order: Order, progress: Callable[[str], None]) -> str:
    """Make it from Debian's packages, load it into the engine, and return the image's id."""
    if not order.again and await _made_of(engine, order.tag) == order.recipe.digest:
        progress(f"{order.tag} exists already, made of the same packages; --again rebuilds it")
        return await _id(engine, order.tag)
    with tempfile.TemporaryDirectory(prefix="crabpot-image-") as folder:
        kept = await _file_system(order, folder, await _engine_folders(engine), progress)
        progress(f"sending {os.path.getsize(kept) // 1024**2} MiB to the engine")
        name, _, tag = order.tag.rpartition(":")
        query = {"fromSrc": "-", "repo": name, "tag": tag, "changes": "\n".join(_changes(order.recipe))}
        try:
            with open(kept, "rb") as file:
                async for _ in send(engine, "/images/create", query, _read(file)):
                    pass
        except EngineError as error:
            raise BuildFailed(f"the engine did not take the image: {error}") from None
    return await _id(engine, order.tag)


async def to_archive(order: Order, output: str, progress: Callable[[str], None]) -> None:
    """Make it from Debian's packages as a file that engines and nodes can load; no engine is needed."""
    with tempfile.TemporaryDirectory(prefix="crabpot-image-") as folder:
        kept = await _file_system(order, folder, {os.path.dirname(output) or ".": 1.0}, progress)
        progress(f"writing {output}")
        try:
            await asyncio.to_thread(archive.write, kept, output, tag=order.tag, config=_config(order.recipe))
        except OSError as error:
            raise BuildFailed(f"{output} cannot be written: {error.strerror}") from None


async def _file_system(order: Order, folder: str, others: dict[str, float], progress: Callable[[str], None]) -> str:
    """Return the tarball of the image's files: the kept one, or a new one."""
    kept = f"{order.cache or folder}/crabpot-image-{order.recipe.digest}.tar"
    if order.again or not os.path.exists(kept):
        _check_room(order, {os.path.dirname(kept): 1.0, **others})
        os.makedirs(os.path.dirname(kept), exist_ok=True)
        await bootstrap.make(order.recipe, kept, progress)
    return kept


def _config(recipe: Recipe) -> dict[str, Any]:
    return {
        "User": f"{recipe.user.uid}:{recipe.user.gid}",
        "WorkingDir": hardening.WORKSPACE,
        "Env": [f"LANG={hardening.LANG}", f"PATH={_PATH}"],
        "Cmd": list(_COMMAND),
        "Labels": recipe.labels,
    }


def _changes(recipe: Recipe) -> Iterator[str]:
    yield from (f'LABEL {name}="{value}"' for name, value in recipe.labels.items())
    yield f"ENV LANG={hardening.LANG}"
    yield f"ENV PATH={_PATH}"
    yield f"USER {recipe.user.uid}:{recipe.user.gid}"
    yield f"WORKDIR {hardening.WORKSPACE}"
    yield f"CMD {json.dumps(_COMMAND)}"


def _read(file: io.BufferedReader) -> Iterator[bytes]:
    while piece := file.read(_PIECE):
        yield piece


def _context(text: str) -> bytes:
    """Return what the engine needs to build: the one file, packed."""
    packed = io.BytesIO()
    content = text.encode()
    with tarfile.open(fileobj=packed, mode="w") as context:
        entry = tarfile.TarInfo("Dockerfile")
        entry.size = len(content)
        context.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


async def _engine_folders(engine: Engine) -> dict[str, float]:
    root = str((await engine.get("/info")).get("DockerRootDir") or "")
    # An engine in a machine of its own keeps images where this one cannot look.
    return {root: 1.5} if os.path.isdir(root) else {}


def _check_room(order: Order, folders: dict[str, float]) -> None:
    short = list(machine.problems(order.recipe, folders)) if order.checked else []
    if short:
        raise BuildFailed(
            f"there is not enough room to make the image ({'; '.join(short)}): choose fewer groups, make room, "
            "or try it anyway with --anyway"
        )


async def _made_of(engine: Engine, tag: str) -> str | None:
    try:
        said = await engine.get(f"/images/{quote(tag)}/json")
    except EngineRefused:
        return None
    labels = (said.get("Config") or {}).get("Labels") or {}
    return None if RECIPE not in labels else str(labels[RECIPE])


async def _id(engine: Engine, tag: str) -> str:
    return str((await engine.get(f"/images/{quote(tag)}/json"))["Id"])
