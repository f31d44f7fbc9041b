"""Starting a program as another user: with the dropper of the machine, and without one."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys

import pytest

from crabpot.backends.linux import processes
from crabpot.backends.linux.held_files import Executable, Fds
from crabpot.spec.spec import User

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")

NOBODY = User(uid=61234, gid=61235)


@pytest.fixture(params=["chroot", "setpriv", None])
def dropper(request):
    if request.param is None:
        return None
    return next(path for path in processes.droppers() if path.endswith(request.param))


def test_nothing_of_root_survives_the_drop(dropper):
    before = os.getgroups()
    os.setgroups([0, 4, 6])
    try:
        with Fds() as fds:
            reader, writer = fds.pipe()
            kept, _ = fds.pipe()
            cat = Executable(fd=fds.open(os.path.realpath("/bin/cat"), os.O_PATH), path="/nowhere/to/be/found")
            started = processes.start(
                cat, ["/proc/self/status"], output=writer, fds=[kept], user=NOBODY, dropper=dropper
            )
            fds.close(writer)
            assert started.wait(timeout=10) == 0
            said = dict(line.split(":\t", 1) for line in os.read(reader, 65536).decode().splitlines())
    finally:
        os.setgroups(before)
    assert said["Uid"].split() == ["61234"] * 4
    assert said["Gid"].split() == ["61235"] * 4
    assert said["Groups"].split() == []
    assert {said[f"Cap{which}"] for which in ("Inh", "Prm", "Eff", "Amb")} == {"0" * 16}
    assert int(said["Pid"]) == started.pid, "it is our own child, by the number that we know"


def test_it_has_the_descriptors_that_were_given_and_no_other(dropper):
    with Fds() as fds:
        reader, writer = fds.pipe()
        kept, _ = fds.pipe()
        leak = os.open("/etc/shadow", os.O_RDONLY)
        os.set_inheritable(leak, True)
        try:
            ls = Executable(fd=fds.open(os.path.realpath("/bin/ls"), os.O_PATH), path="/nowhere/to/be/found")
            started = processes.start(
                ls, ["-l", "/proc/self/fd"], output=writer, fds=[kept], user=NOBODY, dropper=dropper
            )
        finally:
            os.close(leak)
        fds.close(writer)
        assert started.wait(timeout=10) == 0
        listed = os.read(reader, 65536).decode()
    assert "shadow" not in listed
    assert f" {kept} -> " in listed


def test_a_program_that_cannot_be_started_says_so(tmp_path):
    with Fds() as fds:
        reader, writer = fds.pipe()
        text = tmp_path / "text"
        text.write_text("no program")
        one = Executable(fd=fds.open(str(text), os.O_PATH), path=str(text))
        started = processes.start(one, [], output=writer, user=NOBODY, dropper=processes.dropper())
        fds.close(writer)
        assert started.wait(timeout=10) != 0
        assert b"Permission denied" in os.read(reader, 65536)


def test_root_that_may_not_chroot_drops_by_setpriv():
    program = "from crabpot.backends.linux import processes; print(processes.dropper())"
    allowed, forbidden = (
        subprocess.run(
            ["setpriv", *options, sys.executable, "-c", program], capture_output=True, text=True, check=True
        ).stdout.strip()
        for options in ([], ["--bounding-set=-sys_chroot", "--inh-caps=-sys_chroot"])
    )
    assert os.path.basename(allowed) == "chroot"
    assert os.path.basename(forbidden) == "setpriv"


def test_the_end_of_a_process_is_seen_by_a_descriptor_of_any_number():
    with subprocess.Popen(["sleep", "60"]) as started, Fds() as fds:
        high = fds.add(fcntl.fcntl(fds.add(os.pidfd_open(started.pid)), fcntl.F_DUPFD_CLOEXEC, 1500))
        assert not processes.has_ended(high)
        started.kill()
        started.wait()
        assert processes.has_ended(high)
