"""glob in a tree of many folders: several processes find what one would find, whatever becomes of them."""

from __future__ import annotations

import os
import resource
import select
import shutil
import signal
import tempfile
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crabpot.runner.files import file_tools
from crabpot.runner.search import search_tools
from crabpot.runner.search.globbing import Glob
from crabpot.runner.search.newest import Search
from crabpot.runner.search.walk import Walk
from tests.unit.runner.file_checks import as_nobody, fill

# More than one process walks alone.
FOLDERS = 400
EVERYTHING = Glob("**")
PARTS = ["a", "b", "ab", "é", ".h", "x.py", "a b", "-n", "new\nline", "\udcff", ".git"]
RULES = ["a", "*", "!a", "/a", "a/", "b/*", "**/b", "!b/", "*.py", "!*.py", "[!a]", "!.h", "-n", "é"]
PATTERNS = ["**", "**/*", "*/*", "**/a", "**/.*", "**/[!a]*", "**/*.py", "**/", "*/a/", "**/{a,b}/**", "7/**", "**/?"]


class Watched(Walk):
    """A walk that tells, by a byte in a pipe, of each folder that a helper lists; its own process lets it go first."""

    patience_s = 10

    def __init__(self, *args) -> None:
        super().__init__(*args)
        self.home = os.getpid()
        self.reader, self.writer = os.pipe()

    def inside(self, above, **times):
        if os.getpid() != self.home:
            os.write(self.writer, b"x")
        elif above.path:
            select.select([self.reader], [], [], self.patience_s)
        return super().inside(above, **times)

    def told(self) -> int:
        os.close(self.writer)
        told = len(os.read(self.reader, 2 * FOLDERS))
        os.close(self.reader)
        return told


class Dying(Walk):
    """A walk that kills whatever process helps with it."""

    def __init__(self, *args) -> None:
        super().__init__(*args)
        self.home = os.getpid()

    def inside(self, above, **times):
        if os.getpid() != self.home:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().inside(above, **times)


@pytest.fixture
def many(ws):
    """A tree of many folders; return the names of its files, newest first."""
    for number in range(FOLDERS):
        fill(ws, {f"{number}/f": ""})
        os.utime(ws / f"{number}/f", ns=(0, number * 1000))
    return [f"{number}/f" for number in reversed(range(FOLDERS))]


@pytest.fixture
def walking(ctx):
    """Return a function that makes a walk of some type below the workspace, for the pattern of all files."""
    place = ctx.locate(".")
    fd = ctx.open(place, os.O_RDONLY | os.O_DIRECTORY)
    yield lambda walk_type: walk_type(ctx, place, fd, EVERYTHING.step, EVERYTHING.names)
    os.close(fd)


def answer(ctx, processes: int, pattern: str = "**", **more) -> dict[str, Any]:
    return search_tools.glob({"pattern": pattern, **more}, ctx, processes=processes)["data"]


def found(walk: Walk, processes: int) -> list[str]:
    return [os.fsdecode(path) for _, path in Search(walk, EVERYTHING, 1000, processes).run().paths]


def test_a_tree_of_many_folders_is_shared_with_processes_that_are_gone_afterwards(walking, many) -> None:
    walk = walking(Watched)
    before = sorted(os.listdir("/proc/self/fd"))
    assert found(walk, 2) == many
    assert sorted(os.listdir("/proc/self/fd")) == before
    assert 1 <= walk.told() <= FOLDERS
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_a_tree_of_few_folders_is_not_shared(walking, ws) -> None:
    fill(ws, {f"{number}/f": "" for number in range(100)})
    walk = walking(Watched)
    walk.patience_s = 0
    assert len(found(walk, 4)) == 100
    assert walk.told() == 0


def test_only_the_newest_of_all_processes_together_count(ctx, many) -> None:
    for processes in (1, 2, 5):
        assert answer(ctx, processes, limit=3) == {"paths": many[:3], "truncated": True}
        assert answer(ctx, processes, limit=FOLDERS) == {"paths": many, "truncated": False}


def test_what_a_killed_process_would_have_found_is_found_all_the_same(walking, many) -> None:
    for processes in (2, 4):
        assert found(walking(Dying), processes) == many


def test_where_no_more_processes_are_allowed_one_finds_everything(ctx, ws, many) -> None:
    os.chmod(ws, 0o755)

    def without_forks() -> int:
        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
        with pytest.raises(BlockingIOError):
            os.fork()
        return answer(ctx, 3)["paths"] != many

    assert as_nobody(without_forks) == 0


def test_links_pipes_and_strange_names_are_found_by_every_process(ctx, ws, many) -> None:
    for number in range(FOLDERS):
        (ws / f"{number}/link").symlink_to("/etc")
        os.mkfifo(ws / f"{number}/-fifo")
        os.close(os.open(os.fsencode(ws) + b"/%d/new\nline \xff" % number, os.O_CREAT))
    alone = answer(ctx, 1, "*/*", limit=4 * FOLDERS)
    assert {"7/f", "7/link", "7/-fifo", "7/new\nline \ufffd"} <= set(alone["paths"])
    assert len(alone["paths"]) == 4 * FOLDERS
    assert answer(ctx, 3, "*/*", limit=4 * FOLDERS) == alone


def test_folders_that_may_not_be_listed_are_left_out_by_every_process(ctx, ws, many) -> None:
    for number in range(0, FOLDERS, 2):
        os.chmod(ws / f"{number}", 0)
    assert as_nobody(lambda: answer(ctx, 3)["paths"] != many[::2]) == 0


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    tree=st.dictionaries(
        st.lists(st.sampled_from(PARTS), min_size=1, max_size=3).map("/".join), st.integers(0, 3), max_size=10
    ),
    rules=st.dictionaries(
        st.sampled_from(["", "7/", "7/a/"]), st.lists(st.sampled_from(RULES), max_size=3), max_size=2
    ),
    pattern=st.sampled_from(PATTERNS),
    limit=st.sampled_from([1, 3, 1000]),
)
def test_the_answers_of_one_process_and_of_several_are_the_same(tree, rules, pattern, limit) -> None:
    top = tempfile.mkdtemp()
    context = file_tools.Context(top, ())
    try:
        for number in range(FOLDERS):
            os.mkdir(f"{top}/{number}")
        for number, (name, when) in enumerate(tree.items()):
            for path in (f"{top}/{name}", f"{top}/7/{name}", f"{top}/{number}/{name}"):
                try:
                    os.makedirs(os.path.dirname(path), exist_ok=True)
                    os.close(os.open(path, os.O_CREAT))
                    os.utime(path, ns=(0, when))
                except OSError:
                    continue
        for folder, lines in rules.items():
            if os.path.isdir(f"{top}/{folder}"):
                with open(f"{top}/{folder}.gitignore", "w") as file:
                    file.write("\n".join(lines))
        assert answer(context, 3, pattern, limit=limit) == answer(context, 1, pattern, limit=limit)
    finally:
        context.close()
        shutil.rmtree(top)
