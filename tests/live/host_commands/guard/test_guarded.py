"""Commands in a real guard, told by files of the agent's to do what they must not; each attack also runs unconfined."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from crabpot.backends.bubblewrap import candidates
from crabpot.config.places import find_keys
from crabpot.errors import HostRefused
from crabpot.host_commands.guard import start as guards
from crabpot.host_commands.run import run
from crabpot.settings import AgentSettings, Inject, Network, Sandbox, ValueFrom
from crabpot.wire.calls import RunnerWire
from tests.support.runners import OUTPUT

if TYPE_CHECKING:
    from collections.abc import Iterator

OPEN = {"confine": "host"}


async def both(machine: Any, script: str, **way: Any) -> tuple[Any, Any]:
    """Run a script of the agent's in a guard, and then unconfined, where it must succeed."""
    (machine.workspace / "attack.sh").write_text(script)
    held = await machine.run("sh", "attack.sh", way=way)
    return held, await machine.run("sh", "attack.sh", way=OPEN)


async def test_it_writes_the_agents_folder_and_a_private_tmp_and_reads_the_host(machine: Any, home: Path) -> None:
    (machine.workspace / "ok.sh").write_text(f"echo made > made; echo x > /tmp/x && cat /tmp/x {home}/notes; pwd")
    reply = await machine.run("sh", "ok.sh")
    assert (reply.exit_code, reply.stdout) == (0, f"x\nplain{machine.workspace}\n")
    assert (machine.workspace / "made").read_text() == "made\n"
    assert not Path("/tmp/x").exists()


async def test_it_cannot_write_elsewhere(machine: Any, home: Path) -> None:
    held, loose = await both(machine, f"echo evil > {home}/evil || exit 3")
    assert (held.exit_code, loose.exit_code) == (3, 0)


@pytest.mark.parametrize("how", ["chmod 600 {0}", "touch -d 2001-01-01 {0}", "mv {0} {0}-moved", "truncate -s 0 {0}"])
async def test_it_cannot_change_a_file_in_any_other_way(machine: Any, home: Path, how: str) -> None:
    held, loose = await both(machine, f"{how.format(f'{home}/notes')} || exit 3")
    assert (held.exit_code, loose.exit_code) == (3, 0)


async def test_it_writes_what_the_pattern_names(machine: Any, home: Path) -> None:
    (home / "cache").mkdir()
    (machine.workspace / "a.sh").write_text(f"echo x > {home}/cache/x")
    assert (await machine.run("sh", "a.sh", way={"writes": ("~/cache",)})).exit_code == 0
    assert (home / "cache" / "x").read_text() == "x\n"
    with pytest.raises(HostRefused, match="~/none, which the pattern's `writes` names, does not exist"):
        await machine.plan("sh", "a.sh", writes=("~/none",))


async def test_credentials_and_crabpots_own_files_are_absent(machine: Any, home: Path) -> None:
    state = Path(machine.around.state)
    state.mkdir()
    (state / "approvals.sqlite").write_text("answers")
    script = f"cat {home}/.ssh/id_ed25519; cat {state}/approvals.sqlite; cat {home}/.gitconfig"
    held, loose = await both(machine, script)
    assert held.stdout == ""
    assert "PRIVATE" in loose.stdout
    assert "answers" in loose.stdout


async def test_keys_elsewhere_that_the_environment_or_the_settings_name_are_absent(machine: Any, home: Path) -> None:
    """XDG_CONFIG_HOME moves `gh`'s token out of ~/.config; a header's value and an ssh key are in files of their own."""
    for name in ("cfg/gh", "keyfiles"):
        (home / name).mkdir(parents=True)
    secrets = [home / name for name in ("cfg/gh/hosts.yml", "keyfiles/header", "keyfiles/loop", ".Xauthority")]
    for file in secrets:
        file.write_text(f"SECRET {file.name}")
    inject = (Inject(host="api.example.com", header="x", value_from=ValueFrom(file="~/keyfiles/header")),)
    other = AgentSettings(
        id="other", workspace="/nowhere", sandbox=Sandbox(network=Network(inject=inject), ssh_key="~/keyfiles/loop")
    )
    machine.host.settings = replace(machine.host.settings, entries={"other": other})
    machine.host.around = replace(machine.around, keys=find_keys({"XDG_CONFIG_HOME": f"{home}/cfg"}, str(home)))
    held, loose = await both(machine, f"cat {' '.join(map(str, secrets))} {home}/notes")
    assert held.stdout == "plain"
    assert loose.stdout.count("SECRET") == len(secrets)


