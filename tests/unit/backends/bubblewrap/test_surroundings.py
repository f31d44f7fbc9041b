"""What is around a bwrap: it is looked at when it runs, not while the kernel still puts it in place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from crabpot.backends.bubblewrap import surroundings

# Gives itself a name and then reads all arguments, as bwrap does. Its name stands for AppArmor's label.
READS = """#!/bin/bash
echo -n late >/proc/$$/comm
exec 0<&$2
while read -r -N 4096; do :; done
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "bwrap"
    path.write_text(READS)
    path.chmod(0o755)
    return path


def test_it_is_looked_at_once_it_reads_and_is_gone_afterwards(program: Path) -> None:
    with surroundings.waiting(str(program)) as pid:
        assert Path(f"/proc/{pid}/comm").read_text() == "late\n"
    assert not Path(f"/proc/{pid}").exists()


def test_one_that_ends_at_once_is_not_waited_for() -> None:
    with surroundings.waiting("/bin/true") as pid:
        assert pid


def test_one_that_cannot_be_started_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), surroundings.waiting(str(tmp_path / "none")):
        pass


def test_the_number_of_apparmors_policy_is_read_and_never_waited_for(tmp_path: Path) -> None:
    number = tmp_path / "revision"
    os.mkfifo(number)
    # As the kernel's file: it has no end, and what was read is gone.
    fd = os.open(number, os.O_RDWR)
    try:
        assert surroundings.policy(str(number)) == ""
        os.write(fd, b"108\n")
        assert surroundings.policy(str(number)) == "108"
    finally:
        os.close(fd)
    assert surroundings.policy(str(tmp_path / "none")) == ""
