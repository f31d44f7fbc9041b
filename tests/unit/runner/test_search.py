"""grep and glob: what they find, what they leave out, and the same answers with and without ripgrep."""

from __future__ import annotations

import os
import posix
import subprocess

import pytest

from crabpot.runner.core import frames
from crabpot.runner.files import file_tools
from crabpot.runner.search import ripgrep, search_tools
from tests.unit.runner.file_checks import code, fill, found

EVERY_WAY = pytest.mark.parametrize("how", [{"few": 0}, {}, {"ripgrep": False}], ids=["ripgrep", "few", "alone"])


@EVERY_WAY
def test_matches_come_by_path_and_line_with_what_is_around_them(how, ctx, ws) -> None:
    fill(ws, {"b.txt": "one\ntwo\nthree\nfour\n", "a/x": "TWO\n", "a.txt": "two", "a-b": "two"})
    answer = search_tools.grep({"pattern": "t[w]o", "context": 1}, ctx, **how)["data"]
    assert answer == {
        "matches": [
            {"path": "a-b", "line": 1, "text": "two", "before": [], "after": []},
            {"path": "a.txt", "line": 1, "text": "two", "before": [], "after": []},
            {"path": "b.txt", "line": 2, "text": "two", "before": ["one"], "after": ["three"]},
        ],
        "truncated": False,
    }
    assert found(ctx, how, pattern="two", ignore_case=True) == [("a-b", 1), ("a.txt", 1), ("a/x", 1), ("b.txt", 2)]


def asked(ctx, tmp_path, monkeypatch, pattern: str, **how) -> bool:
    """Search with a ripgrep that notes that it was started; return whether it was."""
    told = tmp_path / "told"
    told.unlink(missing_ok=True)
    (tmp_path / "bin").mkdir(exist_ok=True)
    (tmp_path / "bin/rg").write_text(f"#!/bin/sh\n: >{told}\nprintf './a\\000./pipe\\000'\n")
    (tmp_path / "bin/rg").chmod(0o755)
    monkeypatch.setitem(posix.environ, b"PATH", os.fsencode(tmp_path / "bin"))
    # Its limit is ours while it starts, and a process of many tests may have more.
    monkeypatch.setattr(ripgrep, "_MEMORY_LIMIT", 1 << 40)
    assert found(ctx, how, pattern=pattern) == [("a", 1)]
    return told.exists()


def test_ripgrep_is_not_started_for_a_plain_text_among_few_names(ctx, ws, tmp_path, monkeypatch) -> None:
    fill(ws, {"a": "x", "b": "", ".hidden/c": "", "d/e": ""})  # 6 names, 5 of which are looked at.
    assert not asked(ctx, tmp_path, monkeypatch, "x")
    assert not asked(ctx, tmp_path, monkeypatch, "x", few=5)
    assert asked(ctx, tmp_path, monkeypatch, "x", few=4)
    assert asked(ctx, tmp_path, monkeypatch, "[x]")
    monkeypatch.setattr(posix, "sched_getaffinity", lambda _pid: range(1024))
    assert asked(ctx, tmp_path, monkeypatch, "x")


def test_what_is_a_pipe_by_now_is_not_searched(ctx, ws, tmp_path, monkeypatch) -> None:
    fill(ws, {"a": "x"})
    os.mkfifo(ws / "pipe")
    with open(os.open(ws / "pipe", os.O_RDWR), "wb", buffering=0) as pipe:
        pipe.write(b"x\n")
        assert asked(ctx, tmp_path, monkeypatch, "x", few=0)


@EVERY_WAY
def test_context_of_neighbouring_matches_is_given_to_each(how, ctx, ws) -> None:
    fill(ws, {"f": "a\nhit 1\nhit 2\nb\nc\nd\n"})
    matches = search_tools.grep({"pattern": "hit", "context": 2}, ctx, **how)["data"]["matches"]
    assert [(match["before"], match["after"]) for match in matches] == [
        (["a"], ["hit 2", "b"]),
        (["a", "hit 1"], ["b", "c"]),
    ]


