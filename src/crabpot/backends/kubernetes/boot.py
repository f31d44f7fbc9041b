"""What runs in a pod before the runner does: the process that only waits, and the walls that a runner takes itself.

Standard library only, Python 3.9 and newer. All of it runs before anything of the agent's, or trusts nothing of it.

`wait START DEADLINE`  the pod's main process: ends when no runner came or is left, or when its time is over
`run`                  reports what this pod really is, takes the filter and Landlock, and becomes the runner
`reach ADDRESS…`       reports which of these addresses a packet reaches
`listen PORT`          the other side of that: a listener that answers
`mirror FOLDER`        takes a whole folder from the gateway, and sends back what changed in it
`stop`, `cont`         stops every other process but that one, or lets all continue
`struck`               reports how often the kernel killed a process here for memory
"""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MARK = b"\0crabpot\n"
HERE = os.path.dirname(os.path.abspath(__file__))
_LOOK_S = 5.0
_TRY_S = 1.0
_KEPT = (b"run", b"listen")
_MIRROR = (b"mirror",)
_BEGUN = signal.SIGUSR1
# IP_RECVERR and IPV6_RECVERR, by family, which the standard library does not name.
_TELL_ICMP = {2: (0, 11), 10: (41, 25)}


def wait(start_s: str, deadline_s: str) -> int:
    """Wait; orphans are reaped, and the pod ends with its runner: a gateway that died removes nothing."""
    began, seen = time.monotonic(), False
    # Its output is the node's log of this container, which nothing of the agent's may write to.
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    heard = (signal.SIGTERM, signal.SIGCHLD, _BEGUN)
    signal.pthread_sigmask(signal.SIG_BLOCK, heard)
    while time.monotonic() - began < float(deadline_s):
        got = signal.sigtimedwait(heard, _LOOK_S)
        # A runner that came and went between two looks was there all the same.
        seen = seen or (got is not None and got.si_signo == _BEGUN)
        if got is not None and got.si_signo == signal.SIGTERM:
            return 0
        _reap()
        kept = any(_is_ours(pid, _KEPT) for pid in _pids())
        seen = seen or kept
        if not kept and (seen or time.monotonic() - began > float(start_s)):
            return 0
    return 0


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _stat(pid: int) -> list[bytes]:
    """Return the fields of a process after its name, which may have anything in it; none if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []


def _parent(pid: int) -> int:
    # The parent of what an exec stream started is outside of the pod, and has no number here.
    fields = _stat(pid)
    return int(fields[1]) if fields else -1


def _is_ours(pid: int, actions: tuple[bytes, ...]) -> bool:
    """Return whether the gateway started a process for one of these actions."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().split(b"\0")
    except OSError:
        return False
    # What the agent starts has a parent here, whatever it calls itself.
    return _parent(pid) == 0 and any(word in actions for word in words[4:5])


def run() -> int:
    """Look at this pod, put up the last walls, report both, and become the runner."""
    from crabpot_runner import inside  # type: ignore[import-not-found]  # noqa: PLC0415
    from crabpot_runner.core import landlock, prctl, seccomp, server  # type: ignore[import-not-found]  # noqa: PLC0415

    with open(f"{HERE}/filter.{os.uname().machine}", "rb") as file:
        program = file.read()
    with open(HERE + "/plan.json", "rb") as file:
        plan = json.load(file)
    prctl.forbid_privileges()
    os.kill(1, _BEGUN)
    found = {**inside.report(), "processes": len(_pids())}
    found["landlock"] = landlock.version()
    if plan["unrunnable"]:
        found["noexec"] = landlock.forbid_running(tuple(plan["unrunnable"]))
    seccomp.install(program)
    found |= inside.filtered()
    _say(found)
    result: int = server.main([])
    return result


def _say(found: dict[str, Any]) -> int:
    os.write(2, MARK + json.dumps(found).encode() + b"\n")
    return 0


