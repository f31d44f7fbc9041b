"""apply_patch: the format, where hunks go, and that a patch applies whole or not at all."""

from __future__ import annotations

import os
import stat
from typing import Any

import pytest

from crabpot.runner.core.failure import ToolError
from crabpot.runner.files.hunks import parse
from crabpot.runner.files.patch import MAX_FILES, apply_patch


def run(ctx, *lines: str) -> list[dict[str, Any]]:
    return apply_patch({"patch": "\n".join(["*** Begin Patch", *lines, "*** End Patch"])}, ctx)["data"]["files"]


def refuse(ctx, ws, *lines: str) -> tuple[str, str]:
    """The refusal of a patch, which must change nothing and leave nothing open."""
    before, fds = snapshot(ws), sorted(os.listdir("/proc/self/fd"))
    with pytest.raises(ToolError) as caught:
        run(ctx, *lines)
    assert snapshot(ws) == before
    assert sorted(os.listdir("/proc/self/fd")) == fds
    return caught.value.code, caught.value.message


def snapshot(folder) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        state = path.lstat()
        content = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(folder))] = (stat.S_IMODE(state.st_mode), state.st_uid, content)
    return found


def test_files_are_added_deleted_updated_and_moved(ctx, ws) -> None:
    (ws / "old").write_text("bye\n")
    (ws / "code.py").write_text("def f():\n    return 1\n\n\ndef g():\n    return 1\n")
    (ws / "from").write_text("a\nb\n")
    os.chmod(ws / "from", 0o755)
    done = run(
        ctx,
        "*** Add File: new/deep/file.txt",
        "+hello",
        "+",
        "+wörld",
        "*** Delete File: old",
        "*** Update File: code.py",
        "@@ def g():",
        "-    return 1",
        "+    return 2",
        "*** Update File: from",
        "*** Move to: to/place",
        "@@",
        " a",
        "-b",
        "+c",
    )
    assert done == [
        {"path": "new/deep/file.txt", "action": "added"},
        {"path": "old", "action": "deleted"},
        {"path": "code.py", "action": "updated"},
        {"path": "to/place", "action": "moved", "from": "from"},
    ]
    assert {path: entry[2] for path, entry in snapshot(ws).items() if entry[2] is not None} == {
        "new/deep/file.txt": "hello\n\nwörld\n".encode(),
        "code.py": b"def f():\n    return 1\n\n\ndef g():\n    return 2\n",
        "to/place": b"a\nc\n",
    }
    assert stat.S_IMODE(os.stat(ws / "to/place").st_mode) == 0o755


def test_a_file_is_moved_without_a_change(ctx, ws) -> None:
    (ws / "a").write_bytes(b"\xff\x00")
    run(ctx, "*** Update File: a", "*** Move to: b")
    assert snapshot(ws)["b"][2] == b"\xff\x00"
    assert "a" not in snapshot(ws)


def test_several_hunks_apply_in_order_and_what_they_do_not_name_stays(ctx, ws) -> None:
    (ws / "f").write_text("".join(f"{number}\n" for number in range(1, 21)))
    run(
        ctx, "*** Update File: f", "@@", " 2", "-3", "+three", "@@", "-10", "@@ 15", " 16", "+sixteen and a half", " 17"
    )
    expected = [str(number) for number in range(1, 21) if number != 10]
    expected[2] = "three"
    expected.insert(expected.index("17"), "sixteen and a half")
    assert (ws / "f").read_text().split() == " ".join(expected).split()
    assert refuse(ctx, ws, "*** Update File: f", "@@", "-12", "@@", "-11")[0] == "no_match"


def test_end_of_file_pins_a_hunk_to_the_last_lines(ctx, ws) -> None:
    (ws / "f").write_text("x\ny\nx\n")
    run(ctx, "*** Update File: f", "@@", "-x", "+z", "*** End of File")
    assert (ws / "f").read_text() == "x\ny\nz\n"
    assert refuse(ctx, ws, "*** Update File: f", "@@", "-x", "+w", "*** End of File")[0] == "no_match"