async def test_a_secret_that_is_replaced_or_comes_to_be_while_it_runs_stays_out_of_reach(
    machine: Any, home: Path
) -> None:
    (home / ".netrc").write_text("old")
    waits = f"touch up; until [ -e go ]; do sleep 0.05; done; cat {home}/.netrc {home}/.aws/key {home}/notes"
    (machine.workspace / "attack.sh").write_text(waits)

    async def replaced(**way: Any) -> Any:
        for name in ("up", "go"):
            (machine.workspace / name).unlink(missing_ok=True)
        running = asyncio.ensure_future(machine.run("sh", "attack.sh", way=way))
        while not (machine.workspace / "up").exists():
            await asyncio.sleep(0.02)
        (home / ".netrc-new").write_text("NETRC")
        (home / ".netrc-new").rename(home / ".netrc")
        (home / ".aws").mkdir(exist_ok=True)
        (home / ".aws" / "key").write_text("AWS")
        (machine.workspace / "go").touch()
        return await running

    assert (await replaced()).stdout == "plain"
    assert (await replaced(confine="host")).stdout == "NETRCAWSplain"


MOUNTING = """
import asyncio, subprocess, sys
from pathlib import Path
from tests.support.machines import Machine

async def main(folder, how):
    machine = Machine(folder)
    disk = machine.home / "disk"
    disk.mkdir()
    waits = "touch up; until [ -e go ]; do sleep 0.05; done; ls %s; chmod 0700 %s/f" % (disk, disk)
    (machine.workspace / "a.sh").write_text(waits)
    running = asyncio.ensure_future(machine.run("sh", "a.sh", way={"confine": how}))
    while not (machine.workspace / "up").exists() and not running.done():
        await asyncio.sleep(0.02)
    subprocess.run(["mount", "-t", "tmpfs", "x", str(disk)], check=True)
    (disk / "f").write_text("x")
    (disk / "f").chmod(0o644)
    (machine.workspace / "go").touch()
    said = (await running).stdout.strip()
    print(said or "nothing", oct((disk / "f").stat().st_mode & 0o777))
    subprocess.run(["umount", str(disk)], check=True)
    machine.close()

asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
@pytest.mark.parametrize(("how", "told"), [("guarded", "nothing 0o644"), ("host", "f 0o700")])
def test_what_the_host_mounts_while_it_runs_does_not_appear_in_it(machine: Any, how: str, told: str) -> None:
    """Where mounts are shared, as systemd makes them, a disk of the host's would appear there, writable."""
    command = ["sh", "-c", 'mount --make-rshared / && exec "$@"', "sh", sys.executable, "-c", MOUNTING]
    folder = machine.home.parent / how
    folder.mkdir()
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "unchanged", *command, str(folder), how],
        cwd=Path(__file__).parents[4], capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.stdout.strip() == told, done