@EVERY_WAY
def test_a_search_is_narrowed_by_path_and_glob(how, ctx, ws) -> None:
    fill(ws, {"src/a.py": "x", "src/b.js": "x", "src/deep/c.py": "x", "top.py": "x", "src/d{1}.txt": "x"})
    assert found(ctx, how, pattern="x", path="src") == [
        ("src/a.py", 1),
        ("src/b.js", 1),
        ("src/deep/c.py", 1),
        ("src/d{1}.txt", 1),
    ]
    assert found(ctx, how, pattern="x", glob="*.py") == [("src/a.py", 1), ("src/deep/c.py", 1), ("top.py", 1)]
    assert found(ctx, how, pattern="x", glob="src/*.py") == [("src/a.py", 1)]
    assert found(ctx, how, pattern="x", glob="/src/**/*.{py,js}") == [
        ("src/a.py", 1),
        ("src/b.js", 1),
        ("src/deep/c.py", 1),
    ]
    assert found(ctx, how, pattern="x", glob="!*.py", path="src") == [("src/b.js", 1), ("src/d{1}.txt", 1)]
    assert found(ctx, how, pattern="x", path="top.py") == [("top.py", 1)]
    assert found(ctx, how, pattern="x", path=str(ws / "src/deep")) == [("src/deep/c.py", 1)]


@EVERY_WAY
def test_hidden_binary_and_ignored_files_are_left_out(how, ctx, ws) -> None:
    fill(
        ws,
        {
            ".hidden": "x",
            ".git/config": "x",
            ".dir/f": "x",
            "binary": b"x\0x\n",
            "late-nul": b"x\n" + b"y" * 9000 + b"\0 x here\nx\0y\n",
            "node_modules/m.js": "x",
            "build/out": "x",
            "src/build/out": "x",
            "keep.log": "x",
            "drop.log": "x",
            "sub/only-here": "x",
            "only-here": "x",
            ".gitignore": "node_modules/\n/build\n*.log\n!keep.log\n!.wanted\n",
            ".wanted": "x",
            "sub/.gitignore": "only-here\n",
            ".ignore": "src\n",
        },
    )
    wanted = [
        (".wanted", 1),
        ("keep.log", 1),
        ("late-nul", 1),
        ("late-nul", 2),
        ("late-nul", 3),
        ("only-here", 1),
        ("src/build/out", 1),
    ]
    assert found(ctx, how, pattern="x") == wanted
    assert found(ctx, how, pattern="x", path="sub") == []
    assert found(ctx, how, pattern="x", path="build") == [("build/out", 1)]
    assert found(ctx, how, pattern="x", path="sub/only-here") == [("sub/only-here", 1)]
    assert found(ctx, how, pattern="x", path="binary") == []
    assert found(ctx, how, pattern="^ x here$|^y$") == [("late-nul", 2), ("late-nul", 3)]


@EVERY_WAY
def test_rules_of_folders_above_count_and_those_above_the_root_do_not(how, tmp_path) -> None:
    root = tmp_path / "up/ws"
    fill(tmp_path, {".gitignore": "*\n", "up/.gitignore": "*.txt\n"})
    fill(
        root,
        {
            ".gitignore": "*.log\n/src/gen\n",
            "src/.gitignore": "!a.log\n",
            "src/deep/a.log": "x",
            "src/deep/b.log": "x",
            "src/gen/c": "x",
            "t.txt": "x",
        },
    )
    context = file_tools.Context(str(root), (str(root),))
    assert found(context, how, pattern="x") == [("src/deep/a.log", 1), ("t.txt", 1)]
    assert found(context, how, pattern="x", path="src/deep") == [("src/deep/a.log", 1)]
    context.close()


@EVERY_WAY
def test_a_file_of_rules_may_be_a_link_inside_the_root(how, ctx, ws) -> None:
    fill(ws, {"rules": "*.log\n", "sub/deep/a.log": "x", "sub/deep/b": "x", "abs/c.log": "x"})
    (ws / "sub/.gitignore").symlink_to("../rules")
    (ws / "abs/.gitignore").symlink_to(ws / "rules")
    assert found(ctx, how, pattern="x") == [("sub/deep/b", 1)]
    assert found(ctx, how, pattern="x", path="sub") == [("sub/deep/b", 1)]
    assert found(ctx, how, pattern="x", path="abs") == []


@EVERY_WAY
def test_links_are_never_followed_by_a_search(how, ctx, ws, tmp_path) -> None:
    fill(tmp_path, {"outside/secret": "x"})
    fill(ws, {"real/f": "x"})
    for name, target in (
        ("folder", tmp_path / "outside"),
        ("file", tmp_path / "outside/secret"),
        ("inside", "real"),
        ("loop", "."),
    ):
        (ws / name).symlink_to(target)
    assert found(ctx, how, pattern="x") == [("real/f", 1)]
    assert search_tools.glob({"pattern": "**/f"}, ctx)["data"]["paths"] == ["real/f"]
    assert sorted(search_tools.glob({"pattern": "*"}, ctx)["data"]["paths"]) == ["file", "folder", "inside", "loop"]
    assert code(search_tools.grep, {"pattern": "x", "path": "folder"}, ctx) == "outside"
    assert code(search_tools.grep, {"pattern": "x", "path": "file"}, ctx) == "outside"
    assert code(search_tools.glob, {"pattern": "*", "path": "folder"}, ctx) == "outside"
    assert found(ctx, how, pattern="x", path="inside") == [("inside/f", 1)]