def test_the_first_hunk_needs_no_marker_and_an_empty_line_is_an_empty_kept_line(ctx, ws) -> None:
    (ws / "f").write_text("a\n\nb\n")
    run(ctx, "*** Update File: f", " a", "", "-b", "+c", "", "*** Add File: g", "+x", "")
    assert (ws / "f").read_text() == "a\n\nc\n"
    assert (ws / "g").read_text() == "x\n"


def test_lines_are_only_added_after_the_anchor_or_at_the_end(ctx, ws) -> None:
    (ws / "f").write_text("class A:\n    x = 1\nclass B:\n    x = 1\n")
    run(ctx, "*** Update File: f", "@@ class B:", "+    y = 2", "@@", "+# end")
    assert (ws / "f").read_text() == "class A:\n    x = 1\nclass B:\n    y = 2\n    x = 1\n# end\n"


def test_anchors_nest(ctx, ws) -> None:
    (ws / "f").write_text("class A:\n    def f():\n        1\nclass B:\n    def f():\n        1\n")
    run(ctx, "*** Update File: f", "@@ class B:", "@@     def f():", "-        1", "+        2")
    assert (ws / "f").read_text().endswith("class B:\n    def f():\n        2\n")
    assert "A:\n    def f():\n        1\n" in (ws / "f").read_text()


def test_only_trailing_white_space_may_differ_and_kept_lines_keep_theirs(ctx, ws) -> None:
    (ws / "f").write_bytes(b"a  \n\tb\t\nc\n")
    run(ctx, "*** Update File: f", "@@", " a", "-\tb", "+B", " c  ")
    assert (ws / "f").read_bytes() == b"a  \nB\nc\n"
    (ws / "g").write_text("  x\n")
    assert refuse(ctx, ws, "*** Update File: g", "@@", "-x", "+y")[0] == "no_match"
    assert refuse(ctx, ws, "*** Update File: g", "@@ x", "+y")[0] == "no_match"
    (ws / "h").write_text("x  \nx\n")
    run(ctx, "*** Update File: h", "@@", "-x", "+exact first")
    assert (ws / "h").read_text() == "x  \nexact first\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a\r\nb\r\nc\r\n", b"a\r\nB\r\nB2\r\nc\r\n"),
        (b"a\nb\nc", b"a\nB\nB2\nc\n"),
        (b"\xef\xbb\xbfa\nb\nc\n", b"\xef\xbb\xbfa\nB\nB2\nc\n"),
        (b"a\nb\r\nc\n", b"a\nB\r\nB2\r\nc\n"),
        (b"a\nb", b"a\nB\nB2\n"),
        (b"a\r\nb", b"a\r\nB\r\nB2\r\n"),
        (b"caf\xe9\nb\n", b"caf\xe9\nB\nB2\n"),
    ],
)
def test_endings_mark_and_foreign_bytes_stay(before, after, ctx, ws) -> None:
    (ws / "f").write_bytes(before)
    run(ctx, "*** Update File: f", "@@", "-b", "+B", "+B2")
    assert (ws / "f").read_bytes() == after
    assert "\r" not in "".join(parse("*** Begin Patch\r\n*** Add File: x\r\n+y\r\n*** End Patch\r\n")[0].added)


def test_an_operation_sees_what_the_ones_before_it_did(ctx, ws) -> None:
    (ws / "f").write_text("a\n")
    os.chmod(ws / "f", 0o700)
    run(ctx, "*** Update File: f", "@@", "-a", "+b", "*** Update File: ./f", "@@", "-b", "+c")
    assert (ws / "f").read_text() == "c\n"
    run(ctx, "*** Delete File: f", "*** Add File: f", "+fresh")
    assert (ws / "f").read_text() == "fresh\n"
    assert stat.S_IMODE(os.stat(ws / "f").st_mode) != 0o700
    run(ctx, "*** Add File: g", "+1", "*** Update File: g", "*** Move to: h", "@@", "-1", "+2")
    assert sorted(os.listdir(ws)) == ["f", "h"]


