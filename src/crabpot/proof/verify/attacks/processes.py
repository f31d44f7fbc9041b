"""Attacks on other processes: the host's, the runner's, and those that should be gone."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from crabpot.proof.verify import witness
from crabpot.proof.verify.bait import VARIABLE
from crabpot.proof.verify.claims import Group, NotCarriedOut, Outcome

if TYPE_CHECKING:
    from crabpot.proof.verify.target import Target

claim = Group("processes")

_NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
_PLENTY = 64


@claim.about("namespaces", threats=("environment",))
async def cannot_see_the_hosts_processes(target: Target) -> Outcome:
    """Command lines and environments of others contain their passwords."""
    return await target.attack(
        """
pids = [name for name in os.listdir("/proc") if name.isdigit()]
expect("list the processes", len(pids) <= given["plenty"], "%d of them" % len(pids))
for pid in pids[: given["plenty"]]:
    for name in ("cmdline", "environ"):
        path = "/proc/%s/%s" % (pid, name)
        attempt("find the bait in " + path, lambda: given["token"].encode() in read(path, 65536))
attempt("look at /proc/%d" % given["pid"], lambda: given["token"].encode() in read("/proc/%d/cmdline" % given["pid"]))
""",
        token=target.bait.token,
        pid=target.bait.process,
        plenty=_PLENTY,
    )


@claim.about("namespaces")
async def cannot_signal_a_process_of_the_host(target: Target) -> Outcome:
    """A process of the host runs under the sandbox's own uid; its pid is known, and that does not help."""
    report = await target.python(
        """
import signal
pid = given["pid"]
if os.path.exists("/proc/%d" % pid) and given["token"].encode() not in read("/proc/%d/cmdline" % pid):
    expect("reach process %d" % pid, True, "that number is one of this sandbox's own processes")
else:
    attempt("kill process %d" % pid, lambda: os.kill(pid, signal.SIGKILL) or "delivered")
    attempt("open process %d" % pid, lambda: os.pidfd_open(pid) and "opened")
""",
        pid=target.bait.process,
        token=target.bait.token,
    )
    alive = target.bait.is_alive()
    return Outcome(
        held=report.got is None and alive,
        tried=report.tried,
        came_back=f"{report.got or report.refused}; the process {'runs on' if alive else 'IS GONE'}",
    )


@claim.about(excused_by="namespaces")
async def shares_no_namespace_with_the_host(target: Target) -> Outcome:
    """What is shared can be seen, signalled, listened to or filled."""
    shared = ("net",) if target.agent.sandbox.network.name == "host" else ()
    host = {name: os.readlink(f"/proc/self/ns/{name}") for name in _NAMESPACES if name not in shared}
    return await target.attack(
        """
for name, ours in given["host"].items():
    theirs = os.readlink("/proc/self/ns/" + name)
    expect("the %s namespace" % name, theirs != ours, theirs)
""",
        host=host,
    )


@claim.about("namespaces")
async def cannot_reach_the_hosts_shared_memory(target: Target) -> Outcome:
    """System V segments and named memory belong to an ipc namespace, or to whoever mounts the host's /dev/shm."""
    return await target.attack(
        """
if given["key"] is not None:
    attempt("open segment %d" % given["key"], lambda: str(syscall("shmget", given["key"], 0, 0)))
attempt("open " + str(given["file"]), read, str(given["file"]))
attempt("list the segments", lambda: len(read("/proc/sysvipc/shm", 65536).splitlines()) > 1)
attempt("list /dev/shm", os.listdir, "/dev/shm")
""",
        key=target.bait.memory_key,
        file=target.bait.memory_file,
    )


@claim.about("seccomp", threats=("shared-uid",))
async def cannot_read_the_runners_memory(target: Target) -> Outcome:
    """It has the same uid as what it runs: only being not dumpable protects its memory."""
    return await target.attack("""
for name in ("mem", "environ", "maps", "auxv", "stack", "syscall", "pagemap"):
    attempt("read /proc/%d/%s" % (runner, name), read, "/proc/%d/%s" % (runner, name), 16)
attempt("open its memory for writing", opened, "/proc/%d/mem" % runner, os.O_RDWR)
one = (ctypes.c_char * 16)()
class Piece(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
there = Piece(ctypes.addressof(one), 16)
for name in ("process_vm_readv", "process_vm_writev"):
    attempt(name + " on the runner", filtered, name, runner, ctypes.byref(there), 1, ctypes.byref(there), 1, 0)
    attempt(name + " on itself", filtered, name, os.getpid(), ctypes.byref(there), 1, ctypes.byref(there), 1, 0)
""")


@claim.about("seccomp", threats=("shared-uid", "container-runtime"))
async def cannot_take_the_runners_end_of_the_wire(target: Target) -> Outcome:
    """Whoever holds the wire speaks to the gateway in the runner's name."""
    return await target.attack("""
attempt("list the runner's descriptors", os.listdir, "/proc/%d/fd" % runner)
for number in range(12):
    attempt("open its descriptor %d" % number, opened, "/proc/%d/fd/%d" % (runner, number), os.O_RDWR)
    attempt("look at its descriptor %d" % number, os.readlink, "/proc/%d/fd/%d" % (runner, number))
try:
    pidfd = os.pidfd_open(runner)
except OSError:
    pidfd = -1
for number in range(12):
    attempt("pidfd_getfd %d" % number, filtered, "pidfd_getfd", pidfd, number, 0)
attempt("kcmp", filtered, "kcmp", os.getpid(), runner, 0, 0, 0)
""")