def reach(*addresses: str) -> int:
    """Report which of these addresses ("tcp HOST PORT") a packet reaches, all at once."""
    import select  # noqa: PLC0415
    import socket  # noqa: PLC0415

    waiting, reached = {}, []
    for address in addresses:
        kind, host, port = address.split(" ")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
        sock.setblocking(False)
        sock.setsockopt(*_TELL_ICMP[family], 1)
        # No route, or not allowed: nothing was sent.
        if sock.connect_ex((host, int(port))) in (0, errno.EINPROGRESS, errno.ECONNREFUSED):
            waiting[sock] = address
        if kind == "udp" and sock in waiting:
            try:
                sock.send(b"?")
            except OSError:
                del waiting[sock]
    until = time.monotonic() + _TRY_S
    while waiting and time.monotonic() < until:
        streams = [sock for sock in waiting if sock.type == socket.SOCK_STREAM]
        ready = select.select(list(waiting), streams, [], max(until - time.monotonic(), 0))
        for sock in {*ready[0], *ready[1]}:
            if _came_back(sock):
                reached.append(waiting[sock])
            del waiting[sock]
    return _say({"reached": sorted(reached)})


def _came_back(sock: Any) -> bool:
    """Return whether something came back from there; what has no way is dropped, has no route, or is turned back.

    A machine refuses TCP by a reset. An ICMP message is a firewall's on the way: some network plugins enforce policies
    so (kube-router). For UDP only the listener's answer counts, since a refusal is such a message in any case.
    """
    import socket  # noqa: PLC0415

    try:
        turned_back = bool(sock.recvmsg(1, 512, socket.MSG_ERRQUEUE)[1])
    except OSError:
        # Nothing was queued; kernels before 5.9 queue nothing here, and a refusal is taken for the machine's own.
        turned_back = False
    error = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    refused = error == errno.ECONNREFUSED and sock.type == socket.SOCK_STREAM
    return not turned_back and (error == 0 or refused)


def listen(port: str) -> int:
    """Answer, by TCP and UDP, for as long as this process lives."""
    import select  # noqa: PLC0415
    import socket  # noqa: PLC0415

    streams = socket.create_server(("", int(port)), backlog=64)
    packets = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    packets.bind(("", int(port)))
    os.write(2, MARK + b"{}\n")
    while True:
        watched: list[Any] = [streams, packets, 0]
        ready, _, _ = select.select(watched, [], [])
        if 0 in ready and not os.read(0, 1024):
            return 0
        if streams in ready:
            streams.accept()[0].close()
        if packets in ready:
            packets.sendto(b"!", packets.recvfrom(64)[1])


def mirror(folder: str) -> int:
    """Have what is in a folder here and at the gateway."""
    from crabpot_runner.files import mirror as files  # type: ignore[import-not-found]  # noqa: PLC0415

    result: int = files.serve(folder, sys.stdin.buffer, sys.stdout.buffer)
    return result


def stop() -> int:
    """Stop all but what runs none of the agent's work, and report whether they are."""
    ours = [1, os.getpid(), *(pid for pid in _pids() if _is_ours(pid, _MIRROR))]
    for _ in range(50):
        os.kill(-1, signal.SIGSTOP)
        for pid in ours[2:]:
            os.kill(pid, signal.SIGCONT)
        others = [_stat(pid) for pid in _pids() if pid not in ours]
        if all(not fields or fields[0] in (b"T", b"Z", b"X") for fields in others):
            return _say({"stopped": True})
        time.sleep(0.01)
    _say({"stopped": False})
    return 1


def cont() -> int:
    """Let all continue."""
    os.kill(-1, signal.SIGCONT)
    return _say({})


def struck() -> int:
    """Report the kernel's own count, of either version of control groups."""
    for path in ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"):
        try:
            with open(path, encoding="ascii") as file:
                counts = dict(line.split() for line in file)
        except (OSError, ValueError):
            continue
        return _say({"killed": int(counts.get("oom_kill", 0))})
    return _say({"killed": 0})


def _shield() -> None:
    """Keep what runs here as the same user out of this process's memory and descriptors."""
    package: Any = type(sys)("crabpot_runner")
    package.__path__ = [HERE + "/runner", HERE]
    sys.modules["crabpot_runner"] = package
    from crabpot_runner.core import prctl  # noqa: PLC0415

    prctl.shield_and_adopt()


def main(argv: list[str]) -> int:
    """Do what the first word says."""
    actions: tuple[Any, ...] = (wait, run, reach, listen, mirror, stop, cont, struck)
    chosen = next(one for one in actions if one.__name__ == argv[0])
    _shield()
    result: int = chosen(*argv[1:])
    return result


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
