"""Who a container runs as, for every kind of gateway and workspace. Never root."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crabpot.backends.docker.user import NOBODY, Folder, Mapping, choose, outside
from crabpot.spec.spec import User
from tests.support.specs import make_docker_spec

ROOT, ALICE = User(uid=0, gid=0), User(uid=1000, gid=1000)
REMAPPED, ROOTLESS = Mapping(first_ids=(100_000, 100_000)), Mapping(first_ids=None)


def rw(**changes: Any) -> Any:
    return make_docker_spec(workspace="/home/a b/agent", private=False, **changes)


def test_the_owner_of_the_workspace_is_the_user() -> None:
    for gateway in (ROOT, ALICE):
        chosen = choose(rw(), gateway=gateway, folder=Folder(uid=1234, gid=1235, mode=0o40755))
        assert chosen.user == User(uid=1234, gid=1235)


def test_a_folder_of_group_root_gives_no_membership_in_it() -> None:
    chosen = choose(rw(), gateway=ROOT, folder=Folder(uid=1234, gid=0, mode=0o40755))
    assert chosen.user == User(uid=1234, gid=1234)


@pytest.mark.parametrize(("gateway", "ids"), [(ROOT, "65534:65534"), (ALICE, "1000:1000")])
def test_a_workspace_of_roots_is_refused_with_what_to_do(gateway: User, ids: str) -> None:
    chosen = choose(rw(), gateway=gateway, folder=Folder(uid=0, gid=0, mode=0o40755))
    assert chosen.user is None
    assert f"chown -R {ids} '/home/a b/agent'" in chosen.because
    assert "user:" in chosen.because


def test_a_configured_user_who_cannot_write_the_workspace_is_refused_with_what_to_do() -> None:
    folder = Folder(uid=1234, gid=1235, mode=0o40755)
    chosen = choose(rw(user=ALICE), gateway=ROOT, folder=folder)
    assert chosen.user is None
    assert "chown -R 1000:1000" in chosen.because
    assert 'user: "1234:1235"' in chosen.because


@pytest.mark.parametrize(
    ("owner", "group", "mode"), [(1000, 7, 0o40700), (7, 1000, 0o40775), (7, 7, 0o40777), (0, 1000, 0o40770)]
)
def test_a_configured_user_who_can_write_it_is_taken(owner: int, group: int, mode: int) -> None:
    folder = Folder(uid=owner, gid=group, mode=mode)
    assert choose(rw(user=ALICE), gateway=ALICE, folder=folder).user == ALICE


def test_a_missing_workspace_is_refused_with_what_to_do() -> None:
    assert "mkdir -p '/home/a b/agent'" in choose(rw(), gateway=ALICE, folder=None).because


def test_a_private_folder_is_the_gateways_own_or_nobodys() -> None:
    assert choose(make_docker_spec(), gateway=ALICE, folder=None).user == ALICE
    assert choose(make_docker_spec(), gateway=ROOT, folder=None).user == NOBODY
    assert choose(make_docker_spec(user=ALICE), gateway=ROOT, folder=None).user == ALICE


def test_a_private_folder_cannot_be_given_away_without_root() -> None:
    chosen = choose(make_docker_spec(user=User(uid=7, gid=7)), gateway=ALICE, folder=None)
    assert chosen.user is None
    assert '"1000:1000"' in chosen.because


def test_on_a_rootless_engine_the_agents_folder_cannot_be_rw() -> None:
    chosen = choose(rw(), gateway=ALICE, folder=Folder(uid=1000, gid=1000, mode=0o40755), mapping=ROOTLESS)
    assert chosen.user is None
    assert "rootless" in chosen.because
    assert choose(make_docker_spec(), gateway=ALICE, folder=None, mapping=ROOTLESS).user == NOBODY


def test_where_users_are_mapped_the_owner_of_the_workspace_is_found_inside() -> None:
    folder = Folder(uid=101_234, gid=101_235, mode=0o40755)
    assert choose(rw(), gateway=ROOT, folder=folder, mapping=REMAPPED).user == User(uid=1234, gid=1235)
    assert choose(make_docker_spec(), gateway=ROOT, folder=None, mapping=REMAPPED).user == NOBODY


@pytest.mark.parametrize("uid", [0, 1000, 100_000, 165_536])
def test_a_workspace_of_nobody_inside_is_refused_with_what_to_do(uid: int) -> None:
    chosen = choose(rw(), gateway=ROOT, folder=Folder(uid=uid, gid=101_235, mode=0o40755), mapping=REMAPPED)
    assert chosen.user is None
    assert "chown -R 165534:165534 '/home/a b/agent'" in chosen.because


def test_a_configured_user_must_be_the_owner_where_users_are_mapped() -> None:
    folder = Folder(uid=101_000, gid=101_000, mode=0o40755)
    assert choose(rw(user=ALICE), gateway=ROOT, folder=folder, mapping=REMAPPED).user == ALICE
    chosen = choose(rw(user=User(uid=7, gid=7)), gateway=ROOT, folder=folder, mapping=REMAPPED)
    assert "chown -R 100007:100007" in chosen.because


def test_a_private_folder_belongs_to_whom_the_user_inside_is_outside() -> None:
    assert outside(ALICE, gateway=ROOT, mapping=None) == ALICE
    assert outside(ALICE, gateway=ROOT, mapping=REMAPPED) == User(uid=101_000, gid=101_000)
    assert outside(NOBODY, gateway=ALICE, mapping=REMAPPED) == ALICE
    assert outside(NOBODY, gateway=ALICE, mapping=ROOTLESS) == ALICE


IDS = st.integers(min_value=0, max_value=3)


@given(
    private=st.booleans(),
    mapping=st.sampled_from([None, ROOTLESS, REMAPPED, Mapping(first_ids=(2, 2))]),
    gateway=st.builds(User, uid=IDS, gid=IDS),
    folder=st.none() | st.builds(Folder, uid=IDS, gid=IDS, mode=st.integers(min_value=0, max_value=0o777)),
    user=st.none() | st.builds(User, uid=st.integers(1, 3), gid=st.integers(1, 3)),
)
def test_nobody_is_ever_root(private: Any, mapping: Any, gateway: Any, folder: Any, user: Any) -> None:
    chosen = choose(make_docker_spec(private=private, user=user), gateway=gateway, folder=folder, mapping=mapping)
    assert chosen.because
    assert chosen.user is None or (chosen.user.uid and chosen.user.gid)
