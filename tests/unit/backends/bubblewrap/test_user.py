"""Who a sandbox runs as."""

from __future__ import annotations

import pytest

from crabpot.backends.bubblewrap.user import NOBODY, choose
from crabpot.spec.spec import User
from tests.support.specs import make_spec

ROOT = User(uid=0, gid=0)
ALICE = User(uid=1000, gid=1000)
STATE = "/state"


def test_an_ordinary_gateway_can_only_be_itself() -> None:
    assert choose(make_spec(STATE), gateway=ALICE, owner=None).user == ALICE
    assert choose(make_spec(STATE, user=ALICE), gateway=ALICE, owner=None).user == ALICE


def test_an_ordinary_gateway_refuses_another_user_and_says_what_to_write() -> None:
    refused = choose(make_spec(STATE, user=User(uid=1001, gid=1001)), gateway=ALICE, owner=None)
    assert refused.user is None
    assert "1001:1001" in refused.because
    assert '"1000:1000"' in refused.because


def test_another_group_alone_is_refused_too() -> None:
    assert choose(make_spec(STATE, user=User(uid=1000, gid=27)), gateway=ALICE, owner=None).user is None


def test_a_gateway_in_the_group_root_runs_nothing() -> None:
    assert choose(make_spec(STATE), gateway=User(uid=1000, gid=0), owner=None).user is None


def test_root_with_a_private_workspace_becomes_nobody() -> None:
    assert choose(make_spec(STATE), gateway=ROOT, owner=None).user == NOBODY


def test_root_becomes_the_owner_of_a_rw_workspace() -> None:
    spec = make_spec(STATE, private=False, workspace="/srv/ws")
    assert choose(spec, gateway=ROOT, owner=ALICE).user == ALICE


def test_root_becomes_the_configured_user() -> None:
    spec = make_spec(STATE, private=False, workspace="/srv/ws", user=User(uid=5, gid=6))
    assert choose(spec, gateway=ROOT, owner=ALICE).user == User(uid=5, gid=6)


@pytest.mark.parametrize("user", [None, ALICE])
def test_a_workspace_of_roots_own_is_refused_with_the_chown_to_run(user: User | None) -> None:
    spec = make_spec(STATE, private=False, workspace="/srv/my ws", user=user)
    refused = choose(spec, gateway=ROOT, owner=ROOT)
    who = "1000:1000" if user else "65534:65534"
    assert refused.user is None
    assert refused.because.endswith(f"chown -R {who} '/srv/my ws'")


def test_a_file_of_group_root_gives_no_membership_in_it() -> None:
    spec = make_spec(STATE, private=False, workspace="/srv/ws")
    assert choose(spec, gateway=ROOT, owner=User(uid=1000, gid=0)).user == ALICE


def test_nothing_ever_runs_as_root() -> None:
    for gateway in (ROOT, ALICE):
        for owner in (None, ROOT, ALICE):
            for private in (True, False):
                user = choose(make_spec(STATE, private=private), gateway=gateway, owner=owner).user
                assert user is None or (user.uid != 0 and user.gid != 0)


def test_a_folder_of_roots_own_may_be_under_review_as_nobody() -> None:
    spec = make_spec(STATE, private=False, workspace="/srv/project", layer="/state/layers/x")
    assert choose(spec, gateway=ROOT, owner=ROOT).user == NOBODY
    assert choose(spec, gateway=ROOT, owner=ALICE).user == ALICE
