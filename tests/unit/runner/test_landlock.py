"""The second wall, alone: no mount, no filter and no other user stands before what these programs try."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap

import pytest

import crabpot.runner
from crabpot.runner.core import landlock

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(crabpot.runner.__file__)))

if landlock.version() < landlock.OLDEST:
    pytest.skip("this kernel has no Landlock, or one that is too old", allow_module_level=True)

PRELUDE = f"""
import ctypes, errno, os, signal, socket, sys
sys.path.insert(0, {SOURCE!r})
from crabpot.runner.core.landlock import confine
ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)
inside, outside, rest = sys.argv[1], sys.argv[2], sys.argv[3:]
def attempt(name, action, *arguments):
    try:
        action(*arguments)
    except OSError as error:
        print(name, errno.errorcode[error.errno])
    else:
        print(name, "done")
"""


def confined(folders, program, *arguments, wall=True):
    text = PRELUDE + (f"confine(({folders[0]!r}, '/dev', '/missing'))\n" if wall else "") + textwrap.dedent(program)
    done = subprocess.run(
        [sys.executable, "-c", text, *folders, *arguments], capture_output=True, text=True, timeout=60, check=True
    )
    return dict(line.rsplit(" ", 1) for line in done.stdout.splitlines())


@pytest.fixture
def folders(tmp_path):
    for name in ("inside", "outside"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("old")
    return str(tmp_path / "inside"), str(tmp_path / "outside")


WRITES = """
attempt("read", lambda: open(outside + "/file").read())
attempt("write", lambda: open(outside + "/file", "r+"))
attempt("truncate", os.truncate, outside + "/file", 0)
attempt("create", lambda: open(outside + "/new", "x"))
attempt("folder", os.mkdir, outside + "/folder")
attempt("link out", os.link, inside + "/file", outside + "/link")
attempt("move out", os.rename, inside + "/file", outside + "/moved")
attempt("remove", os.unlink, outside + "/file")
"""


def test_nothing_outside_is_written_not_even_by_root(folders):
    found = confined(folders, WRITES)
    assert found.pop("read") == "done"
    assert set(found.values()) <= {"EACCES", "EXDEV"}
    assert os.listdir(folders[1]) == ["file"]
    with open(f"{folders[1]}/file") as file:
        assert file.read() == "old"


def test_the_same_program_writes_where_there_is_no_wall(folders):
    assert set(confined(folders, WRITES, wall=False).values()) == {"done"}


def test_inside_everything_that_programs_do_to_files_works(folders):
    program = """
    os.mkdir(inside + "/a"), os.mkdir(inside + "/b")
    for name, action in {
        "create": lambda: open(inside + "/a/x", "x").close(),
        "move": lambda: os.rename(inside + "/a/x", inside + "/b/x"),
        "hard link": lambda: os.link(inside + "/b/x", inside + "/a/y"),
        "truncate": lambda: os.truncate(inside + "/b/x", 3),
        "symbolic link": lambda: os.symlink("x", inside + "/b/link"),
        "fifo": lambda: os.mkfifo(inside + "/fifo"),
        "socket": lambda: socket.socket(socket.AF_UNIX).bind(inside + "/sock"),
        "execute": lambda: os.spawnv(os.P_WAIT, "/bin/true", ["true"]) and None,
        "null": lambda: open("/dev/null", "w").write("x"),
        "remove": lambda: (os.unlink(inside + "/a/y"), os.rmdir(inside + "/a")),
    }.items():
        attempt(name, action)
    """
    assert set(confined(folders, program).values()) == {"done"}


def test_no_device_can_be_made_even_inside(folders):
    program = 'attempt("device", os.mknod, inside + "/null", 0o020666, os.makedev(1, 3))'
    assert confined(folders, program)["device"] in ("EACCES", "EPERM")


def test_one_file_can_be_all_that_is_writable(folders):
    program = """
    attempt("write", lambda: open(inside, "r+"))
    attempt("beside", lambda: open(outside + "/file", "r+"))
    """
    assert confined((f"{folders[0]}/file", folders[1]), program) == {"write": "done", "beside": "EACCES"}


@pytest.mark.skipif(landlock.version() < landlock.WITH_SCOPES, reason="Landlock of this kernel is older than version 6")
@pytest.mark.parametrize("wall", [True, False])
def test_neither_abstract_sockets_nor_signals_go_out(folders, wall):
    name = f"crabpot-test-{os.getpid()}-{wall}"
    program = """
    attempt("connect", socket.socket(socket.AF_UNIX).connect, chr(0) + rest[0])
    attempt("signal", os.kill, os.getppid(), 0)
    """
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("\0" + name)
        listener.listen()
        found = confined(folders, program, name, wall=wall)
    assert found == ({"connect": "EPERM", "signal": "EPERM"} if wall else {"connect": "done", "signal": "done"})


def test_a_wall_that_cannot_be_finished_is_an_error(folders):
    text = PRELUDE.replace("prctl(38", "prctl(3") + "confine((inside,))"
    drop = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"] if os.geteuid() == 0 else []
    done = subprocess.run([*drop, sys.executable, "-c", text, *folders], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        1,
        "PermissionError: [Errno 1] Landlock: Operation not permitted",
    )


_NOEXEC = """
import os, shutil, subprocess, sys
sys.path.insert(0, {source!r})
from crabpot.runner.core import landlock, prctl
shutil.copy("/bin/true", {folder!r} + "/program")
shutil.copy("/bin/true", {other!r} + "/program")
prctl.forbid_privileges()
print(landlock.forbid_running(({folder!r},)))
for path in ({folder!r} + "/program", {other!r} + "/program", "/bin/true"):
    try:
        print(subprocess.run([path]).returncode)
    except PermissionError:
        print("refused")
open({folder!r} + "/written", "w").close()
"""


def test_what_lies_in_a_folder_cannot_be_run_and_everything_else_can(tmp_path):
    """As a mount that is noexec would have it, where nobody can mount one."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    source = os.path.dirname(os.path.dirname(crabpot.__file__))
    program = _NOEXEC.format(source=source, folder=str(tmp_path / "a"), other=str(tmp_path / "b"))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["True", "refused", "0", "0"]