def test_an_update_through_a_link_changes_its_target(ctx, ws) -> None:
    (ws / "d").mkdir()
    (ws / "d/f").write_text("a\n")
    (ws / "l").symlink_to("d/f")
    run(ctx, "*** Update File: l", "@@", "-a", "+b")
    assert (ws / "d/f").read_text() == "b\n"
    assert refuse(ctx, ws, "*** Delete File: l")[0] == "not_a_file"
    assert refuse(ctx, ws, "*** Update File: l", "*** Move to: m")[0] == "not_a_file"
    assert refuse(ctx, ws, "*** Update File: l", "@@", "-b", "+c", "*** Delete File: d/f")[0] == "invalid_arguments"


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([], "names no file"),
        (["nonsense"], "line 2 of the patch"),
        (["*** Add File: "], "line 2"),
        (["*** Add File: x", "y"], "line 3"),
        (["*** Update File: f"], "changes nothing"),
        (["*** Update File: f", "@@"], "changes nothing"),
        (["*** Update File: f", "@@", "x"], "begins with ' '"),
        (["*** Update File: f", "*** Move to:  "], "moves to no path"),
        (["*** Delete File: f", "-a"], "line 3"),
        (["*** Add File: a\0b"], "NUL"),
    ],
)
def test_what_is_no_patch_is_refused_with_its_line(lines, says, ctx, ws) -> None:
    (ws / "f").write_text("a\n")
    code, message = refuse(ctx, ws, *lines)
    assert (code, says in message) == ("invalid_arguments", True), message


@pytest.mark.parametrize(
    "patch",
    ["", "x", "*** Begin Patch", "*** Begin Patch\n*** Delete File: f", "*** Delete File: f\n*** End Patch", "\n\n"],
)
def test_a_patch_has_a_beginning_and_an_end(patch, ctx, ws) -> None:
    (ws / "f").write_text("a\n")
    with pytest.raises(ToolError) as caught:
        apply_patch({"patch": patch}, ctx)
    assert caught.value.code == "invalid_arguments"
    assert (ws / "f").exists()


GOOD = ["*** Update File: f", "@@", "-a", "+changed", "*** Add File: fresh/folder/x", "+x", "*** Delete File: gone"]


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        (["*** Update File: g", "@@", "-nothing like it", "+x"], "no_match"),
        (["*** Update File: none", "@@", "-a", "+x"], "not_found"),
        (["*** Update File: no/ne", "@@", "-a", "+x"], "not_found"),
        (["*** Delete File: none"], "not_found"),
        (["*** Update File: g", "*** Move to: link"], "not_a_file"),
        (["*** Add File: d", "+x"], "is_directory"),
        (["*** Update File: g", "*** Move to: d"], "is_directory"),
        (["*** Add File: ../x", "+x"], "outside"),
        (["*** Update File: out", "@@", "-a", "+x"], "outside"),
        (["*** Delete File: out"], "outside"),
        (["*** Add File: outdir/x", "+x"], "outside"),
        (["*** Update File: d", "@@", "-a", "+x"], "is_directory"),
        (["*** Delete File: d"], "is_directory"),
        (["*** Add File: fifo", "+x"], "not_a_file"),
        (["*** Add File: g/below-a-file", "+x"], "not_a_directory"),
        (["*** Add File: x", "+x", "*** Add File: x/y", "+y"], "is_directory"),
    ],
)
def test_a_patch_that_cannot_apply_whole_changes_nothing(lines, wanted, ctx, ws, tmp_path) -> None:
    for name in ("f", "g", "gone"):
        (ws / name).write_text("a\n")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/f").write_text("a\n")
    (ws / "d").mkdir()
    (ws / "other").write_text("a\n")
    (ws / "link").symlink_to("other")
    (ws / "out").symlink_to(tmp_path / "outside/f")
    (ws / "outdir").symlink_to(tmp_path / "outside")
    os.mkfifo(ws / "fifo")
    assert refuse(ctx, ws, *GOOD, *lines)[0] == wanted
    assert refuse(ctx, ws, *lines, *GOOD)[0] == wanted
    assert os.listdir(tmp_path / "outside") == ["f"]
    assert (tmp_path / "outside/f").read_text() == "a\n"


