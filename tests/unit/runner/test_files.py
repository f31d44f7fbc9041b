"""The file tools: the arguments that they take, the places that they reach, and ls."""

from __future__ import annotations

import os
import socket
import stat

import pytest

from crabpot.runner.core.failure import ToolError
from crabpot.runner.files import file_tools
from tests.unit.runner.file_checks import code, content, fails, leftovers


@pytest.mark.parametrize(
    ("tool", "args", "says"),
    [
        ("read", {}, "needs the argument path"),
        ("read", {"path": ""}, "empty"),
        ("read", {"path": "a\0b"}, "NUL"),
        ("read", {"path": 3}, "not a number"),
        ("read", {"path": ["a"]}, "not a list"),
        ("read", {"path": "\ud800"}, "surrogate"),
        ("read", {"path": "f", "ofset": 1}, "it takes path, offset?, limit?, encoding?"),
        ("read", {"path": "f", "offset": True}, "not true or false"),
        ("read", {"path": "f", "offset": 1.0}, "whole number"),
        ("read", {"path": "f", "offset": 0}, "counted from 1"),
        ("read", {"path": "f", "offset": -1}, "the minimum is 0"),
        ("read", {"path": "f", "limit": -1}, "the minimum is 0"),
        ("read", {"path": "f", "limit": 1 << 70}, "the maximum is"),
        ("read", {"path": "f", "encoding": "latin-1"}, "utf-8, base64"),
        ("read", {"path": "p" * 5000}, "too long"),
        ("read", {"path": "p" * 300}, "too long"),
        ("write", {"path": "f"}, "needs the argument content"),
        ("write", {"path": "f", "content": b"x"}, "must be text"),
        ("write", {"path": "f", "content": "\udcff"}, "surrogate"),
        ("write", {"path": "f", "content": "x", "append": 1}, "true or false"),
        ("write", {"path": "f", "content": "x!!", "encoding": "base64"}, "not base64"),
        ("write", {"path": "f", "content": "eHg", "encoding": "base64"}, "not base64"),
        ("edit", {"path": "f", "old": "", "new": "x"}, "old is empty"),
        ("edit", {"path": "f", "old": "x", "new": "x"}, "the same"),
        ("edit", {"path": "f", "old": "x"}, "needs the argument new"),
        ("ls", {"all": "yes"}, "true or false"),
    ],
)
def test_wrong_arguments_are_refused_with_what_would_be_right(tool, args, says, ctx, ws) -> None:
    (ws / "f").write_text("x\n")
    assert fails(file_tools.TOOLS[tool], args, ctx)[0] == "invalid_arguments"
    assert says in fails(file_tools.TOOLS[tool], args, ctx)[1]
    assert (ws / "f").read_text() == "x\n"


def test_null_means_that_an_optional_argument_was_left_out(ctx, ws) -> None:
    (ws / "f").write_text("x\n")
    assert content({"path": "f", "offset": None, "limit": None, "encoding": None}, ctx) == b"x\n"


def test_a_path_is_relative_to_the_workspace_or_absolute_as_seen_inside(ctx, ws, tmp_path) -> None:
    (ws / "d").mkdir()
    (ws / "d/f").write_text("inside")
    (tmp_path / "agent/g").write_text("agent")
    (tmp_path / "elsewhere").write_text("own")
    for path in ("d/f", "./d//f", "d/../d/f", "none/../d/f", f"{ws}/d/f", f"{ws}/../workspace/d/f"):
        assert content({"path": path}, ctx) == b"inside"
    assert content({"path": f"{tmp_path}/agent/g"}, ctx) == b"agent"
    assert content({"path": f"{tmp_path}/elsewhere"}, ctx) == b"own"
    assert content({"path": f"{ws}/../elsewhere"}, ctx) == b"own"


@pytest.mark.parametrize(
    "path", ["../agent/g", "..", "d/../../agent", "a/b/../../../etc/passwd", "../" * 500 + "etc/passwd", "./.."]
)
def test_a_relative_path_that_climbs_out_is_outside(path, ctx, tmp_path) -> None:
    (tmp_path / "agent/g").write_text("agent")
    for tool, rest in (
        (file_tools.read, {}),
        (file_tools.write, {"content": "x"}),
        (file_tools.edit, {"old": "a", "new": "b"}),
        (file_tools.ls, {}),
    ):
        assert code(tool, {"path": path, **rest}, ctx) == "outside"


