"""What the kernel must say of a runner, from outside, before it hears a word."""

from __future__ import annotations

import pytest

from crabpot.backends.bubblewrap.walls import Walls
from crabpot.spec.spec import User

USER = User(uid=61234, gid=61235)
STATUS = """\
Name:\tpython3
Uid:\t61234\t61234\t61234\t61234
Gid:\t61235\t61235\t61235\t61235
Groups:\t\x20
CapInh:\t0000000000000000
CapPrm:\t0000000000000000
CapEff:\t0000000000000000
CapBnd:\t0000000000000000
CapAmb:\t0000000000000000
NoNewPrivs:\t1
Seccomp:\t2
Seccomp_filters:\t1
"""


def test_one_that_is_confined_misses_nothing() -> None:
    assert Walls().missed(STATUS, USER, dropped=True) == []


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("Uid:\t61234", "Uid:\t0", "Uid"),
        ("61234\nGid", "0\nGid", "Uid"),
        ("Gid:\t61235", "Gid:\t0", "Gid"),
        ("Groups:\t ", "Groups:\t6 999 ", "Groups"),
        ("Groups:\t \n", "", "Groups"),
        ("CapBnd:\t0", "CapBnd:\t8", "CapBnd"),
        ("CapEff:\t0000000000000000\n", "", "CapEff"),
        ("NoNewPrivs:\t1", "NoNewPrivs:\t0", "NoNewPrivs"),
        ("Seccomp:\t2", "Seccomp:\t0", "Seccomp"),
    ],
)
def test_whatever_it_has_kept_is_named(old: str, new: str, named: str) -> None:
    assert STATUS.count(old) == 1
    assert Walls().missed(STATUS.replace(old, new), USER, dropped=True) == [named]


def test_who_was_no_root_keeps_its_own_groups() -> None:
    own = STATUS.replace("Groups:\t ", "Groups:\t27 1000 ")
    assert Walls().missed(own, USER, dropped=False) == []
    assert Walls().missed("", USER, dropped=False)[-1] == "Uid"


KINDS = ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup")


def namespaces(number: int, **others: str) -> dict[str, str]:
    return {kind: f"{kind}:[{number}]" for kind in KINDS} | others


def test_one_whose_namespaces_are_all_its_own_shares_none() -> None:
    assert Walls().shared(namespaces(3), [namespaces(1), namespaces(2)], "none") == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("whose", [1, 2])
def test_a_namespace_of_the_gateway_or_of_the_fork_server_is_named(kind: str, whose: int) -> None:
    seen = namespaces(3, **{kind: f"{kind}:[{whose}]"})
    assert Walls().shared(seen, [namespaces(1), namespaces(2)], "none") == [f"{kind} namespace"]


def test_a_namespace_that_cannot_be_seen_counts_as_shared() -> None:
    assert Walls().shared(namespaces(3, pid="Permission denied"), [namespaces(1)], "none") == ["pid namespace"]


def test_the_network_is_shared_where_that_is_what_was_asked_for() -> None:
    assert Walls().shared(namespaces(3, net="net:[1]"), [namespaces(1)], "host") == []
    assert Walls().shared(namespaces(3, net="net:[1]"), [namespaces(1)], "allow") == ["net namespace"]
