"""`changes`: list, compare, apply, undo and discard what a session under review changed."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from crabpot.doors.cli.frame import FAILED, OK, note
from crabpot.doors.cli.show import Pen, visible, wants_colour
from crabpot.doors.local.client import connect
from crabpot.doors.review import RemoteHolder, nothing, visible_diff
from crabpot.errors import CrabpotError
from crabpot.wording import counted

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Awaitable, Callable

    from crabpot.doors.cli.frame import Frame
    from crabpot.gateway import Gateway
    from crabpot.host_commands.review.review import Review
    from crabpot.layers.layer import Layer

    Body = Callable[[Review, Layer, Namespace], Awaitable[int]]

_SIGNS = {"added": "+", "modified": "~", "deleted": "-"}
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def list_changes(frame: Frame, options: Namespace) -> int:
    """List the changes."""
    return asyncio.run(_with_layer(frame, options, _list))


def diff_changes(frame: Frame, options: Namespace) -> int:
    """Show the changes as a unified diff."""
    return asyncio.run(_with_layer(frame, options, _diff))


def apply_changes(frame: Frame, options: Namespace) -> int:
    """Apply changes."""
    return asyncio.run(_with_layer(frame, options, _apply))


def undo_changes(frame: Frame, options: Namespace) -> int:
    """Undo the last apply."""
    return asyncio.run(_with_layer(frame, options, _undo))


def discard_changes(frame: Frame, options: Namespace) -> int:
    """Forget changes."""
    return asyncio.run(_with_layer(frame, options, _discard))


async def _with_layer(frame: Frame, options: Namespace, body: Body) -> int:
    app = frame.app()
    gateway = app.gateway()
    remote = await connect(app.around.state)
    try:
        review = gateway.review("the terminal")
        if remote is not None:
            # The gateway that serves has the sandbox; what is done to files is done here.
            review = replace(review, holder=RemoteHolder(remote))
        layer = review.layer(options.session, os.getcwd())
        if layer is None:
            return await _nothing(gateway, options)
        if options.session is None:
            _name_others(review, layer)
        options.paths = [_beneath(layer, path) for path in getattr(options, "paths", ())]
        return await body(review, layer, options)
    finally:
        if remote is not None:
            await remote.close()
        await gateway.close()


def _name_others(review: Review, layer: Layer) -> None:
    """Name the session whose changes these are where several sessions have some over the current folder."""
    others = [one.session for one in review.store.over(os.getcwd()) if one.path != layer.path]
    if others and layer.folder == os.path.realpath(os.getcwd()):
        also = ", ".join(map(visible, others))
        note(
            f"this is {visible(layer.session)}, which used the folder last; also over it: {also} (choose by --session)"
        )


async def _nothing(gateway: Gateway, options: Namespace) -> int:
    """Answer for a session that changed nothing yet."""
    if options.body.endswith("undo_changes"):
        raise CrabpotError("nothing was applied that could be undone")
    if getattr(options, "paths", ()):
        raise CrabpotError(f"{options.paths[0]}: nothing changed there")
    told = {
        "list_changes": await nothing(gateway, options.session),
        "diff_changes": {"diff": ""},
        "apply_changes": {"applied": [], "left": [], "branches": [], "undo": None},
        "discard_changes": {"discarded": []},
    }[options.body.partition(":")[2]]
    if options.json:
        print(json.dumps(told, indent=2))
    else:
        note("nothing changed")
    return OK


def _beneath(layer: Layer, path: str) -> str:
    """Return a path relative to the folder under review; one that is written relative to a folder in it, too."""
    here = os.path.realpath(os.getcwd())
    inside = os.path.commonpath([here, layer.folder]) == layer.folder
    whole = os.path.normpath(os.path.join(here if inside else layer.folder, path))
    if whole != layer.folder and not whole.startswith(f"{layer.folder}/"):
        raise CrabpotError(f"{path} is not in {layer.folder}")
    return os.path.relpath(whole, layer.folder) if whole != layer.folder else ""


async def _list(review: Review, layer: Layer, options: Namespace) -> int:
    told = await review.listed(layer, options.paths)
    if options.gated:
        told["files"] = [one for one in told["files"] if one["gate"] is not None]
    if options.json:
        print(json.dumps(told, indent=2))
        return OK
    print(visible(f"{told['session']}: changes to {told['folder']} ({told['mechanism']})"))
    pen = Pen(colour=wants_colour(sys.stdout))
    for one in told["files"]:
        print(_line(one, pen))
    for one in told["commits"]:
        print(visible(f"  {counted(one['count'], 'commit')} on {one['branch']}, to {one['to'][:12]}"))
    problem = review.note(layer)
    if problem is not None and "no git repository" not in problem:
        note(problem)
    if not told["files"] and not told["commits"]:
        print("  nothing changed")
    return OK


def _line(one: dict[str, Any], pen: Pen) -> str:
    suffix = "/" if one["type"] == "folder" else "@" if one["type"] == "link" else ""
    why = [
        *([pen("red", "CONFLICT: it changed on the host too")] if one["conflict"] else []),
        *([pen("yellow", f"GATE: {one['gate']}")] if one["gate"] else []),
        *([pen("dim", one["marked"])] if one["marked"] else []),
    ]
    return f"  {_SIGNS[one['action']]} {one['mode']} {shown(one['path'])}{suffix}" + (
        f"  {'; '.join(why)}" if why else ""
    )


def shown(path: str) -> str:
    """Return a path with whatever could deceive the eye made visible."""
    from crabpot.approvals.display import line  # noqa: PLC0415  seldom needed

    return line(path)


async def _diff(review: Review, layer: Layer, options: Namespace) -> int:
    paths = options.paths
    if options.gated:
        told = await review.listed(layer, paths)
        paths = [one["path"] for one in told["files"] if one["gate"] is not None]
        if not paths:
            return OK
    text = (await review.diff(layer, paths)).decode("utf-8", "surrogateescape")
    told = await review.listed(layer, paths or [])
    conflicts = [one["path"] for one in told["files"] if one["conflict"]]
    sides = await review.sides(layer, conflicts) if conflicts else []
    if options.json:
        whole = {"session": layer.session, "folder": layer.folder, "conflicts": conflicts, "sides": sides, "diff": text}
        print(json.dumps(whole))
        return OK
    _print_diff(text)
    for one in sides:
        _print_sides(one)
    return OK


def _print_diff(text: str) -> None:
    pen = Pen(colour=wants_colour(sys.stdout))
    for line in visible_diff(text).removesuffix("\n").split("\n") if text else ():
        style = _COLOURS.get(line[:1])
        print(line if style is None else pen.painted(style, line))


def _print_sides(one: dict[str, Any]) -> None:
    """Print what the host and the agent each made of a file that both changed."""
    path = shown(one["path"])
    if one["base"] == "unknown":
        note(
            f"conflict: {path} changed on the host too; what both began from is not kept: the diff has the host's "
            "version and the agent's"
        )
        return
    for name, whose in (("host", "the host"), ("agent", "the agent")):
        print(f"conflict: what {whose} made of {path} since the agent first saw it:")
        _print_diff(one[name])


async def _apply(review: Review, layer: Layer, options: Namespace) -> int:
    done = await review.apply(layer, options.paths, gated=options.gated)
    return _done(done, options, "applied")


async def _undo(review: Review, layer: Layer, options: Namespace) -> int:
    return _done(await review.undo(layer, options.paths), options, "put back")


def _done(done: dict[str, Any], options: Namespace, verb: str) -> int:
    code = FAILED if done["left"] else OK
    if options.json:
        print(json.dumps(done, indent=2))
        return code
    print(f"{verb}: {counted(len(done['applied']), 'path')}")
    for name in done["branches"]:
        print(f"  branch {shown(name)}")
    for one in done["left"]:
        print(f"  left: {shown(one['path'])} ({one['why']}: {shown(one['reason'])})")
    if any(one["why"] == "gate" for one in done["left"]):
        note("look at what waits at the gate, then apply it with --gated")
    return code


async def _discard(review: Review, layer: Layer, options: Namespace) -> int:
    if not options.json and sys.stdin.isatty():
        what = f"the changes at {', '.join(map(shown, options.paths))}" if options.paths else "all changes"
        print(visible(f"forget {what} of {layer.session} to {layer.folder}? [y/N] "), end="", flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            print("nothing was discarded")
            return FAILED
    done = await review.discard(layer, options.paths)
    print(json.dumps(done, indent=2) if options.json else f"discarded: {counted(len(done['discarded']), 'path')}")
    return OK
