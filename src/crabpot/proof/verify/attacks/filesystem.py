"""Attacks on what lies on the host: reading it, writing to it, and being handed a way to it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from crabpot.proof.verify.claims import Group, NotCarriedOut, Outcome
from crabpot.spec import hardening

if TYPE_CHECKING:
    from crabpot.proof.verify.target import Target

claim = Group("filesystem")

# What a sandbox's /etc consists of: its own few files, and what of the host's anybody may know.
_ETC = (
    "passwd group hosts nsswitch.conf resolv.conf os-release ld.so.cache alternatives localtime ssl pki ca-certificates"
).split()

# Lower uids are accounts of services, which are the same on every host.
_FIRST_PERSON = 1000


@claim.about("filesystem", threats=("path-rules",))
async def cannot_read_a_file_of_the_host(target: Target) -> Outcome:
    """A secret lies on the host, readable by everybody; neither its path nor a magic link of /proc leads there."""
    return await target.attack(
        """
roots = ["", "/..", "/proc/self/root", "/proc/1/root", "/proc/thread-self/root", "/proc/self/cwd/..", "/proc/1/cwd/..",
         "/oldroot", "/newroot", "/host", "/proc/%d/root" % runner]
for root in roots:
    attempt("open " + root + given["path"], read, root + given["path"])
""",
        path=target.bait.secret_file,
    )


@claim.about("filesystem")
async def cannot_read_the_hosts_password_hashes(target: Target) -> Outcome:
    """The file that every intruder reads first."""
    return await target.attack("""
for path in ("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/sudoers", "/etc/security/opasswd",
             "/proc/1/root/etc/shadow", "/usr/../etc/shadow"):
    attempt("open " + path, read, path)
""")


@claim.about("filesystem")
async def cannot_see_the_homes_of_the_host(target: Target) -> Outcome:
    """Keys, tokens and shell histories are there."""
    home = target.gateway.execution.around.home
    return await target.attack(
        """
for path in dict.fromkeys(["/root", "/home", given["home"], "/proc/1/root/root", "/proc/1/root/home"]):
    attempt("list " + path, os.listdir, path)
for name in (".ssh", ".aws", ".config", ".bash_history", ".netrc"):
    attempt("look for ~/" + name, os.lstat, os.path.join(given["home"], name))
""",
        home=home,
    )


@claim.about("filesystem", threats=("own-files", "reused-approval"))
async def cannot_see_crabpots_own_state_or_configuration(target: Target) -> Outcome:
    """Whoever writes the configuration or the approvals decides everything; whoever reads the log knows everything."""
    around = target.gateway.execution.around
    files = sorted(os.listdir(around.state)) if os.path.isdir(around.state) else []
    return await target.attack(
        """
attempt("list " + given["state"], os.listdir, given["state"])
for path in given["paths"]:
    attempt("look at " + path, os.lstat, path)
attempt("make a file there", made, given["state"] + "/planted")
""",
        state=around.state,
        paths=[
            path for path in (around.config, *target.guarded, *(f"{around.state}/{name}" for name in files)) if path
        ],
    )


@claim.about("filesystem")
async def cannot_see_the_hosts_own_folders(target: Target) -> Outcome:
    """Mail, databases, sockets and kernels: nothing of the host is there but its programs."""
    folders = "/var /run /boot /srv /mnt /media /lost+found /var/run /var/lib /var/log".split()
    return await target.attack(
        """
for path in given["folders"]:
    if path == "/var" and os.path.isdir(path) and not given["image"]:
        # Of its own making: a folder for temporary files.
        expect("list /var", os.listdir(path) == ["tmp"], " ".join(os.listdir(path)))
    elif not given["image"]:
        attempt("list " + path, os.listdir, path)
    elif os.path.exists(path):
        expect("whether %s is the host's" % path, identity(path) != given["hosts"].get(path), "it is")
""",
        folders=folders,
        hosts=_identities(folders),
        image=target.has_image,
    )


@claim.about("filesystem")
async def sees_only_a_small_etc_of_its_own(target: Target) -> Outcome:
    """/etc tells who the host is, whom it trusts and what it runs."""
    with open("/etc/passwd", encoding="utf-8", errors="replace") as stream:
        people = [line.split(":")[0] for line in stream if int((*line.split(":"), "0", "0")[2]) >= _FIRST_PERSON]
    telling = [f"/etc/{name}" for name in "machine-id fstab ssh ssl/private hostname environment".split()]
    return await target.attack(
        """
with open("/etc/passwd") as stream:
    people = [line.split(":")[0] for line in stream]
expect("who is in /etc/passwd", not set(people) & set(given["people"]) - {"nobody", "agent"}, " ".join(people))
if not given["image"]:
    there = set(os.listdir("/etc"))
    expect("what lies in /etc", not there - set(given["known"]), " ".join(sorted(there)))
if not given["image"] and os.path.isdir("/etc/ssh"):
    # Of its own making: how ssh reaches the gateway's proxy, and no key of the host's.
    expect("what lies in /etc/ssh", os.listdir("/etc/ssh") == ["ssh_config"], " ".join(os.listdir("/etc/ssh")))
for path in given["telling"]:
    if not given["image"] and path != "/etc/ssh":
        attempt("look at " + path, os.lstat, path)
    elif os.path.exists(path):
        expect("whether %s is the host's" % path, identity(path) != given["hosts"].get(path), "it is")
