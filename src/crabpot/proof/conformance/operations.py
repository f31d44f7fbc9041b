"""Promises of what programs do to files beyond the tools: stat, ls page by page, mkdir, remove, move, realpath."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabpot.proof.conformance.promises import Chapter, bad, good, same, true

if TYPE_CHECKING:
    from crabpot.proof.conformance.harness import Harness

# ruff: noqa: D103  a promise's name is its sentence, and it states what it expects

promise = Chapter()


@promise
async def a_file_is_described(harness: Harness) -> None:
    async with harness.open() as box:
        await box.run("printf 12345 > file; chmod 640 file; ln -s file link; mkdir folder")
        found = good(await box.call("fs.stat", path="link"))
        same("followed", (found["type"], found["size"], found["mode"]), ("file", 5, 0o640))
        same("the link", good(await box.call("fs.stat", path="link", follow=False))["type"], "link")
        same("a folder", good(await box.call("fs.stat", path="folder"))["type"], "directory")
        bad(await box.call("fs.stat", path="missing"), "not_found")
        bad(await box.call("fs.stat", path="file/below"), "not_a_directory")
        true("its real path", good(await box.call("fs.realpath", path="link"))["path"].endswith("/file"))


@promise
async def a_large_folder_is_listed_page_by_page(harness: Harness) -> None:
    async with harness.open() as box:
        await box.run("mkdir many; cd many; seq 1 4100 | xargs touch")
        names: list[str] = []
        while True:
            page = good(await box.call("fs.ls", path="many", after=names[-1] if names else None))
            names += [entry["name"] for entry in page["entries"]]
            if not page["truncated"]:
                break
        same("all, once", (len(names), len(set(names)), names == sorted(names)), (4100, 4100, True))


@promise
async def folders_are_made_moved_and_removed(harness: Harness) -> None:
    async with harness.open() as box:
        bad(await box.call("fs.mkdir", path="a/b/c"), "not_found")
        same("made", good(await box.call("fs.mkdir", path="a/b/c", parents=True))["created"], True)
        bad(await box.call("fs.mkdir", path="a"), "exists")
        same("there", good(await box.call("fs.mkdir", path="a", exist_ok=True))["created"], False)
        await box.run("echo x > a/file; echo y > other; ln -s /nowhere a/dangling")
        bad(await box.call("fs.mkdir", path="a/file", exist_ok=True), "exists")
        bad(await box.call("fs.move", path="other", to="a/file"), "exists")
        good(await box.call("fs.move", path="other", to="a/file", overwrite=True))
        same("moved", await box.out("cat a/file"), "y\n")
        bad(await box.call("fs.move", path="a", to="a/b/d"), "invalid_arguments")
        bad(await box.call("fs.remove", path="a"), "is_directory")
        good(await box.call("fs.remove", path="a", recursive=True))
        bad(await box.call("fs.remove", path="a"), "not_found")


@promise
async def no_operation_follows_a_link_out(harness: Harness) -> None:
    async with harness.open() as box:
        await box.run("mkdir -p /tmp/out/in; echo kept > /tmp/out/kept; ln -s /tmp/out link; mkdir plain")
        for name in ("fs.stat", "fs.mkdir", "fs.remove", "fs.realpath"):
            bad(await box.call(name, path="link/kept"), "outside")
        bad(await box.call("fs.move", path="link/kept", to="mine"), "outside")
        bad(await box.call("fs.move", path="plain", to="link/mine"), "outside")
        bad(await box.call("fs.ls", path="link"), "outside")
        bad(await box.call("fs.stat", path="../x"), "outside")
        good(await box.call("fs.remove", path="link"))
        same("only the link went", await box.out("cat /tmp/out/kept; rm -r /tmp/out"), "kept\n")
        bad(await box.call("fs.remove", path=".", recursive=True), "permission_denied")
