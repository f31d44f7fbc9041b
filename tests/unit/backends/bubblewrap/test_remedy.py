"""What to tell a person whose machine makes no sandbox."""

from __future__ import annotations

import pytest

from crabpot.backends.bubblewrap import remedy
from crabpot.backends.bubblewrap.remedy import Circumstances

DENIED = (
    "bwrap: No permissions to create new namespace, likely because the kernel does not allow non-privileged ones.\n"
)
PROFILE = "crabpot render apparmor --for bwrap | sudo tee /etc/apparmor.d/crabpot-bwrap"


@pytest.mark.parametrize(
    ("switches", "fix"),
    [
        ({remedy.MAXIMUM: "0"}, "sudo sysctl -w user.max_user_namespaces=15000"),
        ({remedy.DEBIAN: "0"}, "sudo sysctl -w kernel.unprivileged_userns_clone=1"),
    ],
)
def test_a_switch_that_is_off_is_named_with_the_command_that_turns_it_on(switches: dict[str, str], fix: str) -> None:
    assert remedy.explain(DENIED, Circumstances(switches=switches)).endswith(fix)


def test_ubuntus_restriction_is_one_sentence_with_the_command_that_gives_bwrap_a_profile() -> None:
    text = remedy.explain(
        "bwrap: setting up uid map: Permission denied", Circumstances(switches={remedy.APPARMOR: "1"})
    )
    assert "as Ubuntu sets it" in text
    assert PROFILE in text
    assert text.endswith("sudo apparmor_parser --replace /etc/apparmor.d/crabpot-bwrap")
    assert "\n" not in text


@pytest.mark.parametrize("said", [DENIED, "bwrap: Can't bind mount /oldroot/ on /newroot/: Permission denied"])
def test_a_profile_that_confines_bwrap_is_named_and_no_container_is_suspected(said: str) -> None:
    text = remedy.explain(said, Circumstances(path="/usr/bin/bwrap", profile="bwrap"))
    assert 'AppArmor\'s profile "bwrap" keeps /usr/bin/bwrap from making sandboxes' in text
    assert "sudo aa-disable /usr/bin/bwrap" in text
    assert PROFILE in text
    assert "container" not in text


def test_a_masked_proc_is_told_from_a_missing_namespace() -> None:
    said = "bwrap: Can't mount proc on /newroot/proc: Operation not permitted"
    assert "systempaths=unconfined" in remedy.explain(said, Circumstances())
    assert "ProtectKernelTunables=" in remedy.explain(said, Circumstances(unit="agent.service"))


def test_a_containers_own_filter_is_suspected_when_no_switch_is_off() -> None:
    switches = {remedy.MAXIMUM: "1000", remedy.APPARMOR: "0", remedy.DEBIAN: "1"}
    assert "seccomp=unconfined" in remedy.explain(DENIED, Circumstances(switches=switches))


def test_what_a_unit_of_systemds_takes_away_is_named_by_its_setting() -> None:
    said = "bwrap: Can't mkdir parents for /etc: Function not implemented"
    text = remedy.explain(said, Circumstances(unit="agent.service", filtered=True))
    assert "RestrictSUIDSGID=" in text
    assert "agent.service" in text
    assert "RestrictNamespaces=" in remedy.explain(DENIED, Circumstances(unit="agent.service", filtered=True))
    assert "container" in remedy.explain(said, Circumstances(filtered=True))
    said = "bwrap: Can't set hostname to crabpot: Operation not permitted"
    assert "remove ProtectHostname= from it" in remedy.explain(said, Circumstances(unit="agent.service", filtered=True))


def test_a_folder_that_cannot_be_reached_is_said_to_be_one() -> None:
    said = "bwrap: Can't find source path /root/x: Permission denied"
    assert "chmod o+x" in remedy.explain(said, Circumstances())


def test_anything_else_is_passed_on_as_it_was_said() -> None:
    around = Circumstances()
    assert remedy.explain("warning\nbwrap: execvp /x: No such file\n", around) == "bwrap: execvp /x: No such file"
    assert remedy.explain("", around) == "it printed nothing"