def test_the_hunk_that_does_not_fit_is_shown(ctx, ws) -> None:
    (ws / "f").write_text("a\n")
    message = refuse(
        ctx, ws, "*** Update File: f", "@@ here", "-long gone" + "!" * 500, "+x", *[f"+{n}" for n in range(50)]
    )[1]
    assert "hunk 1 of f" in message
    assert "@@ here\n-long gone!!" in message
    assert "more lines" in message
    assert len(message) < 1500


def test_a_patch_of_too_many_files_is_refused(ctx, ws) -> None:
    lines = [line for number in range(MAX_FILES + 1) for line in (f"*** Add File: {number}", "+x")]
    assert refuse(ctx, ws, *lines)[0] == "invalid_arguments"
    run(ctx, *lines[:-2])
    assert len(os.listdir(ws)) == MAX_FILES


# --- what models really write: the same cases as the format's first home has, in words of our own -----------------------

WRITTEN = {
    "a blank before the beginning and behind the end": (
        " *** Begin Patch\n*** Update File: f\n@@\n-one\n+two\n*** End Patch ",
        {"f": b"one\n"},
        {"f": b"two\n"},
    ),
    "a blank behind the beginning and before the end": (
        "*** Begin Patch \n*** Update File: f\n@@\n-one\n+two\n *** End Patch\n",
        {"f": b"one\n"},
        {"f": b"two\n"},
    ),
    "blanks and empty lines around all of it": (
        "\n\t*** Begin Patch\n*** Delete File: f\n\t*** End Patch\t\n \n",
        {"f": b"one\n", "g": b""},
        {"g": b""},
    ),
    "blanks before the name of an operation": (
        "*** Begin Patch\n  *** Update File: f\n@@\n-one\n+two\n*** End Patch",
        {"f": b"one\n"},
        {"f": b"two\n"},
    ),
    "blanks before each name, and around a move": (
        (
            "*** Begin Patch\n  *** Add File:   n  \n+x\n  *** Delete File: f\n *** Update File: g \n  *** Move to:  h \n@@\n-g\n+G\n"
            "*** End Patch"
        ),
        {"f": b"one\n", "g": b"g\n"},
        {"n": b"x\n", "h": b"G\n"},
    ),
    "blanks around the end of a file": (
        "*** Begin Patch\n*** Update File: f\n@@\n-a\n+b\n  *** End of File \n*** End Patch",
        {"f": b"a\na\n"},
        {"f": b"a\nb\n"},
    ),
    "a kept line that only looks like a marker": (
        "*** Begin Patch\n*** Update File: f\n@@\n *** End of File\n-a\n+b\n*** End Patch",
        {"f": b"*** End of File\na\n"},
        {"f": b"*** End of File\nb\n"},
    ),
    "a new file over one that is there": (
        "*** Begin Patch\n*** Add File: f\n+new\n*** End Patch",
        {"f": b"old\nand long\n"},
        {"f": b"new\n"},
    ),
    "a move onto a file that is there": (
        "*** Begin Patch\n*** Update File: f\n*** Move to: sub/g\n@@\n-from\n+new\n*** End Patch",
        {"f": b"from\n", "sub/g": b"existing\n", "sub/other": b"stays\n"},
        {"sub/g": b"new\n", "sub/other": b"stays\n"},
    ),
    "a move to its own place": (
        "*** Begin Patch\n*** Update File: f\n*** Move to: ./f\n@@\n-a\n+b\n*** End Patch",
        {"f": b"a\n"},
        {"f": b"b\n"},
    ),
    "two files that change places": (
        (
            "*** Begin Patch\n*** Update File: f\n*** Move to: t\n*** Update File: g\n*** Move to: f\n"
            "*** Update File: t\n*** Move to: g\n*** End Patch"
        ),
        {"f": b"f", "g": b"g"},
        {"f": b"g", "g": b"f"},
    ),
    "a last line that had no ending": (
        "*** Begin Patch\n*** Update File: f\n@@\n-no ending\n+first\n+second\n*** End Patch",
        {"f": b"no ending"},
        {"f": b"first\nsecond\n"},
    ),
    "a last line that had no ending, far from the change": (
        "*** Begin Patch\n*** Update File: f\n@@\n-one\n+ONE\n*** End Patch",
        {"f": b"one\r\ntwo"},
        {"f": b"ONE\r\ntwo\r\n"},
    ),
    "mixed endings": (
        "*** Begin Patch\n*** Update File: f\n@@\n one\n two\n-three\n+THREE\n four\n*** End Patch",
        {"f": b"one\r\ntwo\nthree\r\nfour\n"},
        {"f": b"one\r\ntwo\nTHREE\r\nfour\n"},
    ),
    "lines that are the same but for their endings": (
        "*** Begin Patch\n*** Update File: f\n@@\n-same\n same\n*** End Patch",
        {"f": b"same\r\nsame\n"},
        {"f": b"same\n"},
    ),
    "lines between others of a file with CRLF": (
        "*** Begin Patch\n*** Update File: f\n@@\n-one\n+uno\n@@\n two\n+\n+between\n three\n*** End Patch",
        {"f": b"one\r\ntwo\r\nthree\r\n"},
        {"f": b"uno\r\ntwo\r\n\r\nbetween\r\nthree\r\n"},
    ),
    "repeated lines in another order": (
        "*** Begin Patch\n*** Update File: f\n@@\n-a\n-b\n+b\n+b\n+a\n*** End Patch",
        {"f": b"a\nb\n"},
        {"f": b"b\nb\na\n"},
    ),
    "nothing but new lines": (
        "*** Begin Patch\n*** Update File: f\n@@\n+c\n+d\n*** End Patch",
        {"f": b"a\nb\n"},
        {"f": b"a\nb\nc\nd\n"},
    ),
    "nothing but lines that go": (
        "*** Begin Patch\n*** Update File: f\n@@\n a\n-b\n c\n*** End Patch",
        {"f": b"a\nb\nc\n"},
        {"f": b"a\nc\n"},
    ),
    "a change at the end of the file": (
        "*** Begin Patch\n*** Update File: f\n@@\n a\n-b\n+B\n*** End of File\n*** End Patch",
        {"f": b"a\nb\na\nb\n"},
        {"f": b"a\nb\na\nB\n"},
    ),
    "letters beyond ASCII": (
        "*** Begin Patch\n*** Update File: f\n@@\n-na\u00efve caf\u00e9\n+na\u00efve caf\u00e9 \u2705\n*** End Patch",
        {"f": "na\u00efve caf\u00e9\n".encode()},
        {"f": "na\u00efve caf\u00e9 \u2705\n".encode()},
    ),
}


