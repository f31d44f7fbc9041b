"""Attacks on a folder under review: changing it unseen, by itself, by its layer or by a host command."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from crabpot.proof.verify import trial
from crabpot.proof.verify.claims import HAND_OFF, Group, NotCarriedOut, Outcome, few

if TYPE_CHECKING:
    from crabpot.proof.verify.target import Target

files, handed = Group("filesystem"), Group(HAND_OFF)

_MARK = "user.overlay.redirect"

_CHANGE_ALL = """
import mmap, shutil
def shared(path):
    with open(path, "r+b") as stream, mmap.mmap(stream.fileno(), 0) as memory:
        memory[0:1] = b"X"
        memory.flush()
def quietly(function, *arguments):
    # That it works on the layer is what a layer is for: the host is looked at afterwards.
    try:
        function(*arguments)
    except OSError:
        pass
quietly(shared, "mapped")
quietly(os.truncate, "cut", 1)
quietly(os.link, "file", "linked")
quietly(lambda: open("linked", "a").write("more"))
quietly(os.chmod, "file", 0o777)
quietly(os.utime, "file", (1, 1))
quietly(os.utime, ".", (1, 1))
quietly(os.rename, "folder", "moved")
quietly(os.symlink, "/etc/passwd", "planted")
quietly(os.setxattr, "file", "user.note", b"x")
for name in os.listdir("/proc/self/fd"):
    quietly(lambda: open("/proc/self/fd/%s/../file" % name, "a").write("more"))
for root in ("/proc/1/root", "/proc/%d/root" % runner, "/proc/self/root"):
    quietly(lambda: open(root + os.path.abspath("file"), "a").write("more"))
quietly(os.unlink, "deleted")
quietly(shutil.rmtree, "tree")
expect("the agent's own view", not os.path.exists("deleted"), "changed")
"""


@files.about("filesystem", "workspace")
async def cannot_change_a_folder_under_review(target: Target) -> Outcome:
    """Every way in which a program changes files; the folder must be as it was to the byte and the timestamp."""
    inside = _reviewed(target)
    folder = _lay_out(inside)
    before = _looks(folder)
    program = await inside.program(_CHANGE_ALL)
    if not program.success:
        return _refused(program.error.message if program.error else program.stderr)
    await inside.stop()
    after = _looks(folder)
    changed = sorted(path for path in {*before, *after} if before.get(path) != after.get(path))
    return Outcome(
        held=not changed,
        tried="write, map, cut, link, rename, chmod, touch, mark and delete what is in it",
        came_back=f"CHANGED on the host: {few(changed)}" if changed else "on the host all is as it was",
    )


@files.about("filesystem", "workspace")
async def cannot_reach_a_layer_but_through_its_folder(target: Target) -> Outcome:
    """Who writes a layer's own files and marks decides what its mount shows, and what a person is shown as changes."""
    inside = _reviewed(target)
    folder = _lay_out(inside)
    began = await inside.shell("echo mine > marked-by-the-agent")
    if not began.success:
        return _refused(began.error.message if began.error else began.stderr)
    report = await inside.python(
        """
layer = given["layer"]
for place in ("/crabpot/layer", "/crabpot/layer/upper", "/crabpot/layer/work", layer, "/proc/1/root" + layer):
    attempt("list " + place, lambda: " ".join(os.listdir(place)))
    attempt("make a file in " + place, made, place + "/planted")
for line in mounts():
    if layer in line:
        attempt("find its path", lambda: line if os.path.exists(layer) else None)
attempt("make a whiteout", lambda: os.mknod("forged", 0o020000, 0) or "made")
""",
        layer=str(inside.spec.layer),
    )
    await inside.shell(f'python3 -c \'import os; os.setxattr("file", "{_MARK}", b"/etc")\'')
    await inside.stop()
    forged = _marked(f"{inside.spec.layer}/upper/file")
    return Outcome(
        held=report.got is None and not forged and os.path.exists(f"{folder}/file"),
        tried=report.tried,
        came_back=f"{report.got or report.refused}; {'A MARK WAS FORGED' if forged else 'no mark was forged'}",
    )


@handed.about("workspace", threats=("host-git",))
async def cannot_have_a_host_command_work_in_a_folder_under_review(target: Target) -> Outcome:
    """What a person agreed to run would find the host's folder, and could change it before the changes were seen."""
    inside = _reviewed(target)
    folder = _lay_out(inside)
    with open(f"{folder}/attack.sh", "w", encoding="utf-8") as stream:
        stream.write("echo changed > file; echo new > planted\n")
    before = _looks(folder)
    results = [(command, await inside.leave(command)) for command in ("sh attack.sh", "git init", "git add .")]
    after = _looks(folder)
    changed = sorted(path for path in {*before, *after} if before.get(path) != after.get(path))
    codes = dict.fromkeys(result.error.code if result.error else result.place.value for _, result in results)
    return Outcome(
        held=not changed,
        tried=few([command for command, _ in results]),
        came_back=f"CHANGED on the host: {few(changed)}" if changed else f"nothing changed there: {', '.join(codes)}",
    )


def _reviewed(target: Target) -> Target:
    """Return the session of the trial whose folder is under review."""
    return target.elsewhere(trial.REVIEWED, target.gateway)


def _lay_out(inside: Target) -> str:
    folder = inside.agent.workspace
    if not os.path.isdir(folder):
        raise NotCarriedOut(f"{folder}, the folder under review of this trial, is not there")
    for name in ("folder", "tree"):
        os.makedirs(f"{folder}/{name}", exist_ok=True)
    for name in ("file", "mapped", "cut", "deleted", "folder/inner", "tree/inner"):
        with open(f"{folder}/{name}", "w", encoding="utf-8") as stream:
            stream.write(f"the host's {name}\n")
    owner = os.stat(folder)
    if os.geteuid() == 0:
        for at, folders, names in os.walk(folder):
            for name in (*folders, *names):
                os.chown(f"{at}/{name}", owner.st_uid, owner.st_gid, follow_symlinks=False)
    return folder


def _looks(folder: str) -> dict[str, tuple[object, ...]]:
    found: dict[str, tuple[object, ...]] = {}
    for at, folders, names in os.walk(folder):
        for path in (at, *(f"{at}/{name}" for name in (*folders, *names))):
            one = os.lstat(path)
            content = b""
            if stat.S_ISREG(one.st_mode):
                with open(path, "rb") as stream:
                    content = stream.read()
            found[os.path.relpath(path, folder)] = (one.st_mode, one.st_ino, one.st_mtime_ns, one.st_ctime_ns, content)
    return found


def _marked(path: str) -> bool:
    """Return whether the agent's mark became the overlay's own."""
    try:
        return _MARK in os.listxattr(path, follow_symlinks=False)
    except OSError:
        return False


def _refused(why: str) -> Outcome:
    """Judge a backend that opens no such session: nothing of it can be changed from there."""
    return Outcome(held="layer" in why, tried="open a session under review", came_back=why[:200])
