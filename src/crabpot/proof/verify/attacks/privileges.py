"""Attacks that try to be somebody else, or to be allowed more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabpot.proof.verify import witness
from crabpot.proof.verify.claims import Group, NotCarriedOut, Outcome

if TYPE_CHECKING:
    from crabpot.proof.verify.target import Target

claim = Group("privileges")


@claim.about("user")
async def is_not_root(target: Target) -> Outcome:
    """None of its ids is 0, in any role."""
    return await target.attack("""
mine = status()
for name in ("Uid", "Gid", "Groups"):
    expect(name, "0" not in mine[name].split(), " ".join(mine[name].split()) or "none")
""")


@claim.about("user", "capabilities", "seccomp")
async def is_not_root_on_the_host_either(target: Target) -> Outcome:
    """An id inside is only a name; what counts is whom the host takes it for."""
    marker = f"who-{target.bait.token}"
    process = await target.start(f"exec sh -c 'read _' {marker}")
    seen = await witness.within(5.0, lambda: bool(witness.processes_with(marker)))
    states = [witness.status(pid) for pid in witness.processes_with(marker)]
    await target.end(process)
    if not seen or not states:
        raise NotCarriedOut("the host does not see the sandbox's process")
    ids = {name: states[0][name].split() for name in ("Uid", "Gid")}
    rights = {name: states[0][name] for name in ("CapEff", "CapPrm", "NoNewPrivs", "Seccomp")}
    held = "0" not in [*ids["Uid"], *ids["Gid"]] and not int(rights["CapEff"], 16) and rights["NoNewPrivs"] == "1"
    return Outcome(
        held=held and rights["Seccomp"] == "2",
        tried="looked at a process of the sandbox from the host",
        came_back=f"uid {ids['Uid'][0]}, gid {ids['Gid'][0]}, {', '.join(f'{k} {v}' for k, v in rights.items())}",
    )


@claim.about("capabilities")
async def holds_no_capability(target: Target) -> Outcome:
    """Not held, not inheritable, not ambient, and not even in the bounding set."""
    return await target.attack("""
mine = status()
for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
    expect(name, int(mine[name], 16) == 0, mine[name])
""")


@claim.about(excused_by="landlock")
async def stands_within_a_second_wall(target: Target) -> Outcome:
    """Landlock does not announce itself; but of the sixteen layers that a kernel stacks, one must be taken."""
    return await target.attack("""
libc.prctl(38, 1, 0, 0, 0)
only_devices = (1 << 11).to_bytes(8, sys.byteorder)
wall, stacked = libc.syscall(444, only_devices, ctypes.c_size_t(8), 0), 0
while wall >= 0 and stacked < 16 and libc.syscall(446, wall, 0) == 0:
    stacked += 1
expect("stack sixteen walls of Landlock", 0 < stacked < 16, "%d went up" % stacked)
""")


@claim.about("no-new-privileges")
async def can_never_gain_privileges_by_running_a_program(target: Target) -> Outcome:
    """no-new-privileges is on, and cannot be turned off again."""
    return await target.attack("""
SET, GET = 38, 39
expect("NoNewPrivs", status()["NoNewPrivs"] == "1", status()["NoNewPrivs"])
attempt("turn it off", lambda: libc.prctl(SET, 0, 0, 0, 0) == 0 and "turned off")
expect("NoNewPrivs after that", libc.prctl(GET, 0, 0, 0, 0) == 1, libc.prctl(GET, 0, 0, 0, 0))
""")


@claim.about("seccomp")
async def makes_every_system_call_through_a_filter(target: Target) -> Outcome:
    """Seccomp mode 2, in this process and in the runner."""
    return await target.attack("""
for pid in ("self", runner):
    expect("Seccomp of %s" % pid, status(pid)["Seccomp"] == "2", status(pid)["Seccomp"])
""")


@claim.about("user", "capabilities")
async def cannot_become_another_user(target: Target) -> Outcome:
    """Every call that changes the user."""
    return await target.attack("""
attempt("setuid(0)", lambda: os.setuid(0) or "done")
attempt("setgid(0)", lambda: os.setgid(0) or "done")
attempt("setresuid(0, 0, 0)", lambda: os.setresuid(0, 0, 0) or "done")
attempt("setreuid(0, 0)", lambda: os.setreuid(0, 0) or "done")
attempt("setgroups([0])", lambda: os.setgroups([0]) or "done")
attempt("setuid(1)", lambda: os.setuid(1) or "done")
libc.setfsuid(0)
expect("setfsuid(0)", status()["Uid"].split()[3] != "0", status()["Uid"].split()[3])
""")


@claim.about("no-new-privileges")
async def gains_nothing_by_a_setuid_program(target: Target) -> Outcome:
    """Each one that can be found is started; its loader shows what the kernel made of it, and then ends it."""
    return await target.attack("""
import stat, subprocess
found = []
for top in ("/usr/bin", "/usr/sbin", "/usr/local", "/usr/lib", "/usr/libexec", "/bin", "/sbin", "/opt"):
    for folder, _, names in os.walk(top):
        for path in [os.path.join(folder, name) for name in names]:
            try:
                mode = os.lstat(path).st_mode
            except OSError:
                continue
            if stat.S_ISREG(mode) and mode & (stat.S_ISUID | stat.S_ISGID):
                found.append(path)
expect("look for setuid and setgid programs", True, "%d found" % len(found))
for path in found[:40]:
    # The loader prints what the kernel told it, unless the program is privileged: then it says nothing at all.
    env = {"LD_SHOW_AUXV": "1", "LD_TRACE_LOADED_OBJECTS": "1"}
    try:
        said = subprocess.run([path], env=env, capture_output=True, stdin=subprocess.DEVNULL, timeout=5).stdout.decode()
    except PermissionError:
        expect("run " + path, True, "may not even be run")
        continue
    facts = dict(line.split(":", 1) for line in said.splitlines() if line.startswith("AT_"))
    who = [facts.get(name, "untold").strip() for name in ("AT_EUID", "AT_EGID", "AT_SECURE")]
    expect("run " + path, who == [str(os.getuid()), str(os.getgid()), "0"], "euid %s egid %s secure %s" % tuple(who))