@pytest.mark.parametrize("what", WRITTEN)
def test_what_models_write_is_taken(what, ctx, ws) -> None:
    patch, before, after = WRITTEN[what]
    for name, content in before.items():
        (ws / name).parent.mkdir(exist_ok=True)
        (ws / name).write_bytes(content)
    apply_patch({"patch": patch}, ctx)
    assert {str(path.relative_to(ws)): path.read_bytes() for path in ws.rglob("*") if path.is_file()} == after


def test_what_is_replaced_keeps_its_mode_and_what_moves_brings_its_own(ctx, ws) -> None:
    for name, mode in (("f", 0o755), ("g", 0o640), ("h", 0o600)):
        (ws / name).write_text("a\n")
        (ws / name).chmod(mode)
    done = run(ctx, "*** Add File: f", "+new", "*** Update File: g", "*** Move to: h")
    assert done == [{"path": "f", "action": "added"}, {"path": "h", "action": "moved", "from": "g"}]
    assert [stat.S_IMODE((ws / name).stat().st_mode) for name in ("f", "h")] == [0o755, 0o640]


def test_nothing_is_replaced_where_a_later_operation_fails(ctx, ws) -> None:
    (ws / "f").write_text("mine\n")
    (ws / "g").write_text("g\n")
    lines = (
        "*** Add File: f",
        "+new",
        "*** Update File: g",
        "*** Move to: f",
        "*** Update File: none",
        "@@",
        "-a",
        "+b",
    )
    assert refuse(ctx, ws, *lines)[0] == "not_found"
