"""ripgrep only narrows a search down: the answers are the same without it."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crabpot.runner.core.failure import ToolError
from crabpot.runner.files import file_tools
from crabpot.runner.search import ripgrep, search_tools
from crabpot.runner.search.lines import Matcher
from tests.unit.runner.test_prefilter import PATTERNS

if TYPE_CHECKING:
    from pathlib import Path

needs_ripgrep = pytest.mark.skipif(ripgrep.find_program() is None, reason="ripgrep is not installed")

PARTS = ["a", "b", "ab", "é", ".h", "x.py", "a b", "[a]", "-n", "#c", "!d"]
LINES = st.text(alphabet="aAbB é_\t0\r", max_size=8).map(str.encode) | st.sampled_from(
    [
        b"",
        b"a\xffb",
        b"\xe9",
        b"ab\0ab",
        b"K k",
        "ſtraße".encode(),
        b"a\x1cb",
        "٣".encode(),
        b"\xf0\x9f\xa6\x80",
        b"\xed\xa0\x80",
    ]
)
CONTENT = st.tuples(st.lists(LINES, max_size=4), st.booleans()).map(
    lambda pair: b"\n".join(pair[0]) + (b"\n" if pair[1] else b"")
)
RULES = st.sampled_from(
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
        "*.py",
        "!*.py",
        "a*",
        "[ab]",
        "[!a]",
        "{a,b}",
        "\\#c",
        "\\!d",
        "#c",
        "!.h",
        ".h",
        "a b",
        "é",
        "*é",
        "**",
        "!**/x.py",
        "a/b",
        "/b/a",
        "ab ",
        "-n",
        "\\[a\\]",
        "x.p[x-z]",
        "/*/a",
        "b?",
        "a\\",
        "[z",
        "",
        "!",
        "/",
    ]
)

# Only the first counts; ripgrep has rules of its own in the others.
RULE_FILES = [".gitignore", ".gitignore", ".gitignore", ".ignore", ".rgignore"]


def outcome(args, context, **how) -> Any:
    try:
        return search_tools.grep(args, context, **how)["data"]
    except ToolError as error:
        return error.code


@pytest.mark.slow
@needs_ripgrep
@settings(max_examples=150, deadline=None)
@given(
    tree=st.dictionaries(st.lists(st.sampled_from(PARTS), min_size=1, max_size=3).map("/".join), CONTENT, max_size=10),
    rules=st.dictionaries(
        st.tuples(st.sampled_from(["", "a/", "b/", "ab/", "a/b/"]), st.sampled_from(RULE_FILES)),
        st.lists(RULES, max_size=4),
        max_size=3,
    ),
    args=st.fixed_dictionaries(
        {
            "pattern": PATTERNS | st.sampled_from(["a", "b", "ab", "b_"]),
            "ignore_case": st.booleans(),
            "context": st.integers(0, 2),
            "glob": st.none() | st.sampled_from(["*.py", "a*", "!b", "a/**", "*/b", "?", "{a,x.py}"]),
            "path": st.sampled_from([None, "a", "b"]),
        }
    ),
)
def test_the_answers_are_the_same_with_and_without_ripgrep(tree, rules, args) -> None:
    top = tempfile.mkdtemp()
    context = file_tools.Context(top, ())
    try:
        for name, content in tree.items():
            try:
                os.makedirs(os.path.dirname(f"{top}/{name}"), exist_ok=True)
                with open(f"{top}/{name}", "wb") as file:
                    file.write(content)
            except OSError:
                continue
        for (folder, name), lines in rules.items():
            if os.path.isdir(f"{top}/{folder}"):
                with open(f"{top}/{folder}{name}", "w") as file:
                    file.write("\n".join(lines))
        alone = outcome(args, context, ripgrep=False)
        assert outcome(args, context, few=0) == alone
        assert outcome(args, context) == alone
    finally:
        context.close()
        shutil.rmtree(top)


@needs_ripgrep
@pytest.mark.parametrize("name", RULE_FILES[-2:])
def test_no_file_of_ripgrep_s_own_rules_hides_anything(name, tmp_path) -> None:
    (tmp_path / "inner").mkdir()
    for path in ("hidden.py", "inner/hidden.py", "shown"):
        (tmp_path / path).write_text("a needle\n")
    (tmp_path / "inner" / name).write_text("*.py\n")
    context = file_tools.Context(str(tmp_path), ())
    found = outcome({"pattern": "n..dle"}, context, few=0)["matches"]
    context.close()
    assert [match["path"] for match in found] == ["hidden.py", "inner/hidden.py", "shown"]


@needs_ripgrep
def test_an_empty_line_is_found_after_a_last_nul(tmp_path) -> None:
    (tmp_path / "late").write_bytes(b"some\n" * 4096 + b"\xff\0")
    context = file_tools.Context(str(tmp_path), ())
    found = outcome({"pattern": "^$"}, context, few=0)["matches"]
    context.close()
    assert [match["line"] for match in found] == [4097]


@needs_ripgrep
def test_ripgrep_rules_out_files_that_cannot_match(tmp_path) -> None:
    program = ripgrep.find_program()
    (tmp_path / "d").mkdir()
    (tmp_path / "d/yes").write_text("def needle():\n")
    (tmp_path / "no").write_text("def thread():\n")
    (tmp_path / "shut").write_text("needle")
    os.chmod(tmp_path / "shut", 0)
    widened = Matcher(r"\bdef\s+needle\b", ignore_case=False).widened
    assert listed(program, tmp_path, widened, None) == [b"d/yes"]
    assert listed(program, tmp_path, widened, "*.py") == []
    assert listed(program, tmp_path, "(", None) is None
    assert listed(b"/no/such/rg", tmp_path, widened, None) is None
    killed = tmp_path / "killed"
    killed.write_text("#!/bin/sh\nprintf './no\\000'\nkill -9 $$\n")
    os.chmod(killed, 0o755)
    assert listed(bytes(killed), tmp_path, widened, None) is None


def listed(program: bytes, folder: Path, expression: str, name_glob: str | None) -> object:
    """Ask a process of its own: while ripgrep starts its limit of memory is ours, and the tests may use more by now."""
    asked = f"{program!r}, os.open({str(folder)!r}, os.O_RDONLY), {expression!r}, {name_glob!r}"
    code = f"import os; from crabpot.runner.search import ripgrep; print(ripgrep.list_candidates({asked}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return ast.literal_eval(done.stdout)
