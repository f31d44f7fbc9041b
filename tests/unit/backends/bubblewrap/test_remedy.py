"""What to tell a person whose machine makes no sandbox."""

from __future__ import annotations

import pytest

from crabpot.backends.bubblewrap import remedy

DENIED = (
    "bwrap: No permissions to create new namespace, likely because the kernel does not allow non-privileged ones.\n"
)


@pytest.mark.parametrize(
    ("switches", "fix"),
    [
        ({remedy.MAXIMUM: "0"}, "sudo sysctl -w user.max_user_namespaces=15000"),
        ({remedy.DEBIAN: "0"}, "sudo sysctl -w kernel.unprivileged_userns_clone=1"),
    ],
)
def test_a_switch_that_is_off_is_named_with_the_command_that_turns_it_on(switches: dict[str, str], fix: str) -> None:
    assert remedy.explain(DENIED, switches, "/usr/bin/bwrap").endswith(fix)


def test_ubuntus_restriction_is_answered_with_a_profile_for_this_very_program() -> None:
    text = remedy.explain("bwrap: setting up uid map: Permission denied", {remedy.APPARMOR: "1"}, "/opt/v/bwrap")
    assert "profile crabpot-bwrap /opt/v/bwrap flags=(unconfined) {\n  userns,\n}" in text
    assert text.endswith("sudo apparmor_parser -r /etc/apparmor.d/crabpot-bwrap")


def test_a_masked_proc_is_told_from_a_missing_namespace() -> None:
    said = "bwrap: Can't mount proc on /newroot/proc: Operation not permitted"
    assert "systempaths=unconfined" in remedy.explain(said, {}, "/usr/bin/bwrap")


def test_a_containers_own_filter_is_suspected_when_no_switch_is_off() -> None:
    text = remedy.explain(DENIED, {remedy.MAXIMUM: "1000", remedy.APPARMOR: "0", remedy.DEBIAN: "1"}, "/usr/bin/bwrap")
    assert "seccomp=unconfined" in text


def test_a_folder_that_cannot_be_reached_is_said_to_be_one() -> None:
    said = "bwrap: Can't find source path /root/x: Permission denied"
    assert "chmod o+x" in remedy.explain(said, {}, "/usr/bin/bwrap")


def test_anything_else_is_passed_on_as_it_was_said() -> None:
    assert remedy.explain("warning\nbwrap: execvp /x: No such file\n", {}, "/b") == "bwrap: execvp /x: No such file"
    assert remedy.explain("", {}, "/b") == "it printed nothing"