@EVERY_WAY
def test_strange_names_and_bytes_do_not_crash(how, ctx, ws) -> None:
    name = os.fsencode(ws) + b"/bad\xff\nname"
    os.mkdir(name)
    with open(name + b"/f\x80", "wb") as file:
        file.write(b"x \xff\xfe y\r\n")
    os.mkfifo(ws / "fifo")
    matches = search_tools.grep({"pattern": "x .. y$"}, ctx, **how)["data"]["matches"]
    assert matches == [
        {"path": "bad\ufffd\nname/f\ufffd", "line": 1, "text": "x \ufffd\ufffd y", "before": [], "after": []}
    ]
    paths = search_tools.glob({"pattern": "**/f*"}, ctx)["data"]["paths"]
    assert sorted(paths) == ["bad\ufffd\nname/f\ufffd", "fifo"], "in which order depends on the clock's ticks"
    frames.encode({"data": matches})
    assert code(search_tools.grep, {"pattern": "x", "path": "fifo"}, ctx) == "not_a_file"


@EVERY_WAY
def test_a_result_is_limited_and_long_lines_are_cut(how, ctx, ws) -> None:
    fill(ws, {"a": "x\n" * 150, "long": "x" * 5000 + "\n", "z": "x" * (3 << 20) + "end\nnext end\n"})
    answer = search_tools.grep({"pattern": "x"}, ctx, **how)["data"]
    assert (len(answer["matches"]), answer["truncated"]) == (100, True)
    answer = search_tools.grep({"pattern": "x", "limit": 153}, ctx, **how)["data"]
    assert (len(answer["matches"]), answer["truncated"]) == (153, False)
    assert answer["matches"][150]["text"] == "x" * search_tools.LINE_LIMIT
    assert found(ctx, how, pattern="end") == [("z", 2)]


@EVERY_WAY
def test_a_result_always_fits_into_a_frame(how, ctx, ws) -> None:
    fill(ws, {"f": ("\x01ä" * 1500 + "\n") * 1000})
    data = search_tools.grep({"pattern": "ä", "limit": 1000, "context": 20}, ctx, **how)["data"]
    assert data["truncated"] is True
    assert data["matches"]
    frames.encode({"id": "1", "data": data})


# Deeper than Python recurses and than a process may have files open; the last is deeper than a path can be long.
LEVELS = ("dd",) * 1100 + ("d" * 250,) * 4
FILES = (300, 1100, len(LEVELS))


@pytest.fixture
def deep(ws):
    """A tree of one branch, with files on the way down: return the paths of those that a path can reach."""
    here = os.open(ws, os.O_RDONLY)
    for depth in range(len(LEVELS) + 1):
        if depth in FILES:
            fd = os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=here)
            os.write(fd, b"x")
            os.close(fd)
        if depth < len(LEVELS):
            os.mkdir(LEVELS[depth], dir_fd=here)
            below = os.open(LEVELS[depth], os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = below
    os.close(here)
    yield sorted("/".join((*LEVELS[:depth], "f")) for depth in FILES[:-1])
    subprocess.run(["rm", "-rf", ws / "dd"], check=True)


@pytest.mark.slow
@EVERY_WAY
def test_a_deep_tree_does_not_exhaust_a_search(how, ctx, deep) -> None:
    assert found(ctx, how, pattern="x") == [(path, 1) for path in deep]


@pytest.mark.slow
def test_a_deep_tree_does_not_exhaust_a_listing(ctx, deep) -> None:
    assert sorted(search_tools.glob({"pattern": "**/f"}, ctx)["data"]["paths"]) == deep


@pytest.mark.parametrize(
    "args",
    [
        {},
        {"pattern": 3},
        {"pattern": "("},
        {"pattern": "[[:alpha:]]"},
        {"pattern": r"\p{L}"},
        {"pattern": "x", "limit": 0},
        {"pattern": "x", "limit": 1001},
        {"pattern": "x", "context": 21},
        {"pattern": "x", "context": -1},
        {"pattern": "x", "glob": "a["},
        {"pattern": "x", "glob": "{a"},
        {"pattern": "x", "ignore_case": 1},
        {"pattern": "x", "path": ""},
        {"pattern": "x", "regex": True},
    ],
)
def test_wrong_arguments_of_grep_are_refused(args, ctx) -> None:
    assert code(search_tools.grep, args, ctx) == "invalid_arguments"
