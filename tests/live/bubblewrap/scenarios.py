"""What happens in the real tests: each function is run in a process of its own, as one user, and prints what it found."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path[0] = str(Path(__file__).parents[3])


from crabpot.backends.bubblewrap import candidates, probe  # noqa: E402
from crabpot.backends.bubblewrap import opening as starting  # noqa: E402
from crabpot.backends.bubblewrap.backend import Bubblewrap  # noqa: E402
from crabpot.backends.bubblewrap.fork_server import ForkServers  # noqa: E402
from crabpot.backends.bubblewrap.opening import Opening  # noqa: E402
from crabpot.backends.bubblewrap.render import Mounting, Program, arguments  # noqa: E402
from crabpot.backends.bubblewrap.walls import Walls  # noqa: E402
from crabpot.errors import SandboxLost, SandboxUnavailable  # noqa: E402
from crabpot.settings import Limits, Size  # noqa: E402
from crabpot.spec.network import NetworkSpec  # noqa: E402
from crabpot.spec.spec import Mount, User  # noqa: E402
from tests.live.bubblewrap import forking, gateway  # noqa: E402
from tests.live.bubblewrap.gateway import sandbox  # noqa: E402
from tests.support.specs import make_spec  # noqa: E402

MIB = 1024**2


async def inside(state: str) -> Any:
    """Look around in an ordinary sandbox."""
    questions = {
        "id": "id",
        "whoami": "whoami",
        "status": "cat /proc/self/status",
        "runner": "cat /proc/1/status",
        "mounts": "cat /proc/self/mounts",
        "host path of the workspace": "awk '$5 == \"/workspace\" {print $4}' /proc/self/mountinfo",
        "go to host paths": "cut -d' ' -f4 /proc/self/mountinfo | grep sandboxes/ | xargs -n1 ls -d",
        "pressure": "ls -A /proc/pressure; : > /proc/pressure/cpu",
        "root": "ls -A /",
        "etc": "ls -A /etc",
        "crabpot": "ls -A /crabpot",
        "environment": "env -0 | tr '\\0' '\\n'",
        "interfaces": "cat /proc/net/dev",
        "processes": "ls -d /proc/[0-9]*",
        "hostname": "uname -n",
        "groups": "cat /proc/self/cgroup",
        "fds": "ls /proc/self/fd",
        "write root": "touch /planted /usr/planted /etc/planted /dev/planted /crabpot/planted; ls /planted",
        "touch device": "touch /dev/null",
        "use devices": "echo x > /dev/null && head -c 3 /dev/zero | wc -c && head -c 3 /dev/urandom | wc -c",
        "run in tmp": "cp /bin/true /tmp/t && /tmp/t; cp /bin/true /dev/shm/t && /dev/shm/t",
        "run in workspace": "cp /bin/true ./t && ./t && echo ran",
        "terminal": "python3 -c 'import os; print(os.ttyname(os.openpty()[1]), os.listdir(\"/dev/pts\"))'",
        "controlling": "cat /dev/tty",
        "kernel symbols": "wc -c < /proc/kallsyms",
        "sysctl": "echo 1 > /proc/sys/vm/drop_caches; echo 1 > /proc/sys/kernel/hostname; sysctl -n kernel.hostname",
        "runner memory": "cat /proc/1/environ /proc/1/maps; ls /proc/1/fd /proc/1/root",
        "mounting": "mount -t tmpfs none /tmp; unshare -U true; chroot / true",
        "host files": "ls /home /root /var /sys /run /boot /srv /opt /etc/shadow /etc/ssl/private 2>&1",
        "certificates": "head -c 27 /etc/ssl/certs/ca-certificates.crt",
        "limits": "ulimit -n; ulimit -f; ulimit -c",
        "oom": "cat /proc/self/oom_score_adj",
    }
    async with sandbox(Bubblewrap(state=state), make_spec(state)) as (box, stream):
        found: dict[str, Any] = {name: await stream.shell(command) for name, command in questions.items()}
        found["terminal number"] = Path(f"/proc/{box.pid}/stat").read_text().rpartition(")")[2].split()[4]
        found["server environment"] = Path(f"/proc/{box._server.pid}/environ").read_bytes().decode()
        return found


async def clauses(state: str) -> Any:
    """Report what this machine makes of an ordinary spec."""
    return {clause.name: clause.state for clause in await Bubblewrap(state=state).probe(make_spec(state))}


async def open_and_close(state: str) -> Any:
    """Open and close sandboxes, one at a time and many at once, and count what is left."""
    backend = Bubblewrap(state=state)
    async with sandbox(backend, make_spec(state)):
        pass
    before = gateway.open_files()

    async def once(number: int) -> str:
        async with sandbox(backend, make_spec(state, f"crabpot-{number}")) as (box, stream):
            await asyncio.gather(box.close(), box.close()) if number % 5 == 0 else None
            return "" if number % 5 == 0 else await stream.shell("(setsid sleep 1000 &); echo $$")

    answers = await asyncio.gather(*(once(number) for number in range(12)))
    after = gateway.open_files()
    await backend.close()
    return {
        "answers": answers,
        "leaked": [after[fd] for fd in after.keys() - before.keys()],
        "children": sorted(gateway.children()),
        "groups": gateway.control_groups(os.getpid()),
        "left": sorted(os.listdir(f"{state}/bubblewrap")),
    }


async def cancel(state: str) -> Any:
    """Cancel openings at every moment of their life."""
    backend = Bubblewrap(state=state)
    async with sandbox(backend, make_spec(state)):
        pass
    before = gateway.open_files()
    ended = 0
    for delay_ms in (0, 0.5, 1, 1.5, 2, 2.5, 3, 4, 6, 10, 20):
        opening = asyncio.create_task(backend.open(make_spec(state)))
        done, _ = await asyncio.wait([opening], timeout=delay_ms / 1000)
        if done:
            await opening.result().close()
            continue
        opening.cancel()
        await asyncio.wait([opening])
        ended += opening.cancelled()
    # One that outlived its bwrap would wait for ever; one that is only slow to die is given a moment.
    await _until_or_late(lambda: not _openings(backend))
    after, orphans = gateway.open_files(), _openings(backend)
    await backend.close()
    return {
        "orphans": orphans,
        "cancelled": ended,
        "leaked": [after[fd] for fd in after.keys() - before.keys()],
        "children": sorted(gateway.children()),
        "groups": gateway.control_groups(os.getpid()),
    }


def _openings(backend: Bubblewrap) -> list[int]:
    """Return what the fork servers have made and that still lives."""
    return [
        pid
        for servers in backend._servers
        for server in servers._servers.values()
        for pid in gateway.below(server.pid)
        if pid != server.pid
    ]


async def _until_or_late(condition: Any) -> None:
    for _ in range(500):
        if condition():
            return
        await asyncio.sleep(0.01)


async def be_killed_opening(state: str) -> Any:
    """Leave what a gateway may leave that is killed while it opens: a bwrap that goes nowhere."""
    backend = Bubblewrap(state=state)
    await backend.probe(make_spec(state))
    machine = await backend.look()
    assert machine.context is not None
    assert not isinstance(machine.chosen, str)
    opening = starting.Opening(make_spec(state), machine.context, machine.chosen, await _own_user(state))
    task = asyncio.create_task(opening.run({}))
    await asyncio.sleep(0)
    monitor = opening._monitor.pid
    # Stopped before it has asked to die with its parent, it outlives it.
    os.kill(monitor, signal.SIGSTOP)
    await _until(lambda: Path(f"/proc/{monitor}/stat").read_text().rpartition(")")[2].split()[0] == "T")
    print(json.dumps({"left": gateway.below(monitor)}), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
    await task


async def be_killed(state: str) -> Any:
    """Start sandboxes with processes that try to stay, say which, and die by SIGKILL."""
    backend = Bubblewrap(state=state)
    boxes = [await backend.open(make_spec(state, f"crabpot-{number}")) for number in range(2)]
    for box in boxes:
        stream = gateway.Stream(box)
        await stream.greet(box)
        await stream.start("(setsid sh -c 'sleep 5000 & sleep 5001' &); sleep 5002")
        await _until(lambda box=box: len(gateway.below(box.pid)) >= 5)
    pids = [pid for box in boxes for pid in (box._server.pid, *gateway.below(box.pid))]
    print(json.dumps({"pids": pids, "gateway": os.getpid()}), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


async def lose_thread(state: str) -> Any:
    """Open a sandbox on the loop of a thread that ends without closing it."""
    import threading

    pids: list[int] = []

    async def opens() -> None:
        box = await Bubblewrap(state=state).open(make_spec(state))
        pids.append(box.pid)
        # Kept open on purpose: only the end of the thread may end it.
        os.dup(box.channel.sock.fileno())

    thread = threading.Thread(target=lambda: asyncio.run(opens()))
    thread.start()
    thread.join()
    await _until(lambda: gateway.is_dead(pids[0]))
    return {"gone": True}


async def freeze(state: str) -> Any:
    """Freeze a sandbox that counts, watch it stand still, and let it go on."""
    backend = Bubblewrap(state=state)
    async with sandbox(backend, make_spec(state)) as (box, stream):
        counter = Path(state, "sandboxes/crabpot-test/counter")
        await stream.start("i=0; while :; do i=$((i+1)); echo $i > counter.new; mv counter.new counter; done", "2")
        await _until(lambda: counter.exists() and counter.read_text().strip() not in ("", "0"))
        await box.freeze()
        first = counter.read_text()
        await asyncio.sleep(0.2)
        second = counter.read_text()
        await box.thaw()
        await _until(lambda: counter.read_text() not in ("", second))
        await box.freeze()
    await backend.close()
    return {"stood still": first == second, "children": sorted(gateway.children())}


# A thread that goes on counting where the first one has ended, two processes that wake each other in turn, and a clock
# that does.
_EVADERS = {
    "first thread ended": """
