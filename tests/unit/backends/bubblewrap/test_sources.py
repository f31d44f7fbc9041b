"""Descriptors that are closed together."""

from __future__ import annotations

import os

import pytest

from crabpot.backends.linux.held_files import Fds


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def test_all_are_closed_whatever_happens_but_what_was_given_away() -> None:
    fds = Fds()
    reader, writer = fds.pipe()
    kept = fds.release(fds.open("/dev/null", os.O_RDONLY))
    with pytest.raises(ZeroDivisionError), fds:
        _ = 1 / 0
    assert not _is_open(reader)
    assert not _is_open(writer)
    assert _is_open(kept)
    os.close(kept)


def test_one_that_was_closed_early_is_not_closed_again_when_its_number_is_anothers() -> None:
    with Fds() as fds:
        reader, _ = fds.pipe()
        fds.close(reader)
        other = os.open("/dev/null", os.O_RDONLY)
        assert other == reader
    assert _is_open(other)
    os.close(other)


def test_nothing_is_inherited_by_accident() -> None:
    with Fds() as fds:
        opened = [*fds.pipe(), fds.open("/dev/null", os.O_RDONLY)]
        assert not any(os.get_inheritable(fd) for fd in opened)
