"""Promises about a folder under review: whole and writable inside, untouched outside."""

from __future__ import annotations

import asyncio
import os
import stat
from typing import TYPE_CHECKING

from crabpot.proof.conformance.promises import Chapter, bad, good, same, true

if TYPE_CHECKING:
    from crabpot.proof.conformance.harness import Box, Harness

# ruff: noqa: D103  a promise's name is its sentence

promise = Chapter(sandbox_only=True)

# Every kind of change: edit, add, delete, rename of a file and of a folder, mode, link, replacement by another kind.
CHANGES = (
    "echo more >> edited.txt; echo new > added.txt; rm deleted.txt; mv renamed.txt other.txt; mv folder moved; "
    "chmod 755 mode.txt; ln -s /etc/passwd link; rm -r swapped; echo file > swapped; mkdir -p new/deep; "
    "echo x > new/deep/file; rm -r emptied; mkdir emptied; truncate -s 0 cut.txt; touch touched.txt"
)
# A little more than what makes a sandbox idle.
_IDLE_S = 1.2
_FILES = ("edited.txt", "deleted.txt", "renamed.txt", "mode.txt", "cut.txt", "touched.txt")
_FOLDERS = ("folder", "swapped", "emptied", "kept")


def _lay_out_project(folder: str) -> None:
    for name in _FOLDERS:
        os.mkdir(f"{folder}/{name}")
    for name in (*_FILES, *(f"{name}/inner.txt" for name in _FOLDERS)):
        with open(f"{folder}/{name}", "w", encoding="utf-8") as stream:
            stream.write(f"{name}\n")
    os.symlink("edited.txt", f"{folder}/pointer")
    if os.geteuid() == 0:
        owner = os.stat(folder)
        for at, folders, files in os.walk(folder):
            for name in (*folders, *files):
                os.chown(f"{at}/{name}", owner.st_uid, owner.st_gid, follow_symlinks=False)


def _seen(folder: str) -> dict[str, tuple[object, ...]]:
    """Return all that an ordinary look at a tree tells: kinds, modes, owners, times and content."""
    found: dict[str, tuple[object, ...]] = {}
    for at, folders, files in os.walk(folder):
        for path in (at, *(f"{at}/{name}" for name in (*folders, *files))):
            one = os.lstat(path)
            content = b""
            if stat.S_ISREG(one.st_mode):
                with open(path, "rb") as stream:
                    content = stream.read()
            times = (one.st_mtime_ns, one.st_ctime_ns)
            found[path] = (one.st_mode, one.st_uid, one.st_gid, one.st_nlink, one.st_ino, times, content)
    return found


@promise
async def a_folder_under_review_is_complete_and_writable(harness: Harness) -> None:
    async with harness.open(workspace="review") as box:
        _lay_out_project(box.agent_folder)
        same("read", good(await box.call("read", path="edited.txt"))["content"], "edited.txt\n")
        same("through a link", await box.out("cat pointer kept/inner.txt"), "edited.txt\nkept/inner.txt\n")
        good(await box.call("write", path="kept/inner.txt", content="written"))
        good(await box.call("edit", path="edited.txt", old="edited", new="changed"))
        await box.out(CHANGES)
        same("its own view", await box.out("cat kept/inner.txt edited.txt"), "writtenchanged.txt\nmore\n")
        same("renamed", await box.out("cat other.txt moved/inner.txt swapped"), "renamed.txt\nfolder/inner.txt\nfile\n")
        same("emptied", await box.out("ls -A emptied"), "")
        bad(await box.call("read", path="deleted.txt"), "not_found")
        bad(await box.call("read", path="folder/inner.txt"), "not_found")


@promise
async def the_host_never_sees_what_is_under_review(harness: Harness) -> None:
    async with harness.open(workspace="review") as box:
        _lay_out_project(box.agent_folder)
        before = _seen(box.agent_folder)
        await box.out(CHANGES)
        await box.out("rm -rf ./* .[a-z]*; chmod 500 .; touch -d 2001-01-01 .")
        await box.stop()
        same("the host's folder", _seen(box.agent_folder), before)


@promise
async def a_layer_outlives_its_sandbox_and_belongs_to_its_scope(harness: Harness) -> None:
    async with harness.open(workspace="review") as box:
        _lay_out_project(box.agent_folder)
        await box.out(CHANGES)
        await box.stop()
        same("after its sandbox", await box.out("cat added.txt new/deep/file"), "new\nx\n")
        bad(await box.call("read", path="deleted.txt"), "not_found")
        other = box.beside("agent:main:another")
        bad(await other.call("read", path="added.txt"), "not_found")
        same("another session's view", await other.out("cat deleted.txt edited.txt"), "deleted.txt\nedited.txt\n")


@promise
async def a_layer_is_reached_through_the_folder_alone(harness: Harness) -> None:
    async with harness.open(workspace="review") as box:
        _lay_out_project(box.agent_folder)
        await box.out("echo mine > marked-by-the-agent")
        # Wherever else it were mounted, its name would be found there, on the same or any other file system.
        looked = await box.out("find / -name 'marked-by-the-*' 2>/dev/null; find / -name layer.json 2>/dev/null; true")
        same("found at", looked, "/workspace/marked-by-the-agent\n")
        true("no whiteout is made by hand", (await box.run("mknod faked c 0 0")).exit_code != 0)


@promise
async def what_the_host_replaces_shows_in_an_idle_sandbox(harness: Harness) -> None:
    async with harness.open(workspace="review") as box:
        _lay_out_project(box.agent_folder)
        same("before", await box.out("cat kept/inner.txt; echo in memory > /tmp/kept"), "kept/inner.txt\n")
        if await _copies(box):
            return
        for name, text in (("kept/inner.txt", "replaced"), ("made-later.txt", "new")):
            with open(f"{box.agent_folder}/{name}.draft", "w", encoding="utf-8") as stream:
                stream.write(text)
            os.chmod(f"{box.agent_folder}/{name}.draft", 0o644)
            os.replace(f"{box.agent_folder}/{name}.draft", f"{box.agent_folder}/{name}")
        os.unlink(f"{box.agent_folder}/deleted.txt")
        await asyncio.sleep(_IDLE_S)
        same("afterwards", await box.out("cat kept/inner.txt made-later.txt /tmp/kept"), "replacednewin memory\n")
        bad(await box.call("read", path="deleted.txt"), "not_found")


async def _copies(box: Box) -> bool:
    """Return whether the folder was copied, and so does not follow the host."""
    execution = box.gateway.execution
    spec, _ = execution.describe(box.gateway.settings.agent("main"), box.session)
    return await execution.registry.mechanism(spec) == "copy"