import ctypes, os, threading
def count():
    number = 0
    while True:
        number += 1
        with open("counter.new", "w") as file: file.write(str(number))
        os.rename("counter.new", "counter")
threading.Thread(target=count).start()
ctypes.CDLL(None).syscall(60 if os.uname().machine == "x86_64" else 93, 0)
""",
    "in turn": """
import os, signal
first, number = os.getpid(), 0
other = os.fork() or first
while True:
    number += 1
    with open(f"counter.{os.getpid()}", "w") as file: file.write(str(number))
    os.rename(f"counter.{os.getpid()}", "counter")
    os.kill(other, signal.SIGCONT)
    os.kill(os.getpid(), signal.SIGSTOP)
""",
    "by a timer": """
import ctypes, os, signal
signal.signal(signal.SIGCONT, lambda *_: None)
libc = ctypes.CDLL(None)
event = (ctypes.c_int * 16)(); event[2] = signal.SIGCONT
for each in range(1, 40):
    timer = ctypes.c_void_p()
    if libc.timer_create(1, event, ctypes.byref(timer)) == 0:
        libc.timer_settime(timer, 0, (ctypes.c_long * 4)(0, each * 1_000_000, 0, each * 1_000_000), None)
number = 0
while True:
    number += 1
    with open("counter.new", "w") as file: file.write(str(number))
    os.rename("counter.new", "counter")
