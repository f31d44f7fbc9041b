"""Patches as text: every one parses or is refused, and its hunks do to a file what they say."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from crabpot.runner.core.failure import ToolError
from crabpot.runner.files.hunks import apply_hunks, parse

TEXT = st.text(alphabet="ab ", max_size=3)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_patch_made_from_two_versions_turns_one_into_the_other(data) -> None:
    lines = [f"{number}{data.draw(TEXT)}" for number in range(data.draw(st.integers(1, 30)))]
    ending = data.draw(st.sampled_from([b"\n", b"\r\n"]))
    # A single line without an ending does not say how the file's lines end.
    last = data.draw(st.booleans()) or len(lines) == 1
    patch = ["*** Update File: f"]
    after: list[str] = []
    open_hunk = False
    for line in lines:
        action = data.draw(st.sampled_from(["far", "keep", "drop", "add"]))
        if action == "far":
            open_hunk = False
            after.append(line)
            continue
        if not open_hunk:
            patch.append("@@")
            open_hunk = True
        if action == "drop":
            patch.append("-" + line)
            continue
        patch.append(" " + line)
        after.append(line)
        if action == "add":
            patch.append("+new " + line)
            after.append("new " + line)

    def join(parts: list[str]) -> bytes:
        return b"".join(part.encode() + ending for part in parts)[: None if last or not parts else -len(ending)]

    if len(patch) > 1:
        (operation,) = parse("\n".join(["*** Begin Patch", *patch, "*** End Patch"]))
        assert apply_hunks(join(lines), operation) == b"".join(part.encode() + ending for part in after)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                "*** Add File: a",
                "*** Update File: f",
                "*** Delete File: f",
                "*** Move to: b",
                "@@",
                "@@ x",
                " a",
                "-a",
                "+b",
                "",
                "*** End of File",
                "*** End Patch",
                "junk",
            ]
        ),
        max_size=12,
    )
)
def test_whatever_the_patch_says_it_parses_or_is_refused(lines) -> None:
    codes = set()
    try:
        for operation in parse("\n".join(["*** Begin Patch", *lines, "*** End Patch"])):
            apply_hunks(b"a\nx\na\n", operation)
    except ToolError as error:
        codes.add(error.code)
    assert codes <= {"invalid_arguments", "no_match"}
