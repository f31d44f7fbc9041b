from __future__ import annotations

import os

import pytest

from crabpot.audit import FILE_NAME, tables
from crabpot.errors import CrabpotError


def test_a_log_that_cannot_be_read_is_not_left_open(tmp_path):
    log = tmp_path / FILE_NAME
    log.write_bytes(b"no database" * 1000)
    with pytest.raises(CrabpotError, match="cannot be read: file is not a database"):
        tables.sessions(str(tmp_path))
    assert str(log) not in _open_files()


def _open_files():
    with os.scandir("/proc/self/fd") as links:
        return [os.readlink(link) for link in links if os.path.exists(link)]
