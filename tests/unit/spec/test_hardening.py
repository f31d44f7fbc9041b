"""The promises that no configuration changes."""

from __future__ import annotations

from crabpot.spec import hardening


def test_the_places_inside_are_those_of_the_contract() -> None:
    assert (hardening.WORKSPACE, hardening.AGENT_WORKSPACE, hardening.USER) == ("/workspace", "/agent", "agent")
    assert hardening.NOBODY == 65534


def test_the_path_inside_holds_no_relative_folder() -> None:
    assert all(folder.startswith("/") for folder in hardening.PATH.split(":"))


def test_what_reveals_or_changes_the_hosts_kernel_is_masked_or_read_only() -> None:
    assert {"/proc/kcore", "/proc/keys", "/proc/kmsg", "/proc/kallsyms", "/proc/timer_list"} <= set(
        hardening.MASKED_PROC
    )
    assert {"/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus"} <= set(hardening.READ_ONLY_PROC)
    assert not set(hardening.MASKED_PROC) & set(hardening.READ_ONLY_PROC)


def test_everything_that_programs_are_loaded_from_is_reserved() -> None:
    assert {"/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", hardening.RUNNER} <= set(hardening.RESERVED_TARGETS)
