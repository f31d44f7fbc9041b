"""Promises of `edit` and `apply_patch`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabpot.proof.conformance.promises import Chapter, bad, good, same

if TYPE_CHECKING:
    from crabpot.proof.conformance.harness import Box, Harness

# ruff: noqa: D103  a promise's name is its sentence

promise = Chapter()


async def _content(box: Box, path: str) -> object:
    return good(await box.call("read", path=path))["content"]


def _patch(*lines: str) -> str:
    return "\n".join(("*** Begin Patch", *lines, "*** End Patch"))


@promise
async def one_occurrence_is_replaced(harness: Harness) -> None:
    async with harness.open() as box:
        await box.call("write", path="f", content="one two three\n")
        edited = good(await box.call("edit", path="f", old="two", new="2"))
        same("data", edited, {"replacements": 1})
        same("content", await _content(box, "f"), "one 2 three\n")


@promise
async def an_edit_that_is_not_clear_is_refused(harness: Harness) -> None:
    async with harness.open() as box:
        await box.call("write", path="f", content="a b a\n")
        bad(await box.call("edit", path="f", old="missing", new="x"), "no_match")
        bad(await box.call("edit", path="f", old="a", new="x"), "ambiguous_match")
        bad(await box.call("edit", path="f", old="", new="x"), "invalid_arguments")
        bad(await box.call("edit", path="none", old="a", new="x"), "not_found")
        same("content", await _content(box, "f"), "a b a\n")
        same("all", good(await box.call("edit", path="f", old="a", new="x", all=True)), {"replacements": 2})
        same("content after all", await _content(box, "f"), "x b x\n")


@promise
async def an_edit_keeps_line_endings_mark_and_mode(harness: Harness) -> None:
    async with harness.open() as box:
        await box.run("printf '\\357\\273\\277one\\r\\ntwo\\r\\n' > dos; chmod 640 dos")
        good(await box.call("edit", path="dos", old="one\ntwo", new="1\n2"))
        same("bytes", (await box.out("od -An -tx1 dos | tr -d ' \\n'")), "efbbbf310d0a320d0a")
        same("mode", (await box.out("stat -c %a dos")).strip(), "640")


@promise
async def a_patch_adds_updates_moves_and_deletes(harness: Harness) -> None:
    async with harness.open() as box:
        await box.run("mkdir src; printf 'a\\nb\\nc\\nd\\ne\\n' > src/list; echo old > gone; echo here > from")
        patch = _patch(
            *("*** Add File: new/file.txt", "+hello", "+world"),
            *("*** Update File: src/list", "@@", " a", "-b", "+B", " c", "@@", " d", "-e", "+E", "*** End of File"),
            *("*** Update File: from", "*** Move to: moved/to", "@@", "-here", "+there"),
            "*** Delete File: gone",
        )
        files = good(await box.call("apply_patch", patch=patch))["files"]
        actions = [(one["path"], one["action"]) for one in files]
        expected = [("new/file.txt", "added"), ("src/list", "updated"), ("moved/to", "moved"), ("gone", "deleted")]
        same("files", actions, expected)
        same("added", await _content(box, "new/file.txt"), "hello\nworld\n")
        same("updated", await _content(box, "src/list"), "a\nB\nc\nd\nE\n")
        same("moved", await _content(box, "moved/to"), "there\n")
        same("what is left", sorted((await box.out("ls")).split()), ["moved", "new", "src"])


@promise
async def a_patch_applies_whole_or_not_at_all(harness: Harness) -> None:
    async with harness.open() as box:
        await box.run("echo one > first; echo two > second")
        hunks = ("*** Update File: first", "@@", "-one", "+1", "*** Update File: second", "@@", "-missing", "+2")
        bad(await box.call("apply_patch", patch=_patch(*hunks, "*** Add File: third", "+3")), "no_match", "conflict")
        same("first", await _content(box, "first"), "one\n")
        same("what is there", sorted((await box.out("ls -A")).split()), ["first", "second"])


@promise
async def a_patch_replaces_what_it_adds_or_moves_a_file_to(harness: Harness) -> None:
    async with harness.open() as box:
        for name in ("there", "from", "to"):
            await box.call("write", path=name, content=f"{name}\n")
        lines = (" *** Add File: there ", "+new", "*** Update File: from", "*** Move to: to", "@@", "-from", "+moved")
        good(await box.call("apply_patch", patch=_patch(*lines)))
        same("files", await box.out("cat there to; ls"), "new\nmoved\nthere\nto\n")


@promise
async def a_patch_that_is_wrong_says_so(harness: Harness) -> None:
    async with harness.open() as box:
        await box.run("echo x > there")
        bad(await box.call("apply_patch", patch="no patch at all"), "invalid_arguments")
        bad(await box.call("apply_patch", patch=_patch("*** Delete File: missing")), "not_found")
        bad(await box.call("apply_patch", patch=_patch("*** Add File: ../outside", "+x")), "outside")