@pytest.mark.parametrize(
    "target",
    ["/etc/passwd", "/etc/../etc/passwd", "../agent/g", "../../../../../../etc/passwd", "/proc/self/root/etc/passwd"],
)
def test_a_link_that_leads_out_of_the_tree_is_never_followed(target, ctx, ws, tmp_path) -> None:
    (tmp_path / "agent/g").write_text("a")
    (ws / "link").symlink_to(target)
    (ws / "link2").symlink_to("link")
    for path in ("link", "link2", f"{ws}/link"):
        assert code(file_tools.read, {"path": path}, ctx) == "outside"
        assert code(file_tools.write, {"path": path, "content": "x"}, ctx) == "outside"
        assert code(file_tools.write, {"path": path, "content": "x", "append": True}, ctx) == "outside"
        assert code(file_tools.edit, {"path": path, "old": "a", "new": "b"}, ctx) == "outside"
    assert (tmp_path / "agent/g").read_text() == "a"
    assert leftovers(tmp_path) == []


def test_a_folder_that_is_a_link_out_is_outside_for_every_tool(ctx, ws, tmp_path) -> None:
    (ws / "d").symlink_to(tmp_path / "agent")
    assert code(file_tools.write, {"path": "d/new/x", "content": "x"}, ctx) == "outside"
    assert code(file_tools.ls, {"path": "d"}, ctx) == "outside"
    with pytest.raises(ToolError) as caught:
        file_tools.open_directory(ctx, "d")
    assert caught.value.code == "outside"
    assert os.listdir(tmp_path / "agent") == []


def test_links_that_stay_inside_are_followed_also_absolute_ones(ctx, ws) -> None:
    (ws / "d").mkdir()
    (ws / "d/f").write_text("x")
    (ws / "relative").symlink_to("d/../d/f")
    (ws / "absolute").symlink_to(ws / "d/f")
    (ws / "folder").symlink_to(ws / "d")
    for path in ("relative", "absolute", "folder/f"):
        assert content({"path": path}, ctx) == b"x"
        assert file_tools.write({"path": path, "content": path}, ctx)["data"] == {"size": len(path), "created": False}
        assert (ws / "d/f").read_text() == path
        (ws / "d/f").write_text("x")
    assert (ws / "relative").is_symlink()
    assert (ws / "absolute").is_symlink()


@pytest.mark.parametrize(
    "path", ["/proc/self/root/etc/passwd", "/proc/self/fd/0", "/proc/1/root/x", "/dev/fd/0", "/proc/self/cwd/f"]
)
def test_magic_links_of_procfs_are_outside(path, ctx) -> None:
    assert code(file_tools.read, {"path": path}, ctx) in ("outside", "permission_denied")


def test_other_absolute_paths_are_the_sandbox_s_own(ctx) -> None:
    assert content({"path": "/etc/passwd"}, ctx).startswith(b"root:")
    assert b"Linux" in content({"path": "/proc/version"}, ctx)
    data = file_tools.read({"path": "/proc/self/status"}, ctx)
    assert data["data"]["size"] == len(data["payload"]) > 0


def test_what_cannot_be_found_is_told_apart_from_what_is_no_file(ctx, ws) -> None:
    (ws / "f").write_text("x")
    (ws / "d").mkdir()
    (ws / "loop").symlink_to("loop")
    (ws / "dangling").symlink_to("none")
    os.mkfifo(ws / "fifo")
    sock = socket.socket(socket.AF_UNIX)
    here = os.open(".", os.O_RDONLY)
    os.chdir(ws)  # the path of a socket is short
    sock.bind("socket")
    os.fchdir(here)
    os.close(here)
    expected = {
        "none": "not_found",
        "f/x": "not_a_directory",
        "loop": "not_found",
        "dangling": "not_found",
        "d": "is_directory",
        "d/": "is_directory",
        ".": "is_directory",
    }
    expected.update(
        {"fifo": "not_a_file", "socket": "not_a_file", "/dev/null": "not_a_file", "/dev/zero": "not_a_file"}
    )
    for path, wanted in expected.items():
        assert code(file_tools.read, {"path": path}, ctx) == wanted, path
        if wanted != "not_found":
            assert code(file_tools.write, {"path": path, "content": "x"}, ctx) == wanted, path
            assert code(file_tools.write, {"path": path, "content": "x", "append": True}, ctx) == wanted, path
        assert code(file_tools.edit, {"path": path, "old": "a", "new": "b"}, ctx) == wanted, path
    sock.close()
    assert stat.S_ISFIFO(os.stat(ws / "fifo").st_mode)
    assert code(file_tools.ls, {"path": "f"}, ctx) == "not_a_directory"
    assert code(file_tools.ls, {"path": "none"}, ctx) == "not_found"