async def test_no_lease_can_be_taken_on_a_file_of_the_host(machine: Any, home: Path) -> None:
    leases = (
        "import fcntl; fcntl.fcntl(open(__import__('sys').argv[1]), fcntl.F_SETLEASE, fcntl.F_WRLCK); print('leased')"
    )
    (machine.workspace / "lease.py").write_text(leases)
    held, loose = await both(machine, f"exec {sys.executable} -I lease.py {home}/notes")
    assert ("leased" in held.stdout, "leased" in loose.stdout) == (False, True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
async def test_the_agents_folder_is_given_to_nobody_else(machine: Any) -> None:
    os.chown(machine.workspace, 7001, 7001)
    for words in ("1001:1001 .", ":42 .", "0:0 .", "-h 1001 ."):
        (machine.workspace / "a.sh").write_text(f"chown {words} || exit 3")
        assert (await machine.run("sh", "a.sh")).exit_code == 3, words
    (machine.workspace / "a.sh").write_text("touch made && chown 7001:7001 made && chown -R 7001 .")
    assert (await machine.run("sh", "a.sh")).exit_code == 0
    assert (machine.workspace / "made").stat().st_uid == 7001


async def test_credentials_that_the_pattern_names_are_shown_and_no_others(machine: Any, home: Path) -> None:
    (home / ".ssh" / "known_hosts").write_text("HOSTS")
    (machine.workspace / "a.sh").write_text(f"cat {home}/.ssh/known_hosts {home}/.ssh/id_ed25519 {home}/.gitconfig")
    shown = await machine.run("sh", "a.sh", way={"credentials": ("ssh",)})
    assert shown.stdout == "HOSTS"
    named = await machine.run("sh", "a.sh", way={"credentials": ("git", "~/.ssh/id_ed25519")})
    assert named.stdout.startswith("PRIVATE[user]")
    assert "HOSTS" not in named.stdout


@pytest.fixture
def services(machine: Any) -> Iterator[tuple[str, str]]:
    """Return a socket file and an abstract socket of the host's, for streams and for datagrams, each with a listener."""
    path, name = f"{machine.home}/bus", f"crabpot-test-{os.getpid()}"
    made = []
    for address, kind in ((path, "STREAM"), (f"{path}-d", "DGRAM"), (f"\0{name}", "STREAM"), (f"\0{name}-d", "DGRAM")):
        made.append(socket.socket(socket.AF_UNIX, getattr(socket, f"SOCK_{kind}")))
        made[-1].bind(address)
        if kind == "STREAM":
            made[-1].listen(8)
    yield path, f"@{name}"
    for one in made:
        one.close()


CONNECT = """
import socket, sys
for given in sys.argv[1:]:
    address = given.replace("@", "\\0")
    try:
        socket.socket(socket.AF_UNIX).connect(address)
        print("stream", given)
    except OSError:
        pass
    try:
        socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b"x", address + "-d")
        print("datagram", given)
    except OSError:
        pass
left, right = socket.socketpair()
print("pair" if left.send(b"x") else "")
"""


async def test_no_socket_of_the_host_is_reached(machine: Any, services: tuple[str, str]) -> None:
    (machine.workspace / "connect.py").write_text(CONNECT)
    held, loose = await both(machine, f"exec {sys.executable} -I connect.py {' '.join(services)}")
    assert held.stdout == "pair\n", held
    reached = {f"{kind} {one}" for kind in ("stream", "datagram") for one in services}
    assert reached <= set(loose.stdout.splitlines())


async def test_where_a_socket_is_named_no_other_socket_file_is_reached(machine: Any, services: tuple[str, str]) -> None:
    path, _ = services
    os.symlink(f"{path}-d", f"{machine.home}/other-d")
    (machine.workspace / "connect.py").write_text(CONNECT)
    held, loose = await both(
        machine, f"exec {sys.executable} -I connect.py {path} {machine.home}/other", credentials=(path,)
    )
    assert held.stdout.splitlines() == [f"stream {path}", "pair"]
    assert {f"datagram {path}", f"datagram {machine.home}/other"} <= set(loose.stdout.splitlines())


async def test_where_a_socket_is_named_abstract_ones_are_still_out_of_reach(
    machine: Any, services: tuple[str, str]
) -> None:
    path, name = services
    (machine.workspace / "connect.py").write_text(CONNECT)
    (machine.workspace / "a.sh").write_text(f"exec {sys.executable} -I connect.py {path} {name}")
    named = await machine.run("sh", "a.sh", way={"credentials": (path,)})
    assert f"stream {path}" in named.stdout
    assert name not in named.stdout


async def test_its_processes_are_its_own(machine: Any) -> None:
    with subprocess.Popen(["sleep", "100273"]) as process:
        try:
            held, loose = await both(machine, "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'sleep 10027[3]'")
            assert (held.stdout, loose.stdout) == ("0\n", "1\n")
            assert (await machine.run("kill", "-9", str(process.pid))).exit_code != 0
            assert process.poll() is None
        finally:
            process.kill()


async def test_no_setuid_file_is_left_behind(machine: Any) -> None:
    held, loose = await both(machine, "cp /bin/true file; chmod u+s file || exit 3; cp /bin/true g; chmod g+s g")
    assert held.exit_code == 3
    assert loose.exit_code == 0
    assert (machine.workspace / "file").stat().st_mode & stat.S_ISUID


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has privileges to lose")
async def test_root_keeps_three_capabilities_and_cannot_turn_a_switch_of_the_kernels(machine: Any) -> None:
    script = "grep CapEff /proc/self/status; for f in /proc/sys/vm/swappiness /sys/kernel/mm/ksm/run; do"
    script += (
        " [ -e $f ] && (cat $f > $f) && echo turned $f; done; ls /dev/vda /dev/sda /dev/mem /dev/kmsg 2>/dev/null; true"
    )
    (machine.workspace / "a.sh").write_text(script)
    held = await machine.run("sh", "a.sh")
    assert held.stdout == "CapEff:\t000000000000000b\n", held


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may change a device's owner and mode")
@pytest.mark.parametrize("how", ["chmod 666 /dev/full", "chown 0:0 /dev/full", "touch -d @0 /dev/full"])
async def test_the_devices_in_it_are_the_hosts_own_and_stay_as_they_are(machine: Any, how: str) -> None:
    os.chown(machine.workspace, 0, 0)
    before = os.stat("/dev/full")
    try:
        held, loose = await both(machine, f"echo x > /dev/null && {how} || exit 3")
    finally:
        os.utime("/dev/full", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (held.exit_code, loose.exit_code) == (3, 0), held
    assert "Read-only file system" in held.stderr


async def test_no_namespace_and_no_mount_can_be_made_in_it(machine: Any) -> None:
    (machine.workspace / "a.sh").write_text("unshare -Ur true || unshare -m true || mount -t tmpfs x . || exit 3")
    assert (await machine.run("sh", "a.sh")).exit_code == 3


async def test_git_commits_as_the_operator_without_the_operators_configuration(machine: Any, home: Path) -> None:
    for words in (("init", "-q"), ("commit", "-q", "--allow-empty", "-m", "x"), ("log", "--format=%an %ae %cn")):
        reply = await machine.run("git", *words)
        assert reply.exit_code == 0, reply
    assert reply.stdout == "The Operator op@example.com The Operator\n"


async def test_a_hidden_file_is_empty_rather_than_refused(machine: Any, home: Path) -> None:
    """Git and npm give up altogether when their configuration in the home cannot be read."""
    machine.host.environ = {**machine.host.environ, "HOME": str(home)}
    (machine.workspace / "a.sh").write_text("git init -q . && git status --short && cat ~/.gitconfig && echo read")
    for words in (("sh", "a.sh"), ("git", "status", "--short")):
        reply = await machine.run(*words)
        assert (reply.exit_code, reply.stderr) == (0, ""), reply
    (machine.workspace / "a.sh").write_text("echo x > ~/.gitconfig || chmod 600 ~/.gitconfig || exit 3")
    assert (await machine.run("sh", "a.sh")).exit_code == 3


async def test_git_in_a_guard_has_no_network(machine: Any) -> None:
    machine.script("git", "#!/bin/sh\ngrep -c : /proc/net/dev\n")
    assert (await machine.run("git", "status")).stdout == "1\n"


async def test_a_folder_swapped_after_it_was_shown_is_refused(machine: Any) -> None:
    (machine.workspace / "sub").mkdir()
    plan = await machine.plan("pwd", cwd="sub")
    (machine.workspace / "sub").rename(machine.workspace / "old")
    (machine.workspace / "sub").mkdir()
    with pytest.raises(HostRefused, match="replaced after it was shown"):
        await run(plan, timeout_s=5, output_limit=OUTPUT)


async def test_an_interpreter_behind_a_link_in_a_private_folder_starts_the_guard(
    machine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkout below /var/tmp may have a link for its .venv."""
    (tmp_path / "venv").symlink_to(sys.prefix)
    monkeypatch.setattr(sys, "executable", f"{tmp_path}/venv/bin/python")
    reply = await machine.run("echo", "ran")
    assert (reply.exit_code, reply.stdout) == (0, "ran\n"), reply


async def test_without_a_bwrap_that_works_nothing_runs_and_the_setting_is_named(
    machine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates, "candidates", lambda: iter(()))
    with pytest.raises(HostRefused, match=r'cannot make a guard: no bwrap.*confine: "host"'):
        await machine.plan("true")
    assert (await machine.run("true", way=OPEN)).exit_code == 0


@pytest.mark.parametrize(("failures", "runs"), [(1, True), (3, False)])
async def test_a_guard_that_bwrap_fails_to_make_is_tried_again_and_then_refused(
    machine: Any,
    open_folder: Path,
    failures: int,
    *,
    runs: bool,
) -> None:
    plan = await machine.plan("touch", "ran")
    bwrap, seen = plan.guard.bwrap, open_folder / "failures"
    flaky = open_folder / "bwrap"
    flaky.write_text(
        f'#!/bin/sh\nif [ "$(cat {seen} 2>/dev/null | wc -l)" -lt {failures} ]; then echo >> {seen}; '
        f'echo "a mount vanished" >&2; exit 1; fi\nexec {bwrap.path} "$@"\n'
    )
    flaky.chmod(0o755)
    plan = replace(plan, guard=replace(plan.guard, bwrap=replace(bwrap, path=str(flaky))))
    if runs:
        assert (await run(plan, timeout_s=20, output_limit=OUTPUT)).exit_code == 0
    else:
        with pytest.raises(HostRefused, match="no guard could be made: a mount vanished"):
            await run(plan, timeout_s=20, output_limit=OUTPUT)
    assert (machine.workspace / "ran").exists() is runs


async def test_a_guard_that_the_kernel_describes_otherwise_runs_nothing(machine: Any) -> None:
    plan = await machine.plan("touch", "ran")
    view = plan.guard.view
    for claimed in (replace(view, root=not view.root), view):
        guarded = guards.start(view, plan.guard.bwrap, folder=plan.folder.path, output_limit=OUTPUT, environ={})
        guarded._view = claimed
        wire = await RunnerWire.connect(guarded.channel, guarded.hello, timeout_s=20)
        if claimed is view:
            guarded.check()
        else:
            with pytest.raises(HostRefused, match=r"not what it should be .*CapEff"):
                guarded.check()
        wire.lose("seen")
        await guarded.close()
