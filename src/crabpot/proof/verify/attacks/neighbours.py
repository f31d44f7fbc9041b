"""Attacks of one sandbox on another of the same gateway and the same user."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from crabpot.proof.verify import witness
from crabpot.proof.verify.claims import Group, NotCarriedOut, Outcome

if TYPE_CHECKING:
    from crabpot.proof.verify.target import Target

files, processes, meetings = Group("filesystem"), Group("processes"), Group("network")

_MEETING = (
    "import ctypes, socket, sys; s = socket.socket(socket.AF_UNIX); s.bind(chr(0) + sys.argv[1]); s.listen(); "
    't = socket.create_server(("127.0.0.1", 0)); ctypes.CDLL(None).shmget(int(sys.argv[2]), 4096, 0o1666); '
    'open("/dev/shm/" + sys.argv[1], "w").close(); print(t.getsockname()[1], flush=True); sys.stdin.read()'
)


@processes.about("namespaces")
async def cannot_see_or_signal_a_process_of_another_sandbox(target: Target) -> Outcome:
    """Both run under one uid: only their pid namespaces keep them apart."""
    marker = f"neighbour-{target.bait.token}"
    process = await target.other.start(f"exec sh -c 'read _' {marker}")
    await witness.within(5.0, lambda: bool(witness.processes_with(marker)))
    host_pids = witness.processes_with(marker)
    report = await target.python(
        """
import signal
for pid in [name for name in os.listdir("/proc") if name.isdigit()]:
    attempt("find it as process " + pid, lambda: given["marker"].encode() in read("/proc/%s/cmdline" % pid))
for pid in given["pids"]:
    if not os.path.exists("/proc/%d" % pid):
        attempt("kill process %d" % pid, lambda: os.kill(pid, signal.SIGKILL) or "delivered")
""",
        marker=marker,
        pids=host_pids,
    )
    polled = await target.other.call("process", action="poll", id=process)
    alive = bool(polled.data and polled.data.get("running"))
    await target.other.end(process)
    return Outcome(
        held=report.got is None and alive and bool(host_pids),
        tried=report.tried,
        came_back=f"{report.got or report.refused}; the neighbour's process {'runs on' if alive else 'IS GONE'}",
    )


@files.about("filesystem")
async def cannot_read_or_write_a_file_of_another_sandbox(target: Target) -> Outcome:
    """Private folders lie side by side on the host, and belong to one user."""
    name = f"neighbour-{target.bait.token}.txt"
    wrote = await target.other.call("write", path=name, content=target.bait.secret)
    if not wrote.success:
        raise NotCarriedOut(f"the neighbour could not write its file: {wrote.error}")
    folder = target.other.spec.workspace
    report = await target.python(
        """
name, folder = given["name"], given["folder"]
places = ["/workspace", "/tmp", "/workspace/..", folder, "/workspace/../" + os.path.basename(folder),
          "/proc/1/root" + folder, "/proc/1/cwd", "/oldroot" + folder, "/agent"]
for place in places:
    attempt("open %s/%s" % (place, name), read, place + "/" + name)
    attempt("make a file in " + place, lambda: place.startswith(folder) and made(place + "/planted"))
""",
        name=name,
        folder=folder,
    )
    kept = await target.other.call("read", path=name)
    await target.other.shell(f"rm -f {name}")
    whole = bool(kept.data and kept.data.get("content") == target.bait.secret)
    return Outcome(
        held=report.got is None and whole,
        tried=report.tried,
        came_back=f"{report.got or report.refused}; the neighbour's file is {'whole' if whole else 'CHANGED'}",
    )


@meetings.about("namespaces", "network", threats=("host-sockets",), open_on=("host",))
async def cannot_meet_another_sandbox_in_shared_memory_or_sockets(target: Target) -> Outcome:
    """Abstract sockets, segments and loopback ports have no file permissions that would keep two sandboxes apart."""
    name = f"crabpot-meeting-{target.bait.token}"
    key = int(target.bait.token[:7], 16) + 1
    process = await target.other.start(f"exec python3 -I -c '{_MEETING}' {name} {key}")
    port = await target.other.line_from(process)
    outcome = await target.attack(
        """
import socket
def reach(family, address):
    with socket.socket(family) as one:
        one.settimeout(2)
        one.connect(address)
        return "connected"
attempt("connect to its abstract socket", reach, socket.AF_UNIX, chr(0) + given["name"])
attempt("connect to its port", reach, socket.AF_INET, ("127.0.0.1", given["port"]))
attempt("open its segment", lambda: str(syscall("shmget", given["key"], 0, 0)))
attempt("open its named memory", opened, "/dev/shm/" + given["name"], os.O_RDONLY)
""",
        name=name,
        port=int(port),
        key=key,
    )
    await target.other.end(process)
    return outcome


@processes.about("namespaces")
async def is_told_nothing_of_another_sandbox_by_its_own_name(target: Target) -> Outcome:
    """Both look alike from inside: same host name, same folder names, nothing that tells how many there are."""
    other = os.path.basename(target.other.spec.workspace)
    return await target.attack(
        """
import socket
expect("the host's name", socket.gethostname() != given["host"], socket.gethostname())
for path in ("/proc/self/cgroup", "/proc/1/cgroup", "/proc/self/mountinfo"):
    text = read(path, 65536).decode("utf-8", "replace")
    expect("the neighbour's name in " + path, given["other"] not in text, "not there")
""",
        other=other,
        host=os.uname().nodename,
    )
