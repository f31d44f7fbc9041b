"""glob: what its patterns name, newest first."""

from __future__ import annotations

import glob as standard_glob
import os
import shutil
import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crabpot.runner.files import file_tools
from crabpot.runner.search import search_tools
from tests.unit.runner.file_checks import code, fill, found


def paths(ctx, pattern: str, **more) -> list[str]:
    return sorted(search_tools.glob({"pattern": pattern, **more}, ctx)["data"]["paths"])


def test_glob_patterns_name_files_from_the_folder_down(ctx, ws) -> None:
    fill(
        ws,
        {
            "a.py": "",
            "b.js": "",
            "src/c.py": "",
            "src/deep/d.py": "",
            "src/deep/e{f}": "",
            ".hid/g.py": "",
            ".git/h.py": "",
            ".env": "",
            "src/[x]": "",
        },
    )
    assert paths(ctx, "*.py") == ["a.py"]
    assert paths(ctx, "**/*.py") == ["a.py", "src/c.py", "src/deep/d.py"]
    assert paths(ctx, "src/**") == ["src/[x]", "src/c.py", "src/deep/d.py", "src/deep/e{f}"]
    assert paths(ctx, "src/**/d.py") == ["src/deep/d.py"]
    assert paths(ctx, "**/deep/*") == ["src/deep/d.py", "src/deep/e{f}"]
    assert paths(ctx, "{a,b}.{py,js}") == ["a.py", "b.js"]
    assert paths(ctx, "{src/{c,deep/d},a}.py") == ["a.py", "src/c.py", "src/deep/d.py"]
    assert paths(ctx, "**/e{f}") == ["src/deep/e{f}"]
    assert paths(ctx, "?.[jp][!z]") == ["a.py", "b.js"]
    assert paths(ctx, "**/\\[x\\]") == ["src/[x]"]
    assert paths(ctx, ".*") == [".env"]
    assert paths(ctx, ".hid/*") == [".hid/g.py"]
    assert paths(ctx, ".git/**") == []
    assert paths(ctx, "*/") == ["src"]
    assert paths(ctx, "**/deep/") == ["src/deep"]
    assert paths(ctx, "*.py", path="src") == ["src/c.py"]
    assert paths(ctx, "./src/*.py") == ["src/c.py"]
    assert paths(ctx, "**/**/d.py") == ["src/deep/d.py"]
    assert paths(ctx, "none/**") == []


def test_glob_gives_the_newest_first_and_respects_rules(ctx, ws) -> None:
    fill(ws, {"old": "", "new": "", "mid": "", "same": "", "x.log": "", ".gitignore": "*.log\n"})
    for name, when in (("old", 1), ("mid", 5), ("same", 5), ("new", 9)):
        os.utime(ws / name, ns=(0, when))
    assert search_tools.glob({"pattern": "*"}, ctx)["data"] == {
        "paths": ["new", "mid", "same", "old"],
        "truncated": False,
    }
    assert search_tools.glob({"pattern": "*", "limit": 2}, ctx)["data"] == {"paths": ["new", "mid"], "truncated": True}


def test_the_newest_are_kept_among_very_many(ctx, ws) -> None:
    for number in range(500):
        os.close(os.open(ws / f"{number}", os.O_CREAT))
        os.utime(ws / f"{number}", ns=(0, number * 1000))
    assert search_tools.glob({"pattern": "*", "limit": 3}, ctx)["data"] == {
        "paths": ["499", "498", "497"],
        "truncated": True,
    }


@pytest.mark.parametrize("pattern", ["", "/etc/*", "../*", "a/../b", "[", "a\\", "./", "{1,2}" * 30])
def test_wrong_patterns_of_glob_are_refused(pattern, ctx) -> None:
    assert code(search_tools.glob, {"pattern": pattern}, ctx) == "invalid_arguments"


def test_paths_outside_of_the_workspace_are_absolute(ctx, tmp_path) -> None:
    fill(tmp_path, {"else/f.py": "needle"})
    assert paths(ctx, "*.py", path=str(tmp_path / "else")) == [str(tmp_path / "else/f.py")]
    assert found(ctx, {}, pattern="needle", path=str(tmp_path / "else")) == [(str(tmp_path / "else/f.py"), 1)]


@settings(max_examples=200, deadline=None)
@given(
    tree=st.sets(st.lists(st.sampled_from(["a", "b", "ab", "a.b"]), min_size=1, max_size=4).map("/".join), max_size=10),
    pattern=st.lists(st.sampled_from(["**", "*", "a", "a*", "?", "[ab]", "[!a]", "*b"]), min_size=1, max_size=4).map(
        "/".join
    ),
)
def test_glob_agrees_with_the_standard_library(tree, pattern) -> None:
    top = tempfile.mkdtemp()
    context = file_tools.Context(top, ())
    try:
        for name in sorted(tree):
            try:
                os.makedirs(os.path.dirname(f"{top}/{name}"), exist_ok=True)
                with open(f"{top}/{name}", "x"):
                    pass
            except OSError:
                continue
        listed = standard_glob.glob(pattern, root_dir=top, recursive=True)
        wanted = sorted({name for name in listed if os.path.isfile(f"{top}/{name}")})
        assert paths(context, pattern) == wanted
    finally:
        context.close()
        shutil.rmtree(top)
