"""The units of `crabpot render systemd`, installed, used, attacked, killed and stopped. As root."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.guest.place import ROOT, gone, group_of
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SLOW_S = 600.0
TESTER = ["runuser", "-u", "tester", "--", "env", "HOME=/home/tester", "XDG_RUNTIME_DIR=/run/user/1000"]
KEY = "agent:main:main"
COUNTER = itertools.count()


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """One kind of unit: whom its gateway runs as, how that user is become, and where everything lies."""

    words: tuple[str, ...]
    before: tuple[str, ...]
    control: tuple[str, ...]
    units: str
    state: str
    group: str

    def run(self, *command: str, **more: object) -> subprocess.CompletedProcess[str]:
        return run(*self.before, *command, **more)

    def crabpot(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.run(sys.executable, "-P", "-m", "crabpot", "--state", self.state, *words)

    def systemctl(self, *words: str) -> str:
        return run(*self.control, *words).stdout.strip()

    def sandbox(self) -> int:
        """Return a process in the sandbox of a call: one of its own, since a spare waits beside it."""
        seconds = f"86400.{next(COUNTER)}"
        words = {"command": f"exec sleep {seconds}", "background": True}
        done = self.crabpot("call", "exec", "--args", json.dumps(words))
        assert json.loads(done.stdout)["success"], done
        (row,) = json.loads(self.crabpot("sandboxes", "list", "--json").stdout)
        main = self.systemctl("show", "--property=MainPID", "--value", "crabpot.service")
        assert str(row["gateway"]) == main, "another gateway answered than the one of the unit"
        found: str = wait_until(lambda: run("pgrep", "-f", f"^sleep {seconds}$").stdout)
        return int(found)

    def groups(self) -> set[str]:
        """Return the names of the control groups inside the unit."""
        return {one.name for one in (ROOT / self.group).iterdir() if one.is_dir()}


SERVICES = {
    "system": Service(
        words=("--system",),
        before=("runuser", "-u", "crabpot", "--", "env", "HOME=/var/lib/crabpot"),
        control=("systemctl",),
        units="/etc/systemd/system",
        state="/var/lib/crabpot/state",
        group="system.slice/crabpot.service",
    ),
    "root": Service(
        words=("--system", "--account", "root", "--state", "/var/lib/crabpot-root"),
        before=(),
        control=("systemctl",),
        units="/etc/systemd/system",
        state="/var/lib/crabpot-root",
        group="system.slice/crabpot.service",
    ),
    "user": Service(
        words=("--user",),
        before=tuple(TESTER),
        control=(*TESTER, "systemctl", "--user"),
        units="/home/tester/.config/systemd/user",
        state="/home/tester/.local/state/crabpot",
        group="user.slice/user-1000.slice/user@1000.service/app.slice/crabpot.service",
    ),
}


def run(*command: str, **more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=SLOW_S, cwd="/", **more)  # type: ignore[call-overload]


@pytest.fixture(params=SERVICES, scope="module")
def service(request: pytest.FixtureRequest) -> Iterator[Service]:
    found = SERVICES[request.param]
    done = found.run(sys.executable, "-P", "-m", "crabpot", "render", "systemd", *found.words)
    assert done.returncode == 0, done.stderr
    # As an administrator would: what is printed for a person to look at is also what is installed.
    writer = run if found.units.startswith("/etc") else found.run
    done = writer(sys.executable, "-P", "-m", "crabpot", "render", "systemd", *found.words, "--out", found.units)
    assert done.returncode == 0, done.stderr
    checked = run("systemd-analyze", "verify", f"{found.units}/crabpot.service")
    assert "crabpot" not in checked.stderr.replace("DelegateSubgroup", ""), checked.stderr
    if request.param == "system":
        run("install", "-d", "-m", "700", "-o", "crabpot", "-g", "crabpot", found.state)
    found.systemctl("daemon-reload")
    found.systemctl("enable", "--now", "crabpot.socket")
    yield found
    found.systemctl("disable", "--now", "crabpot.socket", "crabpot.service")
    for name in ("crabpot.service", "crabpot.socket"):
        os.unlink(f"{found.units}/{name}")
    found.systemctl("daemon-reload")
    shutil.rmtree(found.state, ignore_errors=True)


def test_the_first_call_starts_the_gateway_and_sandboxes_stay_inside_its_unit(service: Service) -> None:
    pid = service.sandbox()
    assert service.systemctl("is-active", "crabpot.service") == "active"
    group = group_of(pid)
    assert str(group).startswith(f"{ROOT}/{service.group}/crabpot-"), group
    assert (group / "memory.max").read_text().strip() == str(2 << 30)
    main = int(service.systemctl("show", "--property=MainPID", "--value", "crabpot.service"))
    assert group_of(main) == ROOT / service.group / "gateway"


def test_explain_describes_the_gateway_that_serves(service: Service) -> None:
    service.sandbox()
    told = json.loads(service.crabpot("explain", "--json", "--session", KEY).stdout)["sandbox"]["clauses"]
    shown = {one["name"]: one for one in told}
    for name in ("limits.memory", "limits.cpus", "limits.pids"):
        assert (shown[name]["state"], "cgroup v2" in shown[name]["how"]) == ("enforced", True), shown[name]


def test_memory_is_limited_and_the_next_call_is_answered(service: Service) -> None:
    service.sandbox()
    hog = 'exec python3 -c "b = bytearray(3 << 30); print(len(b))"'
    done = service.crabpot("call", "exec", "--args", json.dumps({"command": hog, "timeout": 200}))
    told = json.loads(done.stdout)
    assert not told["success"]
    assert told["error"] is None or told["error"]["code"] == "memory_limit", told
    assert "3221225472" not in told["stdout"]
    assert service.crabpot("exec", "--", "echo alive").stdout == "alive\n"


def test_nobody_else_is_let_in(service: Service) -> None:
    program = f"""
