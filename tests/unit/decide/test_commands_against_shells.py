"""For whatever the reader accepts, a real shell makes the same words of the text."""

from __future__ import annotations

import os
import subprocess
from itertools import product
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crabpot.decide.commands import NotSimple, parse

if TYPE_CHECKING:
    from pathlib import Path

SHELLS = ("/bin/sh", "bash")
END = "\x01"

# Weighted to what means something to a shell; the letters make words like `if`, `a=b` and `git`.
PIECES = [
    *(
        "'",
        '"',
        "\\",
        " ",
        " ",
        "a",
        "if",
        "git",
        "=",
        "#",
        "~",
        "$",
        "`",
        "*",
        "?",
        "[",
        "]",
        "{",
        "}",
        "!",
        "^",
        "%",
        "@",
    ),
    *(
        "+",
        ",",
        ".",
        "/",
        ":",
        "-",
        "--",
        "|",
        "&",
        ";",
        "<",
        ">",
        "(",
        ")",
        "0",
        "\\\\",
        '\\"',
        "\\'",
        "''",
        '""',
        "$'",
        '$"',
    ),
    *(
        "\\$",
        "\\n",
        "\\ ",
        "a=",
        "~/",
        "{a,b}",
        "[a]",
        "!!",
        "!a",
        "<<a",
        "2>",
        "%1",
        "\u00e9",
        "\u4f60",
        "\U0001f600",
        "e\u0301",
    ),
    *(
        "\t",
        "\n",
        "\r",
        "\x01",
        "\u00a0",
        "\u200b",
        "\u202e",
        "-n",
        "%s",
        "\\0",
        "-e",
        "@(a)",
        "=a",
        "+x",
        "${a}",
        "$((1))",
    ),
]
TEXTS = st.lists(st.lists(st.sampled_from(PIECES), max_size=9).map("".join), min_size=30, max_size=60)


def accepted(texts: list[str]) -> dict[str, tuple[str, ...]]:
    read = {}
    for text in texts:
        # `printf` is the first word below, so that of the text may be any word here.
        try:
            read[text] = parse(f"printf {text}").argv[1:]
        except NotSimple:
            continue
    return read


def words_of(shell: str, texts: list[str], folder: Path) -> list[tuple[str, ...]]:
    """Let one shell split many texts, each on a line of its own."""
    lines = [f"printf '%s\\0' {text}\nprintf '{END}'" for text in texts]
    done = subprocess.run(
        [shell, "-c", "\n".join(lines)],
        capture_output=True,
        check=False,
        cwd=folder,
        env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": "/nowhere"},
        timeout=60,
    )
    assert done.stderr == b"", done.stderr
    answers = done.stdout.decode().split(END)[:-1]
    return [tuple(answer.split("\0")[:-1]) for answer in answers]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder full of names that a glob would find."""
    made = tmp_path_factory.mktemp("names")
    for name in ("a", "b", "git", "if", "aa", "-n"):
        (made / name).write_text("")
    return made


def agree(shell: str, texts: list[str], folder: Path) -> int:
    # Without a word `printf` prints its format once, so every text is followed by one.
    read = accepted([f"{text} end" for text in texts])
    if not read:
        return 0
    assert words_of(shell, list(read), folder) == list(read.values())
    return len(read)


@pytest.mark.parametrize("shell", SHELLS)
@settings(max_examples=50)
@given(texts=TEXTS)
def test_the_words_are_those_that_a_shell_makes(shell: str, texts: list[str], folder: Path) -> None:
    agree(shell, texts, folder)


@pytest.mark.parametrize("shell", SHELLS)
def test_every_short_text_of_special_characters_is_split_as_a_shell_splits_it(shell: str, folder: Path) -> None:
    special = "'\"\\ a#=~!{}[]^%-\u00e9"
    texts = ["".join(chars) for length in (1, 2, 3) for chars in product(special, repeat=length)]
    checked = sum(agree(shell, texts[at : at + 900], folder) for at in range(0, len(texts), 900))
    assert checked > 1000


@pytest.mark.parametrize("shell", SHELLS)
def test_every_printable_ascii_character_alone_and_in_a_word(shell: str, folder: Path) -> None:
    chars = [chr(code) for code in range(0x20, 0x7F)]
    texts = [
        form.format(char)
        for char in chars
        for form in ("{}", "a{}", "{}a", "a{}a", "'{}'", '"{}"', "\\{}", '"\\{}"', "a {} a")
    ]
    assert agree(shell, texts, folder) > 500


@pytest.mark.parametrize("shell", SHELLS)
def test_the_first_word_too_is_what_a_shell_would_run(shell: str, folder: Path) -> None:
    firsts = ["printf", "'printf'", "p''rintf", 'pr"in"tf', "\\printf", "prin\\tf"]
    for first in firsts:
        text = f"{first} '%s\\0' a 'b c'"
        assert parse(text).argv == ("printf", "%s\\0", "a", "b c")
        done = subprocess.run([shell, "-c", text], capture_output=True, check=True, cwd=folder, timeout=60)
        assert done.stdout == b"a\0b c\0"