@claim.about("sandbox", threats=("shared-uid", "container-runtime"))
async def cannot_open_a_descriptor_of_another_process(target: Target) -> Outcome:
    """Whatever runs before the runner (an init of the engine's) has the same pipes: /proc/1/fd/1 is the wire."""
    return await target.attack("""
others = sorted({1, runner} | {int(name) for name in os.listdir("/proc") if name.isdigit()} - {os.getpid()})
for pid in others:
    attempt("list the descriptors of process %d" % pid, os.listdir, "/proc/%d/fd" % pid)
    for number in range(16):
        path = "/proc/%d/fd/%d" % (pid, number)
        attempt("look at " + path, os.readlink, path)
        for how, flags in (("read", os.O_RDONLY), ("write", os.O_WRONLY)):
            attempt("open %s to %s" % (path, how), opened, path, flags)
""")


@claim.about("seccomp", threats=("shared-uid",))
async def cannot_trace_the_runner(target: Target) -> Outcome:
    """A tracer writes registers and memory of what it traces."""
    return await target.attack("""
TRACEME, ATTACH, SEIZE = 0, 16, 0x4206
# Attached to, the runner would stand still, so that is tried on nobody; seized, it runs on.
attempt("PTRACE_ATTACH", filtered, "ptrace", ATTACH, 0, 0, 0)
attempt("PTRACE_SEIZE", filtered, "ptrace", SEIZE, runner, 0, 0)
attempt("PTRACE_TRACEME", filtered, "ptrace", TRACEME, 0, 0, 0)
""")


@claim.about("sandbox", threats=("container-runtime", "host-sockets"))
async def inherits_no_descriptor(target: Target) -> Outcome:
    """A descriptor left open by the gateway is a way past every mount (CVE-2024-21626)."""
    return await target.attack("""
import stat
for name in sorted(os.listdir("/proc/self/fd"), key=int):
    try:
        where = os.readlink("/proc/self/fd/" + name)
    except FileNotFoundError:
        continue  # The one that the listing itself used.
    expect("descriptor " + name, int(name) <= 2 and where.startswith("pipe:"), where)
""")


@claim.about("sandbox", threats=("environment",))
async def finds_only_the_promised_environment(target: Target) -> Outcome:
    """The gateway's own environment is full of keys, and the bait is among them."""
    # The shell adds to what it passes on; what it was given itself is in /proc, read by its own redirection.
    given = await target.must_run("tr '\\0' '\\n' < /proc/$$/environ")
    names = [line.partition("=")[0] for line in given.splitlines()]
    promised = ["PATH", "HOME", "USER", "LANG", *target.agent.sandbox.env, *target.proxy_variables]
    held = sorted(names) == sorted(set(promised)) and target.bait.secret not in given
    shown = "the gateway's secret" if target.bait.secret in given or VARIABLE in names else " ".join(names)
    return Outcome(held=held, tried="read the environment that the shell was given", came_back=shown)


@claim.about("limits.timeLimit", threats=("exhaustion",))
async def leaves_nothing_running_when_a_call_ends(target: Target) -> Outcome:
    """A grandchild in a session of its own, forked twice, is no longer anybody's child."""
    marker = f"left-{target.bait.token}"
    # The call ends only once it stands: between two programs the host would see no command line of it.
    stands = 'trap "" TERM HUP; echo stands; exec >/dev/null 2>&1; (sleep 600; :) & sleep 600; :'
    await target.must_run(f"x=$( (setsid sh -c '{stands}' {marker} &) ); echo $x")
    gone = await witness.within(5.0, lambda: not witness.processes_with(marker))
    return Outcome(
        held=gone,
        tried="forked twice, called setsid, ignored TERM, and let the call end",
        came_back="nothing of it is left" if gone else f"still running: {witness.processes_with(marker)}",
    )


@claim.about("sandbox", threats=("exhaustion",))
async def leaves_nothing_running_when_the_sandbox_ends(target: Target) -> Outcome:
    """A background process outlives its call, and must not outlive its sandbox."""
    marker = f"stays-{target.bait.token}"
    # Only the last program has the marker in its words: whoever sees it knows that it has its own session.
    loops = 'trap "" TERM HUP; exec sh -c "while :; do sleep 1; done" $0-$1'
    await target.start(f"setsid sh -c '{loops}' stays {target.bait.token}")
    seen = await witness.within(target.paced(5.0), lambda: bool(witness.processes_with(marker)))
    if not seen:
        raise NotCarriedOut("the background process was never seen from the host")
    await target.stop()
    gone = await witness.within(5.0, lambda: not witness.processes_with(marker))
    return Outcome(
        held=gone,
        tried="started a background process that ignores TERM, and ended the sandbox",
        came_back="nothing of it is left" if gone else f"still running: {witness.processes_with(marker)}",
    )
