"""Opening below an anchor: nothing leads out, and the kernel's way and the walk give the same answers."""

from __future__ import annotations

import ctypes
import errno
import os
import posix
import shutil
import struct
import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crabpot.runner.files import openat2
from crabpot.runner.files.beneath import Anchor, Opener

NAMES = ["a", "b", "c"]
TARGETS = st.one_of(
    st.sampled_from(
        ["a", "b", "..", ".", "a/b", "../a", "a/..", "../..", "../../..", "a/../b", "c/", "a/.", "./b/", "a//b"]
    ),
    st.sampled_from(
        ["@", "@/", "@/a", "@/a/b", "@/../a", "@/./b", "@x/a", "/", "/etc/passwd", "@/..", "//etc", "@//a/"]
    ),
)
STEPS = st.lists(
    st.tuples(
        st.lists(st.sampled_from(NAMES), min_size=1, max_size=3), st.sampled_from(["file", "folder", "link"]), TARGETS
    ),
    max_size=9,
)


def build(top: str, steps: list[tuple[list[str], str, str]]) -> None:
    for parts, kind, target in steps:
        path = os.path.join(top, *parts)
        # A link made before may lead out: nothing is made through one, or the test would write on the host.
        if os.path.realpath(os.path.dirname(path)) != os.path.normpath(os.path.dirname(path)):
            continue
        try:
            if kind == "file":
                with open(path, "x"):
                    pass
            elif kind == "folder":
                os.mkdir(path)
            else:
                os.symlink(target.replace("@", top), path)
        except OSError:
            continue


def outcome(opener: Opener, anchor: Anchor, relative: bytes, flags: int, *, follow: bool) -> object:
    try:
        fd = opener.open(anchor, relative, flags, follow=follow)
    except OSError as error:
        return errno.errorcode[error.errno]
    state = posix.fstat(fd)
    posix.close(fd)
    return (state.st_dev, state.st_ino)


def parent_outcome(opener: Opener, anchor: Anchor, relative: bytes) -> object:
    try:
        fd, name = opener.open_parent(anchor, relative)
    except OSError as error:
        return errno.errorcode[error.errno]
    state = posix.fstat(fd)
    posix.close(fd)
    return (state.st_dev, state.st_ino, name)


def hold(path: str, *, confined: bool = True) -> Anchor:
    return Anchor(path.encode(), posix.open(path, posix.O_PATH | posix.O_DIRECTORY), confined=confined)


def test_this_machine_has_openat2_so_that_both_ways_are_compared() -> None:
    assert openat2.load() is not None


def forbid_openat2(error: int) -> None:
    """Installs a filter that answers openat2 with `error`, as an old sandbox's does."""
    libc = ctypes.CDLL(None)
    steps = [(0x20, 0, 0, 0), (0x15, 0, 1, 437), (0x06, 0, 0, 0x00050000 | error), (0x06, 0, 0, 0x7FFF0000)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(code)))
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    assert libc.prctl(22, 2, program, 0, 0) == 0


@pytest.mark.parametrize("error", [errno.ENOSYS, errno.EPERM])
def test_where_a_filter_forbids_openat2_the_walk_takes_over(error, tmp_path) -> None:
    (tmp_path / "f").write_text("inside")
    (tmp_path / "out").symlink_to("/etc/passwd")
    anchor = hold(str(tmp_path))
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            forbid_openat2(error)
            # As in a process that starts behind the filter.
            openat2._loaded.clear()
            opener = Opener()
            fd = opener.open(anchor, b"f", posix.O_RDONLY)
            refused = outcome(opener, anchor, b"out", posix.O_RDONLY, follow=True)
            status = 0 if openat2.load() is None and os.read(fd, 9) == b"inside" and refused == "EXDEV" else 2
        finally:
            os._exit(status)
    posix.close(anchor.fd)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@settings(max_examples=400, deadline=None)
@given(
    steps=STEPS,
    path=st.lists(st.sampled_from(NAMES), min_size=1, max_size=4),
    flags=st.sampled_from(
        [
            posix.O_RDONLY,
            posix.O_PATH,
            posix.O_RDONLY | posix.O_DIRECTORY,
            posix.O_PATH | posix.O_DIRECTORY,
            posix.O_WRONLY,
        ]
    ),
    follow=st.booleans(),
    confined=st.booleans(),
)
def test_the_walk_answers_as_the_kernel_does(steps, path, flags, follow, confined) -> None:
    top = tempfile.mkdtemp()
    anchor = hold(top) if confined else hold("/", confined=False)
    try:
        build(top, steps)
        prefix = b"" if confined else top.encode()[1:] + b"/"
        relative = prefix + "/".join(path).encode()
        quick = outcome(Opener(), anchor, relative, flags, follow=follow)
        assert outcome(Opener(kernel=False), anchor, relative, flags, follow=follow) == quick
        assert parent_outcome(Opener(), anchor, relative) == parent_outcome(Opener(kernel=False), anchor, relative)
    finally:
        posix.close(anchor.fd)
        shutil.rmtree(top)