import socket
one = socket.socket(socket.AF_UNIX)
one.settimeout(20)
one.connect({f"{service.state}/serve.sock"!r})
print("in", one.recv(100))
"""
    other = ["runuser", "-u", "crabpot" if "tester" in service.before else "tester", "--"]
    done = run(*other, sys.executable, "-c", program)
    assert "PermissionError" in done.stderr, done
    # From inside not even the folder is there.
    assert service.crabpot("exec", "--", f"ls {service.state}").returncode != 0


def test_a_gateway_that_is_killed_comes_back_and_leaves_nothing(service: Service) -> None:
    pid, groups = service.sandbox(), service.groups()
    main = int(service.systemctl("show", "--property=MainPID", "--value", "crabpot.service"))
    os.kill(main, 9)
    wait_until(lambda: gone(pid), SLOW_S)
    # By systemd, before anybody asks.
    wait_until(lambda: service.systemctl("show", "--property=NRestarts", "--value", "crabpot.service") == "1", SLOW_S)
    again = service.sandbox()
    assert again != pid
    assert str(group_of(again)).startswith(f"{ROOT}/{service.group}/crabpot-")
    assert service.groups() & groups == {"gateway"}


def test_a_stopped_service_leaves_nothing_and_its_socket_starts_it_again(service: Service) -> None:
    pid = service.sandbox()
    service.systemctl("stop", "crabpot.service")
    assert gone(pid)
    assert not (ROOT / service.group).exists()
    assert os.path.exists(f"{service.state}/serve.sock")
    service.sandbox()


def test_the_journal_of_the_unit_has_what_the_gateway_says(service: Service) -> None:
    service.sandbox()
    scope = ("--user",) if "--user" in service.control else ()
    reader = service.before if scope else ()
    said = run(*reader, "journalctl", *scope, "--no-pager", "-n", "400", "--unit=crabpot.service").stdout
    assert "crabpot serves on" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(("service", "most"), [("system", 5.0), ("root", 8.5)], indirect=["service"])
def test_the_unit_is_no_more_exposed_than_its_hardening_leaves(service: Service, most: float) -> None:
    """As systemd judges units of the machine, from 0 (safe) to 10. The rest is mostly what no sandbox is made under."""
    service.sandbox()
    said = run("systemd-analyze", "security", "--no-pager", "crabpot.service").stdout
    level = float(said.rpartition("crabpot.service: ")[2].split()[0])
    print(f"exposure {level}")
    assert level <= most, said


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ("RestrictNamespaces=yes", "RestrictNamespaces="),
        ("ProtectKernelTunables=yes", "ProtectKernelTunables="),
        ("ProtectHostname=yes", "ProtectHostname="),
        ("ProcSubset=pid", "ProcSubset="),
    ],
)
def test_hardening_that_no_sandbox_is_made_under_is_named(setting: str, named: str) -> None:
    """What a unit takes away is said, with the setting: a person would look for a container otherwise."""
    done = hardened(setting)
    assert done.returncode == 125
    assert f"remove {named}" in done.stderr, done.stderr
    assert "container" not in done.stderr


@pytest.mark.parametrize("setting", ["RestrictSUIDSGID=yes", "ProtectControlGroups=yes"])
def test_hardening_that_a_sandbox_can_be_made_under_is_no_trouble(setting: str) -> None:
    done = hardened(setting)
    assert done.stdout == "hello\n", done.stderr
    assert "cgroup.freeze" not in done.stderr


def hardened(setting: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a sandbox, in a unit with one more setting."""
    state = "/var/tmp/hardened-state"
    command = [sys.executable, "-P", "-m", "crabpot", "--state", state, "exec", "--", "echo hello"]
    unit = [
        "systemd-run",
        "--wait",
        "--pipe",
        "--collect",
        "--quiet",
        "--property=User=tester",
        "--property=Delegate=yes",
    ]
    environ = ["--setenv=HOME=/home/tester", "--setenv=CRABPOT_LINGER=0"]
    done = run(*unit, "--unit=crabpot-hard", f"--property={setting}", *environ, *command)
    shutil.rmtree(state, ignore_errors=True)
    return done


def test_a_socket_that_is_not_the_states_is_refused(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "other.sock"))
        listener.listen()
        program = (
            "import os, sys; os.dup2(int(sys.argv[1]), 3); os.environ.update(LISTEN_FDS='1', LISTEN_PID=str(os.getpid()))\n"
            f"os.execv({sys.executable!r}, [{sys.executable!r}, '-P', '-m', 'crabpot', '--state', {str(tmp_path / 's')!r}, 'serve'])"
        )
        done = subprocess.run(
            [sys.executable, "-c", program, str(listener.fileno())],
            pass_fds=[listener.fileno()],
            capture_output=True,
            text=True,
            timeout=SLOW_S,
            check=False,
        )
    assert done.returncode == 1
    assert "ListenStream=" in done.stderr
