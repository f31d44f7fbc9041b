"""Who a container runs as, for every kind of gateway and workspace. Never root."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crabpot.backends.docker.user import NOBODY, Folder, choose
from crabpot.spec.spec import User

from .make import make_spec

ROOT, ALICE = User(uid=0, gid=0), User(uid=1000, gid=1000)


def rw(**changes: Any) -> Any:
    return make_spec(workspace="/home/a b/agent", private=False, **changes)


def test_the_owner_of_the_workspace_is_the_user() -> None:
    for gateway in (ROOT, ALICE):
        chosen = choose(rw(), gateway=gateway, folder=Folder(uid=1234, gid=1235, mode=0o40755), remapped=False)
        assert chosen.user == User(uid=1234, gid=1235)


def test_a_folder_of_group_root_gives_no_membership_in_it() -> None:
    chosen = choose(rw(), gateway=ROOT, folder=Folder(uid=1234, gid=0, mode=0o40755), remapped=False)
    assert chosen.user == User(uid=1234, gid=1234)


@pytest.mark.parametrize(("gateway", "ids"), [(ROOT, "65534:65534"), (ALICE, "1000:1000")])
def test_a_workspace_of_roots_is_refused_with_what_to_do(gateway: User, ids: str) -> None:
    chosen = choose(rw(), gateway=gateway, folder=Folder(uid=0, gid=0, mode=0o40755), remapped=False)
    assert chosen.user is None
    assert f"chown -R {ids} '/home/a b/agent'" in chosen.because
    assert "user:" in chosen.because


def test_a_configured_user_who_cannot_write_the_workspace_is_refused_with_what_to_do() -> None:
    folder = Folder(uid=1234, gid=1235, mode=0o40755)
    chosen = choose(rw(user=ALICE), gateway=ROOT, folder=folder, remapped=False)
    assert chosen.user is None
    assert "chown -R 1000:1000" in chosen.because
    assert 'user: "1234:1235"' in chosen.because


@pytest.mark.parametrize(
    ("owner", "group", "mode"), [(1000, 7, 0o40700), (7, 1000, 0o40775), (7, 7, 0o40777), (0, 1000, 0o40770)]
)
def test_a_configured_user_who_can_write_it_is_taken(owner: int, group: int, mode: int) -> None:
    folder = Folder(uid=owner, gid=group, mode=mode)
    assert choose(rw(user=ALICE), gateway=ALICE, folder=folder, remapped=False).user == ALICE


def test_a_missing_workspace_is_refused_with_what_to_do() -> None:
    assert "mkdir -p '/home/a b/agent'" in choose(rw(), gateway=ALICE, folder=None, remapped=False).because


def test_a_private_folder_is_the_gateways_own_or_nobodys() -> None:
    assert choose(make_spec(), gateway=ALICE, folder=None, remapped=False).user == ALICE
    assert choose(make_spec(), gateway=ROOT, folder=None, remapped=False).user == NOBODY
    assert choose(make_spec(user=ALICE), gateway=ROOT, folder=None, remapped=False).user == ALICE


def test_a_private_folder_cannot_be_given_away_without_root() -> None:
    chosen = choose(make_spec(user=User(uid=7, gid=7)), gateway=ALICE, folder=None, remapped=False)
    assert chosen.user is None
    assert '"1000:1000"' in chosen.because


def test_where_users_are_mapped_the_agents_folder_cannot_be_rw() -> None:
    chosen = choose(rw(), gateway=ALICE, folder=Folder(uid=1000, gid=1000, mode=0o40755), remapped=True)
    assert chosen.user is None
    assert "maps users" in chosen.because
    assert choose(make_spec(), gateway=ALICE, folder=None, remapped=True).user == NOBODY


IDS = st.integers(min_value=0, max_value=3)


@given(
    private=st.booleans(),
    remapped=st.booleans(),
    gateway=st.builds(User, uid=IDS, gid=IDS),
    folder=st.none() | st.builds(Folder, uid=IDS, gid=IDS, mode=st.integers(min_value=0, max_value=0o777)),
    user=st.none() | st.builds(User, uid=st.integers(1, 3), gid=st.integers(1, 3)),
)
def test_nobody_is_ever_root(private: Any, remapped: Any, gateway: Any, folder: Any, user: Any) -> None:
    chosen = choose(make_spec(private=private, user=user), gateway=gateway, folder=folder, remapped=remapped)
    assert chosen.because
    assert chosen.user is None or (chosen.user.uid and chosen.user.gid)