def test_a_root_that_does_not_exist_is_not_found(tmp_path) -> None:
    context = file_tools.Context(str(tmp_path), (str(tmp_path), "/no/such/root"))
    assert code(file_tools.read, {"path": "/no/such/root/f"}, context) == "not_found"
    assert code(file_tools.write, {"path": "/no/such/root/f", "content": ""}, context) == "not_found"
    assert code(file_tools.ls, {"path": "/no/such/root"}, context) == "not_found"
    context.close()


def test_a_nested_root_confines_more_narrowly_than_the_one_around_it(tmp_path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "f").write_text("x")
    (tmp_path / "sub/up").symlink_to("../f")
    context = file_tools.Context(str(tmp_path), (str(tmp_path), str(tmp_path / "sub")))
    assert code(file_tools.read, {"path": "sub/up"}, context) == "outside"
    context.close()


def test_the_whole_file_system_may_be_a_root(tmp_path) -> None:
    (tmp_path / "f").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "f")
    context = file_tools.Context("/", ("/",))
    assert content({"path": str(tmp_path / "link")}, context) == b"x"
    assert content({"path": str(tmp_path / "link")[1:]}, context) == b"x"
    context.close()


def test_names_that_are_not_utf8_can_be_listed_and_read(ctx, ws) -> None:
    os.makedirs(os.fsencode(ws) + b"/bad\xff\n")
    file_tools.write({"path": "bad\udcff\n/f\udc80", "content": "x"}, ctx)
    assert os.listdir(os.fsencode(ws) + b"/bad\xff\n") == [b"f\x80"]
    assert content({"path": "bad\udcff\n/f\udc80"}, ctx) == b"x"
    assert file_tools.ls({}, ctx)["data"]["entries"][0]["name"] == "bad\ufffd\n"
    assert "\ufffd" in fails(file_tools.read, {"path": "none\udcff"}, ctx)[1]


def test_ls_lists_by_name_and_hides_what_begins_with_a_dot(ctx, ws) -> None:
    (ws / "b").write_bytes(b"12345")
    (ws / "a").mkdir()
    (ws / "l").symlink_to("b")
    (ws / ".hidden").write_text("")
    os.mkfifo(ws / "p")
    os.utime(ws / "b", ns=(0, 1_500_000_000_250_000_000))
    entries = file_tools.ls({}, ctx)["data"]
    assert entries["truncated"] is False
    assert [(entry["name"], entry["type"]) for entry in entries["entries"]] == [
        ("a", "directory"),
        ("b", "file"),
        ("l", "link"),
        ("p", "other"),
    ]
    assert entries["entries"][1] == {"name": "b", "type": "file", "size": 5, "modified": 1_500_000_000.25}
    assert [entry["name"] for entry in file_tools.ls({"path": ".", "all": True}, ctx)["data"]["entries"]] == [
        ".hidden",
        "a",
        "b",
        "l",
        "p",
    ]


@pytest.mark.slow
def test_a_folder_with_very_many_entries_is_cut_to_the_first_by_name(tmp_path) -> None:
    for number in range(file_tools.MAX_ENTRIES * 4 + 10):
        os.close(os.open(tmp_path / f"{number:06}", os.O_CREAT))
    context = file_tools.Context(str(tmp_path), ())
    data = file_tools.ls({}, context)["data"]
    assert data["truncated"] is True
    assert [entry["name"] for entry in data["entries"]] == [f"{number:06}" for number in range(file_tools.MAX_ENTRIES)]
    context.close()


def test_a_listing_always_fits_into_a_frame(tmp_path) -> None:
    from crabpot.runner.core import frames

    for number in range(file_tools.MAX_ENTRIES):
        os.close(os.open(os.fsencode(tmp_path) + b"/%04d" % number + b"\xff" * 250, os.O_CREAT))
    context = file_tools.Context(str(tmp_path), ())
    data = file_tools.ls({}, context)["data"]
    assert data["truncated"] is True
    frames.encode({"id": "1", "data": data})
    context.close()