@settings(max_examples=300, deadline=None)
@given(steps=STEPS, path=st.lists(st.sampled_from(NAMES), min_size=1, max_size=4), kernel=st.booleans())
def test_what_opens_lies_inside_by_its_real_path(steps, path, kernel) -> None:
    top = os.path.realpath(tempfile.mkdtemp())
    anchor = hold(top)
    try:
        build(top, steps)
        try:
            fd = Opener(kernel=kernel).open(anchor, "/".join(path).encode(), posix.O_PATH)
        except OSError:
            return
        real = os.readlink(f"/proc/self/fd/{fd}")
        posix.close(fd)
        assert real == top or real.startswith(top + "/")
        assert real == os.path.realpath(os.path.join(top, *path))
    finally:
        posix.close(anchor.fd)
        shutil.rmtree(top)


@pytest.mark.parametrize("kernel", [True, False])
@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/proc/self/root/etc/passwd", "EXDEV"),
        ("/proc/self/root", "EXDEV"),
        ("/proc/self/cwd", "EXDEV"),
        ("/proc/thread-self/root", "EXDEV"),
        ("/proc/self/fd/0", "EXDEV"),
        ("/proc/self/exe", "EXDEV"),
        ("/proc/self/task/../root", "EXDEV"),
        ("/dev/fd/0", "EXDEV"),
        ("/proc/self/status", None),
        ("/proc/mounts", None),
        ("/etc/passwd", None),
        ("/no/such/thing", "ENOENT"),
        ("/etc/passwd/x", "ENOTDIR"),
    ],
)
def test_magic_links_of_procfs_are_refused_and_ordinary_ones_followed(kernel, path, expected) -> None:
    anchor = hold("/", confined=False)
    try:
        got = outcome(Opener(kernel=kernel), anchor, path[1:].encode(), posix.O_RDONLY | posix.O_NONBLOCK, follow=True)
        assert (got if isinstance(got, str) else None) == expected
    finally:
        posix.close(anchor.fd)


@pytest.mark.parametrize("kernel", [True, False])
def test_a_chain_of_forty_links_is_followed_and_one_of_more_is_not(kernel, tmp_path) -> None:
    (tmp_path / "0").write_text("end")
    for number in range(1, 42):
        (tmp_path / str(number)).symlink_to(str(number - 1))
    anchor = hold(str(tmp_path))
    try:
        opener = Opener(kernel=kernel)
        assert outcome(opener, anchor, b"40", posix.O_RDONLY, follow=True) != "ELOOP"
        assert outcome(opener, anchor, b"41", posix.O_RDONLY, follow=True) == "ELOOP"
    finally:
        posix.close(anchor.fd)


@pytest.mark.parametrize("kernel", [True, False])
def test_missing_folders_are_made_beneath_and_never_through_a_link_that_leads_out(kernel, tmp_path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    (inside / "link").symlink_to(outside)
    (inside / "dangling").symlink_to("x/y")
    anchor = hold(str(inside))
    opener = Opener(kernel=kernel)
    try:
        fd, name = opener.open_parent(anchor, b"p/q/r/file", make=True)
        assert os.readlink(f"/proc/self/fd/{fd}") == str(inside / "p/q/r")
        assert name == b"file"
        posix.close(fd)
        with pytest.raises(OSError, match="leads out"):
            opener.open_parent(anchor, b"link/new/file", make=True)
        assert list(outside.iterdir()) == []
        fd, name = opener.open_parent(anchor, b"dangling/z", make=True)
        assert os.readlink(f"/proc/self/fd/{fd}") == str(inside / "x/y")
        posix.close(fd)
    finally:
        posix.close(anchor.fd)


@pytest.mark.parametrize("kernel", [True, False])
def test_no_descriptor_is_left_open_whatever_happens(kernel, tmp_path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/out").symlink_to("/etc")
    (tmp_path / "a/b/up").symlink_to("../../a/b/f")
    anchor = hold(str(tmp_path))
    opener = Opener(kernel=kernel)
    outcome(opener, anchor, b"a", posix.O_RDONLY, follow=True)
    before = len(os.listdir("/proc/self/fd"))
    for path in (b"a/b/out/passwd", b"a/b/up", b"a/b/none", b"a/b", b"a/b/up/x", b"n" * 5000, b"a/" + b"n" * 300):
        outcome(opener, anchor, path, posix.O_RDONLY, follow=True)
        parent_outcome(opener, anchor, path)
    assert len(os.listdir("/proc/self/fd")) == before
    posix.close(anchor.fd)
