"""Opening, ending, freezing, and what is left when a gateway is killed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.live.bubblewrap import gateway

if TYPE_CHECKING:
    from tests.support.people import Person


def test_nothing_is_left_of_sandboxes_that_were_opened_and_closed(person: Person) -> None:
    found = person.run("open_and_close")
    assert sum(answer != "" for answer in found["answers"]) == 9
    assert found["leaked"] == []
    assert found["children"] == []
    assert found["groups"] == []
    assert [name for name in found["left"] if not name.startswith("bundle-")] == ["probe.json"]


def test_an_opening_that_is_cancelled_leaves_nothing_whenever_that_happens(person: Person) -> None:
    found = person.run("cancel")
    assert found["cancelled"] >= 3
    assert found["leaked"] == []
    assert found["children"] == []
    assert found["groups"] == []
    assert found["orphans"] == []


def test_a_gateway_that_is_killed_takes_every_process_with_it_and_the_next_removes_its_groups(person: Person) -> None:
    dying = person.start("be_killed")
    output, errors = dying.communicate(timeout=60)
    told = json.loads(output)
    assert dying.returncode == -9, errors
    assert len(told["pids"]) >= 12
    gateway.eventually("a process of a killed gateway", told["pids"])
    if person.uid == 0:
        assert gateway.control_groups(told["gateway"]), "there was nothing to remove"
    person.run("clauses")
    assert gateway.control_groups(told["gateway"]) == []


def test_a_bwrap_that_was_left_waiting_for_ever_is_ended_by_the_next_gateway(person: Person) -> None:
    dying = person.start("be_killed_opening")
    output, errors = dying.communicate(timeout=60)
    assert dying.returncode == -9, errors
    told = json.loads(output)
    person.run("clauses")
    gateway.eventually("what was left", told["left"])
    left = os.listdir(f"{person.state}/bubblewrap") if os.geteuid() in (0, person.uid) else []
    assert not any(name.startswith("crabpot-") for name in left)


def test_a_sandbox_ends_with_the_thread_whose_loop_opened_it(person: Person) -> None:
    assert person.run("lose_thread") == {"gone": True}


def test_a_frozen_sandbox_stands_still_goes_on_and_can_be_closed_while_frozen(person: Person) -> None:
    assert person.run("freeze") == {"stood still": True, "children": []}


def test_a_shell_that_waits_for_a_child_that_was_stopped_first_is_frozen_too(person: Person) -> None:
    assert person.run("freeze_vfork") == {"children": []}


def test_nothing_that_was_stopped_finds_a_way_to_go_on(person: Person) -> None:
    assert person.run("freeze_evaders") == {"moved": []}


def test_every_clause_of_an_ordinary_spec_is_kept_or_said_to_be_degraded(person: Person) -> None:
    states = person.run("clauses")
    assert "refused" not in states.values()
    degraded = {name for name, state in states.items() if state == "degraded"}
    if person.uid == 0 and Path("/sys/fs/cgroup/memory").is_dir():
        assert degraded == {"limits.disk"}
    assert degraded <= {"limits.disk", "limits.memory", "limits.cpus"}


def test_a_memory_hog_dies_alone_and_the_limit_is_named_once(person: Person) -> None:
    found = person.run("hog_memory")
    assert found["output"] == ""
    assert found["still"] == "here\n"
    assert found["other"] == "here\n"
    if person.run("clauses")["limits.memory"] == "enforced":
        assert found["exit_code"] == 137
        assert found["cause"][0] == "memory_limit"
        assert "96 MiB" in found["cause"][1]
        assert found["again"] is None
    else:
        assert person.uid != 0
        assert "MemoryError" in found["errors"]


def test_what_a_sandbox_died_of_can_be_asked_after_its_end(root: Person) -> None:
    found = root.run("die_of_memory")
    assert found["cause"][0] == "memory_limit"
    assert found["again"] is None


def test_a_fork_bomb_finds_its_limit_and_the_sandbox_goes_on(person: Person) -> None:
    found = person.run("fork_bomb")
    assert "all started" not in found["output"]
    assert "ork" in found["errors"]
    assert found["still"] == "here\n"
    if person.uid == 0:
        assert found["cause"][0] == "process_limit"


def test_tmp_holds_so_many_bytes_and_so_many_files(person: Person) -> None:
    found = person.run("fill_tmp")
    assert found["bytes"].startswith("1048576\n")
    assert "No space left on device" in found["files"]


@pytest.mark.parametrize("kind", ["bridge", "named"])
def test_a_network_that_this_backend_cannot_make_is_refused(user: Person, kind: str) -> None:
    assert "network" in user.run("attempt", json.dumps({"network": kind}))["refused"]


def test_the_hosts_network_is_there_where_it_was_asked_for(user: Person) -> None:
    found = user.run("attempt", json.dumps({"network": "host", "command": "cat /proc/net/dev; cat /etc/nsswitch.conf"}))
    inside = {line.split(":")[0].strip() for line in found["opened"].splitlines() if ":" in line}
    outside = {line.split(":")[0].strip() for line in Path("/proc/net/dev").read_text().splitlines() if ":" in line}
    assert outside <= inside
    assert "files dns" in found["opened"]


def test_a_runner_that_is_not_confined_hears_no_word_and_is_ended(person: Person) -> None:
    found = person.run("without_a_filter")
    assert "not what it should be (Seccomp)" in found["refused"]
    assert found["children"] == []
