"""Finding lines: the short ways find what the long way finds, whatever is in the file."""

from __future__ import annotations

import os
import re
import resource
import string
import subprocess
import sys
import tempfile
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crabpot.runner.search import ripgrep
from crabpot.runner.search.lines import Matcher


def compiles(pattern: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            re.compile(pattern)
        except (re.error, Warning):
            return False
    return True


# Long enough that a file of such lines is read in several pieces.
LONG = 300_000
WORDS = st.sampled_from([b"ab", b"b", b"a b", b"\r", b"\0", b"\xff", "é".encode(), b"\xf0\x9f", b"x" * 40, b""])
CONTENT = st.lists(st.lists(WORDS, max_size=4).map(b"".join), max_size=8).map(b"\n".join) | st.binary(max_size=60)
PATTERNS = st.sampled_from(
    ["ab", "b", "a b", "x", "a+b", "ab$", "^ab", r"a\sb", "a.b", "(ab|b)", "\r", r"\n", "b\nab", "é", r"\x00", "[^a]b"]
) | st.text(alphabet=string.printable, min_size=1, max_size=3).filter(compiles)


def found(pattern: str, data: bytes, *, context: int = 0) -> list[tuple[int, str]]:
    """Search a real file of this content."""
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        os.lseek(file.fileno(), 0, os.SEEK_SET)
        matcher = Matcher(pattern, ignore_case=False)
        return found_in(matcher, file.fileno(), context)


def found_in(matcher: Matcher, fd: int, context: int = 0) -> list[tuple[int, str]]:
    """Search an open file."""
    begun = matcher.begin(fd)
    return [] if begun is None else [(hit.number, hit.text) for hit in matcher.hits(fd, begun, context)]


def expected(pattern: str, data: bytes) -> list[tuple[int, str]]:
    """Look at every line, one by one."""
    if b"\0" in data[:8192]:
        return []
    lines = data.replace(b"\r\n", b"\n").split(b"\n")
    decoded = [line.decode("utf-8", "surrogateescape") for line in (lines if lines[-1] else lines[:-1])]
    numbered = enumerate(decoded, 1)
    return [(at, line) for at, line in numbered if any(re.search(pattern, part) for part in line.split("\0"))]


@settings(max_examples=400, deadline=None)
@given(PATTERNS, CONTENT)
def test_every_way_finds_the_lines_that_one_by_one_match(pattern: str, data: bytes) -> None:
    assert found(pattern, data) == expected(pattern, data)
    assert found(pattern, data, context=2) == expected(pattern, data)


@pytest.mark.parametrize("pattern", ["needle", "needl[e]", "n[e]edle|thread"])
def test_numbers_are_right_in_a_file_that_is_read_in_pieces(pattern: str) -> None:
    lines = [b"x" * LONG if number % 7 else b"a needle, %d" % number for number in range(40)]
    data = b"\r\n".join(lines)
    assert found(pattern, data) == [(number + 1, f"a needle, {number}") for number in range(0, 40, 7)]
    late = b"y" * 9000 + b"\n\0needle\nneedle\0\nneed\0le\n" + data
    assert found(pattern, late)[:2] == [(2, "\0needle"), (3, "needle\0")]
    assert found(pattern, late)[2:] == [(number + 5, f"a needle, {number}") for number in range(0, 40, 7)]


def test_a_file_that_is_handed_out_in_small_pieces_is_read_to_its_end() -> None:
    # The kernel hands out a page and less of this at a time, and says that it has no size.
    code = "print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        path = f"/proc/{process.pid}/smaps"
        with open(path, encoding="ascii") as file:
            lines = file.read().splitlines()
        fds = [os.open(path, os.O_RDONLY) for _ in range(3)]
        assert len(os.read(fds[0], 64 << 10)) < sum(map(len, lines))
        assert found_in(Matcher("VmFlags", ignore_case=False), fds[1])[-1] == (len(lines), lines[-1])
        assert found_in(Matcher("no such line", ignore_case=False), fds[2]) == []
        for fd in fds:
            os.close(fd)


@pytest.mark.parametrize("size", [1000, 64 << 10, (64 << 10) + 4, 300_000, 1 << 20, (1 << 20) + (64 << 10), 3 << 20])
@pytest.mark.parametrize("pattern", ["needle", "[n]eedle"])
def test_the_last_line_of_a_file_of_any_size_is_found(size: int, pattern: str) -> None:
    data = b"hay\n" * (size // 4 - 2) + b"needle!\n"
    assert len(data) == size
    assert found(pattern, data) == [(size // 4 - 1, "needle!")]
    assert found("thread", data) == []


@pytest.mark.parametrize("program", ["/bin/true", "/no/such/rg"])
def test_starting_ripgrep_leaves_the_folder_and_the_limits_as_they_were(program: str, tmp_path) -> None:
    before = os.getcwd(), resource.getrlimit(resource.RLIMIT_DATA), sorted(os.listdir("/proc/self/fd"))
    fd = os.open(tmp_path, os.O_RDONLY)
    ripgrep.list_candidates(program.encode(), fd, "x", None)
    os.close(fd)
    assert (os.getcwd(), resource.getrlimit(resource.RLIMIT_DATA), sorted(os.listdir("/proc/self/fd"))) == before


def test_ripgrep_searches_the_folder_of_the_descriptor_with_little_memory_and_nothing_of_ours(tmp_path) -> None:
    told = tmp_path / "told"
    program = tmp_path / "rg"
    program.write_text(f"#!/bin/sh\n{{ pwd -P; ulimit -d; env; ls -l /proc/self/fd; cat; }} >{told}\nexit 1\n")
    program.chmod(0o755)
    (tmp_path / "deep").mkdir()
    # In a process as small as a runner: with more data than its limit nothing can be started.
    search = f"""
import os
from crabpot.runner.search import ripgrep
fd = os.open("deep", os.O_RDONLY)
os.rename("deep", "moved")
assert ripgrep.list_candidates({bytes(program)!r}, fd, "x", None) == []
"""
    subprocess.run([sys.executable, "-c", search], cwd=tmp_path, check=True)
    folder, memory, *rest = told.read_text(encoding="utf-8").splitlines()
    assert (folder, memory) == (str(tmp_path / "moved"), str(512 << 10))
    assert not any("PATH=/" in line or "HOME=" in line for line in rest)
