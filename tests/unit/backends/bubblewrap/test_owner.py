"""Labels that say whose a thing is."""

from __future__ import annotations

import os
import subprocess

from crabpot.backends.linux import owner


def test_what_this_process_made_has_an_owner() -> None:
    label = owner.label("x")
    assert owner.is_label(label)
    assert owner.is_alive(label)


def test_what_a_process_that_ended_made_has_none() -> None:
    process = subprocess.Popen(["true"])
    label = f"crabpot-{process.pid}-{owner.started(process.pid)}-x"
    process.wait()
    assert not owner.is_alive(label)


def test_a_later_process_of_the_same_number_is_not_the_owner() -> None:
    assert not owner.is_alive(f"crabpot-{os.getpid()}-1-x")


def test_what_is_no_label_is_nobodys_and_left_alone() -> None:
    for name in ("bundle-1", "probe.json", "crabpot-x-1-y", "crabpot-1", "../crabpot-1-1-x"):
        assert not owner.is_label(name)
        assert owner.is_alive(name)


def test_a_name_with_parentheses_and_spaces_does_not_hide_the_start_time() -> None:
    process = subprocess.Popen(["sh", "-c", "exec -a 'x) 1 2 (' sleep 10"], executable="/bin/bash")
    try:
        assert owner.started(process.pid) == owner.started(process.pid)
        assert owner.parent(process.pid) == os.getpid()
    finally:
        process.kill()
        process.wait()
