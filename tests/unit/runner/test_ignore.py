"""The rules of .gitignore files: what git leaves out is left out."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crabpot.runner.files import file_tools
from crabpot.runner.search.ignore import IgnoreRules
from crabpot.runner.search.walk import Walk
from crabpot.runner.search.wildcard import expand_braces, translate

RULES = st.lists(
    st.sampled_from(
        [
            "a",
            "*",
            "!a",
            "/a",
            "a/",
            "b/*",
            "**/b",
            "b/**",
            "a/**/b",
            "!b/",
            "?",
            "*.x",
            "!*.x",
            "a*",
            "[ab]",
            "\\#c",
            "\\!d",
            "#c",
            "a b",
            "*b*",
            "!/a/b",
            "**",
            "!**/c.x",
            "a/b",
            "/b/a",
            "ab ",
            "ab\\ ",
            "/*/a",
            "b?",
            "a\\",
            "",
            "!",
            "/",
            "**/a/**",
            "a/*/b",
            "/**/c.x",
            "a**",
            "\\a",
            "*/",
            "!*/",
            "**/",
            "[a-b]b",
            "c.[x-z]",
        ]
    ),
    max_size=5,
)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@settings(max_examples=120, deadline=None)
@given(
    tree=st.sets(
        st.lists(st.sampled_from(["a", "b", "ab", "c.x", "#c", "!d", "a b", "ab "]), min_size=1, max_size=4).map(
            "/".join
        ),
        max_size=12,
    ),
    rules=st.dictionaries(st.sampled_from(["", "a/", "b/", "a/b/"]), RULES, max_size=3),
)
def test_the_files_that_git_would_add_are_those_that_are_found(tree, rules) -> None:
    top = tempfile.mkdtemp()
    context = file_tools.Context(top, ())
    fd = os.open(top, os.O_RDONLY)
    try:
        for name in sorted(tree):
            try:
                os.makedirs(os.path.dirname(f"{top}/{name}"), exist_ok=True)
                with open(f"{top}/{name}", "x"):
                    pass
            except OSError:
                continue
        for folder, lines in rules.items():
            if os.path.isdir(f"{top}/{folder}"):
                with open(f"{top}/{folder}.gitignore", "w") as file:
                    file.write("\n".join(lines) + "\n")
        subprocess.run(["git", "init", "-q", top], check=True, env={**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null"})
        listed = subprocess.run(
            ["git", "-C", top, "ls-files", "-z", "--others", "--exclude-per-directory=.gitignore"],
            check=True,
            capture_output=True,
        ).stdout
        wanted = sorted(path for path in listed.split(b"\0") if path and not path.endswith(b".gitignore"))
        walk = Walk(context, context.locate("."), fd, lambda state, _name, _folder, _back: state)
        got = [found.path for found in walk.entries(1) if found.regular and not found.path.endswith(b".gitignore")]
        assert got == wanted
        assert all(walk.holds(path, 1) for path in got)
    finally:
        os.close(fd)
        context.close()
        shutil.rmtree(top)


@pytest.mark.parametrize(
    ("rules", "path", "folder", "verdict"),
    [
        ("*.log", "deep/x.log", False, True),
        ("*.log\n!x.log", "deep/x.log", False, False),
        ("build/", "build", False, None),
        ("build/", "build", True, True),
        ("/build", "sub/build", True, None),
        ("doc/*.txt", "doc/sub/a.txt", False, None),
        ("foo/**", "foo", True, None),
        ("foo/**", "foo/bar", False, True),
        ("*.{js,ts}", "a.ts", False, True),
        ("\ufeff*.log", "x.log", False, True),
        ("x\r\ny\r\n", "y", False, True),
        ("# x", "# x", False, None),
        ("trailing   ", "trailing", False, True),
        ("[", "[", False, None),
        ("a[!b]c", "a/c", False, True),
    ],
)
def test_rules_mean_what_ripgrep_takes_them_for(rules, path, folder, verdict) -> None:
    assert IgnoreRules(rules.encode()).verdict(path, path.rpartition("/")[2], folder=folder) is verdict


def test_a_line_that_is_not_utf8_ends_the_rules() -> None:
    rules = IgnoreRules(b"a\n\xff\nb\n")
    assert rules.verdict("a", "a", folder=False) is True
    assert rules.verdict("b", "b", folder=False) is None


@pytest.mark.parametrize("kind", ["fifo", "folder", "link out"])
def test_a_file_of_rules_that_is_none_does_not_hold_up_or_mislead_a_search(kind, tmp_path) -> None:
    ws = tmp_path / "ws"
    ws.mkdir()
    (ws / "f").write_text("")
    (tmp_path / "rules").write_text("f\n")
    if kind == "fifo":
        os.mkfifo(ws / ".gitignore")
    elif kind == "folder":
        (ws / ".gitignore").mkdir()
    else:
        (ws / ".gitignore").symlink_to(tmp_path / "rules")
    context = file_tools.Context(str(ws), ())
    fd = os.open(ws, os.O_RDONLY)
    walk = Walk(context, context.locate("."), fd, lambda state, _name, _folder, _back: state)
    assert b"f" in [found.path for found in walk.entries(1)]
    os.close(fd)
    context.close()


@pytest.mark.parametrize(
    ("pattern", "readings"),
    [
        ("a", ["a"]),
        ("{a,b}c", ["ac", "bc"]),
        ("{a,{b,c}}", ["a", "b", "c"]),
        ("{a}", ["{a}"]),
        ("{a,b", ["{a,b"]),
        ("x{,y}", ["x", "xy"]),
        ("\\{a,b}", ["\\{a,b}"]),
        ("{{a,b}}", ["{a}", "{b}"]),
    ],
)
def test_braces_read_as_in_a_shell(pattern, readings) -> None:
    assert expand_braces(pattern, 100) == readings


def test_braces_cannot_be_made_to_explode() -> None:
    assert expand_braces("{1,2}" * 60, 1000) is None


@pytest.mark.parametrize("pattern", ["[", "[!", "[]", "a\\", "{a", "a}", "[z-a]"])
def test_malformed_patterns_are_recognised(pattern) -> None:
    assert translate(pattern) is None
