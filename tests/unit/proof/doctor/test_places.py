"""What the doctor makes of Crabpot's own files."""

from __future__ import annotations

import os
import socket
import stat
from dataclasses import replace

import pytest

from crabpot.proof.doctor import machine
from crabpot.proof.doctor.places import CheckedPath, Own, look

NOW = 1_800_000_000.0
DAY_S = 86400.0
GOOD = Own(
    uid=1000,
    config=CheckedPath(path="/c", uid=1000, mode=stat.S_IFREG | 0o644),
    state=CheckedPath(path="/s", uid=1000, mode=stat.S_IFDIR | 0o700),
    sockets=(CheckedPath(path="/s/serve.sock", uid=1000, mode=stat.S_IFSOCK | 0o600),),
    free_bytes=50 * 1024**3,
    now=NOW,
    last_record=NOW - 5,
    last_verify=NOW - DAY_S,
)


def one(own, name):
    found = [line for line in look(own) if line.name == name]
    assert len(found) == 1
    return found[0]


def test_good_order_is_all_ok():
    assert {line.state for line in look(GOOD)} == {"ok"}
    fresh = replace(GOOD, config=None, state=None, sockets=(), last_record=None)
    assert {line.state for line in look(fresh)} == {"ok"}
    of_root = replace(GOOD, uid=0, state=CheckedPath(path="/s", uid=0, mode=stat.S_IFDIR | 0o711))
    assert one(of_root, "state").state == "ok", "as Crabpot makes it: sandboxes of root's are somebody else"


@pytest.mark.parametrize(
    ("change", "name", "state", "fix"),
    [
        ({"config": CheckedPath(path="/c", uid=1001, mode=0o600)}, "configuration", "problem", "sudo chown 1000 /c"),
        ({"config": CheckedPath(path="/c", uid=1000, mode=0o666)}, "configuration", "problem", "chmod go-w /c"),
        ({"state": CheckedPath(path="/s", uid=1000, mode=0o770)}, "state", "problem", "chmod go-w /s"),
        ({"state": CheckedPath(path="/s", uid=1000, mode=0o755)}, "state", "warning", "chmod go= /s"),
        ({"sockets": (CheckedPath(path="/x", uid=1000, mode=0o666),)}, "socket", "problem", "chmod go-w /x"),
        ({"free_bytes": 10**9}, "disk", "warning", "prune"),
        ({"free_bytes": 10**7}, "disk", "problem", "prune"),
        ({"now": 1_000_000.0}, "clock", "problem", "timedatectl"),
        ({"last_record": NOW + 3600}, "clock", "warning", "timedatectl"),
        ({"last_verify": None}, "last verify", "warning", "crabpot verify"),
        ({"last_verify": NOW - 90 * DAY_S}, "last verify", "warning", "crabpot verify"),
        ({"verify_held": False}, "last verify", "problem", "crabpot verify"),
    ],
)
def test_what_is_wrong_is_told_with_what_mends_it(change, name, state, fix):
    line = one(replace(GOOD, **change), name)
    assert line.state == state
    assert fix in line.fix


def test_a_configuration_of_roots_is_as_good_as_ones_own():
    assert one(replace(GOOD, config=CheckedPath(path="/c", uid=0, mode=0o644)), "configuration").state == "ok"


def test_files_are_read_as_they_are(tmp_path):
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    config = tmp_path / "c.json5"
    config.write_text("{}")
    config.chmod(0o666)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(state / "serve.sock"))
        own = machine.own(str(config), str(state))
    assert own.config.mode & 0o777 == 0o666
    assert own.state.path == str(state)
    assert [os.path.basename(place.path) for place in own.sockets] == ["serve.sock"]
    assert own.free_bytes > 0
    assert (own.last_record, own.last_verify) == (None, None)


def test_a_state_folder_that_is_not_made_yet_is_looked_for_where_it_will_be(tmp_path):
    own = machine.own(None, str(tmp_path / "a/b/c"))
    assert own.state is None
    assert own.free_bytes > 0