""",
}


_WELL_UNDER_WAY = 300


async def freeze_evaders(state: str) -> Any:
    """Freeze, by signals alone, what does its best to go on."""
    moved = []
    for name, program in _EVADERS.items():
        async with sandbox(Bubblewrap(state=state), make_spec(state)) as (box, stream):
            box._group, group = None, box._group
            folder = Path(state, "sandboxes/crabpot-test")
            (folder / "counter").unlink(missing_ok=True)
            await stream.start(f"exec python3 -c '{program}'", "2")
            counter = folder / "counter"
            # Those who wake each other may miss it, and stand still by themselves.
            least = 0 if name == "in turn" else _WELL_UNDER_WAY
            await _until(lambda path=counter, least=least: path.exists() and int(path.read_text() or 0) > least)
            for _ in range(10):
                try:
                    await box.freeze()
                except SandboxLost:
                    break
                first = counter.read_text()
                await asyncio.sleep(0.05)
                if counter.read_text() != first:
                    moved.append(name)
                    break
                await box.thaw()
            box._group = group
    return {"moved": moved}


async def without_a_filter(state: str) -> Any:
    """Open what never puts up its system call filter, and see that the gateway notices from outside."""
    backend, spec = Bubblewrap(state=state), make_spec(state)
    machine = await backend.look()
    assert not isinstance(machine.chosen, str)
    walls = Walls(arguments=lambda *told: [word for word in arguments(*told) if not word.startswith("filter=")])
    user = backend._judge(spec, machine).choice.user
    try:
        await Opening(spec, replace(machine.context, walls=walls), machine.chosen, user).run({})
    except SandboxUnavailable as refusal:
        return {"refused": str(refusal), "children": sorted(gateway.children())}
    return {"refused": None}


async def freeze_vfork(state: str) -> Any:
    """Freeze, many times, a shell that does nothing but vfork; signals must do where there is no control group."""
    backend = Bubblewrap(state=state)
    async with sandbox(backend, make_spec(state)) as (box, stream):
        await stream.start("while :; do /bin/true; done", "2")
        await _until(lambda: len(gateway.below(box.pid)) > 1)
        for _ in range(300):
            await box.freeze()
            await box.thaw()
        box._group, group = None, box._group
        for _ in range(15):
            await box.freeze()
            await box.thaw()
        box._group = group
    await backend.close()
    return {"children": sorted(gateway.children())}


async def _until(condition: Any) -> None:
    async with asyncio.timeout(gateway.PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.005)


async def hog_memory(state: str) -> Any:
    """Use more memory than there is, and see who is left."""
    limits = Limits(memory=Size(96 * MIB))
    backend = Bubblewrap(state=state)
    hog = "python3 -c 'x = bytearray(400 << 20); print(len(x))'"
    async with (
        sandbox(backend, make_spec(state, "crabpot-hog", limits=limits)) as (box, stream),
        sandbox(backend, make_spec(state, "crabpot-other")) as (_, other),
    ):
        result = await stream.run(hog)
        return {
            "output": result["stdout"],
            "errors": result["stderr"],
            "exit_code": result["exit_code"],
            "cause": await box.cause_of_death(),
            "again": await box.cause_of_death(),
            "still": await stream.shell("echo here"),
            "other": await other.shell("echo here"),
        }


async def fork_bomb(state: str) -> Any:
    """Start more processes than there may be."""
    backend = Bubblewrap(state=state)
    limits = Limits(pids=20)
    async with sandbox(backend, make_spec(state, limits=limits)) as (box, stream):
        bomb = "i=0; while [ $i -lt 60 ]; do sleep 100 & i=$((i+1)); done; echo all started"
        result = await stream.run(bomb)
        return {
            "output": result["stdout"],
            "errors": result["stderr"],
            "cause": await box.cause_of_death(),
            "still": await stream.shell("echo here"),
        }


async def die_of_memory(state: str) -> Any:
    """Let the runner itself be the one that is killed for memory, and ask why afterwards."""
    limits = Limits(memory=Size(64 * MIB))
    box = await Bubblewrap(state=state).open(make_spec(state, limits=limits))
    stream = gateway.Stream(box)
    await stream.greet(box)
    everybody = "echo 1000 > /proc/self/oom_score_adj; tail /dev/zero"
    await stream.run(everybody)
    await box.close()
    return {"cause": await box.cause_of_death(), "again": await box.cause_of_death()}


async def fill_tmp(state: str) -> Any:
    """Write more than /tmp holds, in bytes and in files."""
    limits = Limits(tmp=Size(MIB))
    async with sandbox(Bubblewrap(state=state), make_spec(state, limits=limits)) as (_, stream):
        bytes_ = await stream.shell("head -c 3000000 /dev/zero > /tmp/big; wc -c < /tmp/big; rm /tmp/big")
        files = await stream.shell(
            "cd /tmp; i=0; while : > f$i; do i=$((i+1)); [ $i -gt 9000 ] && break; done; echo $i"
        )
        return {"bytes": bytes_, "files": files.splitlines()[-1]}


async def ways(state: str) -> Any:
    """Open a sandbox in each way that bwrap may need, and look at what differs."""
    backend = Bubblewrap(state=state)
    machine = await backend.look()
    assert machine.context is not None
    assert not isinstance(machine.chosen, str)
    user = await _own_user(state)
    found: dict[str, Any] = {}
    spec = make_spec(state, "crabpot-ways")
    ways: tuple[tuple[Mounting, bool], ...]
    ways = (("find", True), ("attach", True), ("fd", True), ("fd", False), ("path", True), ("path", False))
    servers = ForkServers(machine.context.bundle, machine.context.mark)
    for candidate in candidates.candidates():
        for mounting, seals in ways:
            if mounting == "attach" and os.geteuid() != 0:
                continue
            chosen = candidates.Chosen(
                candidate=candidate, program=Program(mounting=mounting, seals=seals, safe_below_links=False)
            )
            key = f"{candidate.libraries is not None}-{mounting}-{seals}"
            server = await servers.get(user, groupless=False) if mounting == "find" else None
            try:
                hello = await _greeting(backend, spec)
                box = await starting.Opening(spec, machine.context, chosen, user, server=server).run(hello)
            except SandboxUnavailable as refusal:
                found[key] = {"refused": str(refusal)}
                continue
            stream = gateway.Stream(box)
            await stream.greet(box)
            found[key] = {
                "runs in tmp": "ran" in await stream.shell("cp /bin/echo /tmp/t && /tmp/t ran"),
                "terminal": "/dev/pts/"
                in await stream.shell("python3 -c 'import os; print(os.ttyname(os.openpty()[1]))'"),
                "filtered": "Seccomp:\t2" in await stream.shell("cat /proc/self/status"),
                "writes": await stream.shell("echo x > f && cat f; touch /dev/x /x 2>&1; cat /proc/kallsyms | wc -c"),
                "shm": await stream.shell("echo x > /dev/shm/f && cat /dev/shm/f"),
            }
            await box.close()
    servers.close()
    return found


async def _own_user(state: str) -> User:
    from crabpot.backends.bubblewrap import user

    gateway_user = User(uid=os.geteuid(), gid=os.getegid())
    chosen = user.choose(make_spec(state), gateway=gateway_user, owner=None).user
    assert chosen is not None
    return chosen


async def _greeting(backend: Bubblewrap, spec: Any) -> Any:
    from crabpot.backends.base import greeting

    return greeting(spec)


async def swap(state: str, folder: str) -> Any:
    """Replace a workspace by a link while its sandbox opens, in the way that trusts paths."""

    class Swapping(starting.Opening):
        def _plan(self, *arguments: Any) -> Any:
            plan = super()._plan(*arguments)
            os.rename(f"{folder}/ws", f"{folder}/moved")
            os.symlink(f"{folder}/secret", f"{folder}/ws")
            return plan

    backend = Bubblewrap(state=state)
    machine = await backend.look()
    assert machine.context is not None
    assert not isinstance(machine.chosen, str)
    spec = make_spec(state, workspace=f"{folder}/ws", private=False)
    found = {}
    servers, user = ForkServers(machine.context.bundle, machine.context.mark), User(uid=os.geteuid(), gid=os.getegid())
    ways: tuple[Mounting, ...] = ("fd", "path", "find")
    for mounting in ways:
        program = Program(mounting=mounting, seals=True, safe_below_links=False)
        chosen = replace(machine.chosen, program=program)
        server = await servers.get(user, groupless=False) if mounting == "find" else None
        try:
            box = await Swapping(spec, machine.context, chosen, user, server=server).run({})
            found[mounting] = "opened"
            await box.close()
        except SandboxUnavailable as refusal:
            found[mounting] = str(refusal)
        os.unlink(f"{folder}/ws")
        os.rename(f"{folder}/moved", f"{folder}/ws")
    servers.close()
    return found


async def attempt(state: str, changes: str) -> Any:
    """Try to open a sandbox with a changed spec, run `id` and a write in it, and say what came of it."""
    wanted = json.loads(changes)
    command = wanted.pop("command", "id -u; echo written > written; ls /proc/net/dev >/dev/null")
    if "user" in wanted:
        wanted["user"] = User(uid=wanted["user"], gid=wanted["user"])
    if "mounts" in wanted:
        wanted["mounts"] = tuple(Mount(source=s, target=t, access=a) for s, t, a in wanted["mounts"])
    if "network" in wanted:
        wanted["network"] = NetworkSpec(kind=wanted["network"])
    try:
        async with sandbox(Bubblewrap(state=state), make_spec(state, **wanted)) as (_, stream):
            return {"opened": await stream.shell(command)}
    except SandboxUnavailable as refusal:
        return {"refused": str(refusal)}


async def inherit(state: str, fd: str) -> Any:
    """Open a sandbox while holding an inheritable descriptor of a secret file."""
    os.set_inheritable(int(fd), True)
    async with sandbox(Bubblewrap(state=state), make_spec(state)) as (box, stream):
        held = []
        for pid in (box.pid, box._server.pid):
            try:
                held += [os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd")]
            except PermissionError:
                held.append("hidden")
        return {"held": held, "inside": await stream.shell("ls /proc/self/fd")}


async def attack_programs(state: str) -> Any:
    """Try CVE-2026-87766 on each bwrap of this machine, and on one that refuses mount points below links."""
    os.makedirs(state, mode=0o700, exist_ok=True)
    found = {path.path: await probe.is_safe_below_links(path, state) for path in candidates.candidates()}
    real = next(iter(found))
    for name, body in (
        ("careful", f'case "$*" in */link/*) exit 1;; esac; exec {real} "$@"'),
        ("useless", "exit 1"),
    ):
        script = Path(state, name)
        script.write_text(f"#!/bin/sh\n{body}\n")
        script.chmod(0o755)
        found[name] = await probe.is_safe_below_links(candidates.Candidate(path=str(script)), state)
    return {"found": found, "left": [name for name in os.listdir(state) if name.startswith("crabpot-")]}


async def choose_program(state: str, kind: str) -> Any:
    """Survey a machine whose only bwrap is setuid, broken, or none."""
    os.makedirs(state, mode=0o700, exist_ok=True)
    tried: list[tuple[str, bool]] = []

    async def tries(candidate: candidates.Candidate, program: Program) -> str | None:
        tried.append((f"{program.mounting}-{program.seals}", program.groupless))
        return "bwrap: No permissions to create new namespace"

    program = Path(state, "bwrap")
    program.write_bytes(b"#!/bin/sh\n")
    program.chmod(0o4755 if kind == "setuid" else 0o755)
    programs = [] if kind == "none" else [candidates.Candidate(path=str(program))]
    try:
        found = str(await probe.survey(programs, tries, state))
    except probe.NoneWorks as failure:
        found = str(failure)
    return {"found": found, "tried": tried}


async def remember(state: str) -> Any:
    """Probe twice, and count what the second one starts."""
    await Bubblewrap(state=state).probe(make_spec(state))
    findings = Path(state, "bubblewrap/probe.json")
    first = findings.stat()
    again = Bubblewrap(state=state)
    machine = await again.look()
    second = findings.stat()
    return {
        "kept": (first.st_ino, first.st_mtime_ns) == (second.st_ino, second.st_mtime_ns),
        "mode": oct(first.st_mode & 0o777),
        "works": not isinstance(machine.chosen, str),
    }


if __name__ == "__main__":
    scenario, *words = sys.argv[1:]
    named = globals().get(scenario) or getattr(forking, scenario)
    print(json.dumps(asyncio.run(named(*words))))