""",
        known=[*_ETC, "ssh"] if target.proxy_variables else _ETC,
        people=people,
        telling=telling,
        hosts=_identities(telling),
        image=target.has_image,
    )


def _identities(paths: list[str]) -> dict[str, list[int]]:
    """Return what the host has at these paths, in a form that its own mounts inside would share."""
    found = {path: os.stat(path) for path in paths if os.path.exists(path)}
    return {path: [one.st_dev, one.st_ino] for path, one in found.items()}


@claim.about("filesystem")
async def cannot_write_to_the_system(target: Target) -> Outcome:
    """A file planted where others look for programs runs as those others."""
    return await target.attack("""
for folder in ("/", "/usr", "/usr/bin", "/usr/local/bin", "/usr/lib", "/bin", "/lib", "/etc", "/dev", "/sys", "/var",
               "/run", "/home", "/root", "/opt", "/proc", "/agent"):
    if os.path.isdir(folder):
        attempt("make a file in " + folder, made, os.path.join(folder, "planted"))
        attempt("make a folder in " + folder, folder_made, os.path.join(folder, "planted"))
for path in ("/etc/passwd", "/etc/hosts", "/etc/ld.so.cache", "/usr/bin/env"):
    attempt("open %s for writing" % path, opened, path, os.O_WRONLY)
    attempt("rename " + path, renamed, path, path + ".old")
    attempt("set the mode of " + path, mode_set, path)
""")


@claim.about("binds", excused_by="filesystem")
async def has_no_writable_mount_but_its_own(target: Target) -> Outcome:
    """A read-only folder is only as read-only as the mount below it."""
    own = [hardening.WORKSPACE, "/tmp", "/var/tmp", "/dev/shm", "/dev/pts", "/dev/mqueue", "/proc"]  # noqa: S108  inside
    own += [mount.target for mount in target.spec.mounts if mount.access == "rw"]
    return await target.attack(
        """
import stat
# A place that is mounted twice shows what came last.
for place, flags in {place: flags for place, flags, kind in mounts()}.items():
    node = os.path.lexists(place) and stat.S_ISCHR(os.lstat(place).st_mode)
    if node:
        attempt("set the mode of " + place, mode_set, place)
    elif place not in given["own"] and os.path.lexists(place):  # One that another covers is out of reach.
        expect("the mount " + place, "ro" in flags, ",".join(flags))
""",
        own=own,
    )


@claim.about("filesystem", threats=("shared-uid",))
async def cannot_change_the_runner(target: Target) -> Outcome:
    """The runner answers for the sandbox; rewritten, it would lie for the next call."""
    return await target.attack(
        """
attempt("make a file in " + given["folder"], made, given["folder"] + "/planted.py")
attempt("rename " + given["folder"], renamed, given["folder"], given["folder"] + ".old")
for folder, _, names in os.walk(given["folder"]):
    for path in [os.path.join(folder, name) for name in names]:
        attempt("open %s for writing" % path, opened, path, os.O_WRONLY)
        attempt("rename " + path, renamed, path, path + ".old")
""",
        folder=hardening.RUNNER,
    )


@claim.about("filesystem")
async def cannot_hard_link_a_file_from_outside_the_workspace(target: Target) -> Outcome:
    """A second name in the workspace would make a file of the host the agent's to change, and the host's to trust."""
    return await target.attack(
        """
AT_FDCWD, FOLLOW = -100, 0x400
for index, path in enumerate(["/usr/bin/env", "/bin/sh", "/etc/passwd", "/etc/hosts", "/crabpot", given["path"]]):
    new = "%s/.linked-%d" % (given["workspace"], index)
    attempt("link " + path, lambda: os.link(path, new) or "linked")
    held = os.open(path, os.O_PATH) if os.path.exists(path) else -1
    name = ("/proc/self/fd/%d" % held).encode()
    attempt("link %s by its descriptor" % path, syscall, "linkat", AT_FDCWD, name, AT_FDCWD, new.encode(), FOLLOW)
    if os.path.lexists(new):
        os.unlink(new)
        expect("a second name for " + path, False, "it was made")
""",
        workspace=target.workspace,
        path=target.bait.secret_file,
    )


@claim.about("filesystem", "binds", threats=("planted-mount-point",))
async def cannot_have_the_host_follow_a_link_planted_in_the_workspace(target: Target) -> Outcome:
    """CVE-2026-87766: a mount point below the agent's own tree was made through a link, on the host."""
    folder = target.bait.open_folder
    planted = await target.python(
        """
for name in given["names"]:
    for root in ("/oldroot", "/newroot", "", "/proc/1/root"):
        place = "/workspace/" + name + root.replace("/", "-")
        if not os.path.lexists(place):
            os.symlink(root + given["folder"] + "/" + name, place)
        expect("plant " + place, os.path.islink(place), "planted")
""",
        names=[".x", ".crabpot", "agent", "tmp", "proc", "dev", "etc", "home"],
        folder=folder,
    )
    if planted.got:
        raise NotCarriedOut(f"the links were not planted: {planted.got}")
    await target.stop()
    written = await target.call("write", path=".x/planted.txt", content="planted")
    if not await target.answers():
        raise NotCarriedOut("no sandbox opened over the planted links")
    appeared = os.listdir(folder)
    await target.shell("find /workspace -maxdepth 1 -type l -exec rm -f {} +")
    said = written.error.code if written.error else "written inside"
    return Outcome(
        held=not appeared,
        tried=f"{planted.tried}; then opened a new sandbox over them and wrote through one",
        came_back=f"appeared on the host: {appeared}" if appeared else f"nothing appeared in {folder}; write: {said}",
    )
