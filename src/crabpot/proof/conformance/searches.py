"""Promises of `grep` and `glob`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabpot.proof.conformance.promises import Chapter, bad, good, same

if TYPE_CHECKING:
    from crabpot.proof.conformance.harness import Harness

# ruff: noqa: D103  a promise's name is its sentence

promise = Chapter()

_TREE = (
    "mkdir -p src/deep docs .git build; printf 'build/\\n*.log\\n' > .gitignore; "
    "printf 'alpha\\nBeta crab\\ngamma\\n' > src/one.py; printf 'crab one\\ncrab two\\n' > src/deep/two.py; "
    "echo 'a crab' > docs/page.md; echo crab > build/out.txt; echo crab > noise.log; printf 'crab\\0\\1' > binary; "
    "echo crab > .git/config"
)


@promise
async def lines_are_found_with_what_stands_around_them(harness: Harness) -> None:
    async with harness.open() as box:
        await box.run(_TREE)
        found = good(await box.call("grep", pattern="Beta", path="src", context=1))["matches"]
        around = {"before": ["alpha"], "after": ["gamma"]}
        same("matches", found, [{"path": "src/one.py", "line": 2, "text": "Beta crab", **around}])


@promise
async def a_search_leaves_out_what_is_ignored_hidden_or_binary(harness: Harness) -> None:
    async with harness.open() as box:
        await box.run(_TREE)
        found = good(await box.call("grep", pattern="crab"))["matches"]
        where = sorted({match["path"] for match in found})
        same("files", where, ["docs/page.md", "src/deep/two.py", "src/one.py"])
        only = good(await box.call("grep", pattern="CRAB", glob="*.md", ignore_case=True))["matches"]
        same("by glob, whatever the case", [match["path"] for match in only], ["docs/page.md"])


@promise
async def a_search_stops_at_its_limit_and_says_so(harness: Harness) -> None:
    async with harness.open() as box:
        await box.run("seq 1 500 > numbers")
        result = await box.call("grep", pattern="[0-9]", limit=20)
        same("matches", len(good(result)["matches"]), 20)
        same("truncated", result.truncated, True)


@promise
async def a_pattern_that_is_none_is_refused(harness: Harness) -> None:
    async with harness.open() as box:
        bad(await box.call("grep", pattern="("), "invalid_arguments")
        bad(await box.call("grep", pattern="x", path="missing"), "not_found")
        bad(await box.call("glob", pattern="../*"), "invalid_arguments", "outside")
        same("nothing found is a success", good(await box.call("grep", pattern="x"))["matches"], [])


@promise
async def a_pattern_without_end_is_stopped_by_the_time_limit(harness: Harness) -> None:
    async with harness.open(limits={"timeLimit": 1}) as box:
        await box.call("write", path="trap", content="a" * 40 + "!")
        bad(await box.call("grep", pattern="(a+)+(?=$)"), "timeout")
        same("it answers", await box.out("echo alive"), "alive\n")


@promise
async def paths_are_found_newest_first(harness: Harness) -> None:
    async with harness.open() as box:
        await box.run(_TREE)
        await box.run("touch -d 2001-01-01 src/one.py; touch -d 2002-01-01 src/deep/two.py")
        same("paths", good(await box.call("glob", pattern="**/*.py"))["paths"], ["src/deep/two.py", "src/one.py"])
        same("below a folder", good(await box.call("glob", pattern="*.py", path="src"))["paths"], ["src/one.py"])
        same("with braces", good(await box.call("glob", pattern="docs/*.{md,txt}"))["paths"], ["docs/page.md"])
        same("nothing", good(await box.call("glob", pattern="*.rs"))["paths"], [])
