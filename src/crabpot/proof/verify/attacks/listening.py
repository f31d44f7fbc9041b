"""Attacks on a runner that listens on a socket of its own: what its listed commands would write beyond its roots."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
import time
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from crabpot.proof.verify.claims import HAND_OFF, Group, NotCarriedOut, Outcome

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from crabpot.proof.verify.target import Target

    Ask = Callable[[str, Any], Awaitable[dict[str, Any]]]

claim = Group(HAND_OFF)

_START_S, _ANSWER_S, _POLL_S = 20.0, 20.0, 0.02
_WHAT = "a link checked out from a blob and moved to .git/COMMIT_EDITMSG, then git commit --cleanup=verbatim"


@asynccontextmanager
async def _listening(target: Target, root: str) -> AsyncIterator[Ask]:
    """Start a runner over one folder, and return what asks it; NotCarriedOut if it does not answer."""
    path = f"{root}.sock"
    words = ("--socket", path, "--root", root, "--allow", "git", "mv")
    process = await asyncio.create_subprocess_exec(*target.listener(), *words, stderr=asyncio.subprocess.DEVNULL)
    try:
        reader, writer = await _connected(path, process, _START_S * target.pace)

        async def ask(tool: str, args: Any) -> dict[str, Any]:
            writer.write(json.dumps({"id": tool, "tool": tool, "args": args, "cwd": root}).encode() + b"\n")
            async with asyncio.timeout(_ANSWER_S * target.pace):
                found: dict[str, Any] = json.loads(await reader.readline())
            return found

        yield ask
        writer.close()
    except (OSError, ValueError) as error:
        raise NotCarriedOut(f"no runner listens on {path}: {error}") from None
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _connected(
    path: str, process: asyncio.subprocess.Process, wait_s: float
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect as soon as the runner listens; the last failure if it ends before that, or takes too long."""
    deadline = time.monotonic() + wait_s
    while True:
        try:
            return await asyncio.open_unix_connection(path)
        except OSError:
            if process.returncode is not None or time.monotonic() > deadline:
                raise
        await asyncio.sleep(_POLL_S)


@claim.about("sandbox", threats=("hatch", "host-git"))
async def cannot_have_a_listening_runner_write_beyond_its_roots(target: Target) -> Outcome:
    """A runner on a socket of its own runs listed commands; git writes through a link in its own folder."""
    trace = f"{target.bait.open_folder}/listening"
    if shutil.which("git") is None:
        return Outcome(held=True, tried=_WHAT, came_back="this machine has no git for a runner to start")
    root = tempfile.mkdtemp(prefix="root-", dir=target.bait.folder)
    async with _listening(target, root) as ask:
        await ask("git", ["init", "-q", "."])
        await ask("git", ["config", "user.name", "x"])
        await ask("git", ["config", "user.email", "x@x"])
        await ask("write", {"path": f"{root}/target", "content": trace})
        blob = (await ask("git", ["hash-object", "-w", "target"]))["stdout"].strip()
        await ask("git", ["update-index", "--add", "--cacheinfo", f"120000,{blob},link"])
        await ask("git", ["checkout", "--", "link"])
        moved = await ask("mv", ["link", ".git/COMMIT_EDITMSG"])
        if not moved["success"]:
            raise NotCarriedOut(f"the link was not planted: {moved['stderr'].strip()[:200]}")
        result = await ask("git", ["commit", "--allow-empty", "--cleanup=verbatim", "-m", "planted"])
    written = os.path.lexists(trace)
    if written:
        os.unlink(trace)
    said = result["stderr"].strip()[:200]
    return Outcome(held=not written, tried=_WHAT, came_back=f"WRITTEN: {trace}" if written else said)