""")


@claim.about("no-new-privileges", "capabilities")
async def gains_nothing_by_a_file_capability(target: Target) -> Outcome:
    """A capability in a file's attributes is one for whoever runs it."""
    return await target.attack("""
import shutil, subprocess
copy = "/workspace/.capable"
shutil.copy(shutil.which("cat"), copy)
os.chmod(copy, 0o755)
every = b"\\xff" * 4 + b"\\xff" * 4 + b"\\xff" * 4 + b"\\xff" * 4
values = {"version 2": b"\\x01\\x00\\x00\\x02" + every, "version 3": b"\\x01\\x00\\x00\\x03" + every + bytes(4)}
for name, value in values.items():
    what = "write capabilities of %s into a program" % name
    attempt(what, lambda: os.setxattr(copy, "security.capability", value) or "written")
status = subprocess.run([copy, "/proc/self/status"], capture_output=True).stdout.decode()
held = [line.split()[1] for line in status.splitlines() if line.startswith("CapEff")]
expect("run it", held == ["0" * 16], " ".join(held))
os.unlink(copy)
""")


@claim.about("seccomp", "namespaces", threats=("kernel-surface",))
async def cannot_make_a_namespace_of_its_own(target: Target) -> Outcome:
    """In one's own user namespace one is root, and most of the kernel's attack surface lies open."""
    return await target.attack("""
import signal
kinds = {"user": 0x10000000, "mount": 0x20000, "pid": 0x20000000, "net": 0x40000000, "ipc": 0x8000000, "uts": 0x4000000,
         "cgroup": 0x2000000, "time": 0x80}
for name, flag in kinds.items():
    attempt("unshare the %s namespace" % name, filtered, "unshare", flag)
    if name != "time":
        attempt("clone into a new %s namespace" % name, filtered, "clone", flag | signal.SIGCHLD, 0, 0, 0, 0)
attempt("unshare user and mount", filtered, "unshare", kinds["user"] | kinds["mount"])
given["numbers"]["clone3"] = 435
asked = (ctypes.c_uint64 * 11)(kinds["user"], 0, 0, 0, signal.SIGCHLD)
attempt("clone3 into a new user namespace", filtered, "clone3", ctypes.byref(asked), ctypes.sizeof(asked))
""")


@claim.about("seccomp", "namespaces", threats=("kernel-surface",))
async def cannot_join_another_namespace(target: Target) -> Outcome:
    """The runner's, pid 1's or its own parent's: all of them are refused."""
    return await target.attack("""
for pid in dict.fromkeys(("1", str(runner), "self")):
    for name in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup"):
        path = "/proc/%s/ns/%s" % (pid, name)
        def join():
            held = os.open(path, os.O_RDONLY)
            return filtered("setns", held, 0)
        attempt("join " + path, join)
attempt("join no namespace at all", filtered, "setns", -1, 0)
""")


@claim.about("user", "namespaces")
async def cannot_map_users_anew(target: Target) -> Outcome:
    """The map says whom the host takes an id for; written once, it stays."""
    return await target.attack("""
for name, text in (("uid_map", b"0 0 1"), ("gid_map", b"0 0 1"), ("setgroups", b"allow")):
    for pid in ("self", "1"):
        def write():
            held = os.open("/proc/%s/%s" % (pid, name), os.O_WRONLY)
            return os.write(held, text) and "written"
        attempt("write /proc/%s/%s" % (pid, name), write)
def in_a_new_one():
    who = os.getuid()
    filtered("unshare", 0x10000000)
    with open("/proc/self/uid_map", "w") as stream:
        stream.write("0 %d 1" % who)
    return 0 if os.getuid() == 0 else 1
ended = in_a_child(in_a_new_one)
expect("be root in a user namespace of its own", ended != ("exit", 0), "%s %d" % ended)
""")


@claim.about("limits.openFiles", "limits.fileSize")
async def cannot_raise_a_limit_of_its_own(target: Target) -> Outcome:
    """Anybody may lower a limit, only root may raise one."""
    return await target.attack("""
import resource
def raise_to(which, much):
    try:
        resource.setrlimit(which, (much, much))
    except ValueError as error:
        raise PermissionError(errno.EPERM, str(error))
    return "raised"
for name in ("NOFILE", "NPROC", "FSIZE", "CORE", "NICE", "RTPRIO"):
    which = getattr(resource, "RLIMIT_" + name)
    hard = resource.getrlimit(which)[1]
    if hard == resource.RLIM_INFINITY:
        expect(name, False, "it has no limit")
        continue
    attempt("raise %s from %d" % (name, hard), raise_to, which, hard + 1)
expect("dump core", resource.getrlimit(resource.RLIMIT_CORE)[1] == 0, "limit 0")
""")


@claim.about("capabilities", threats=("exhaustion",))
async def cannot_put_itself_before_others(target: Target) -> Outcome:
    """A sandbox that the kernel spares when memory is short, or runs before everything else, harms its host."""
    return await target.attack("""
def write(path, text):
    held = os.open(path, os.O_WRONLY)
    return os.write(held, text) and "written"
attempt("be spared when memory is short", write, "/proc/self/oom_score_adj", b"-1000")
attempt("be nicer to itself", lambda: os.setpriority(os.PRIO_PROCESS, 0, -5) or "done")
attempt("run in real time", lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10)) or "done")
""")
