"""Every promise over a runner that somebody else started: which hold, and which are theirs to keep."""

from __future__ import annotations

import asyncio
import json
import shutil
from typing import TYPE_CHECKING

import pytest

from crabpot.proof.conformance.harness import Harness
from crabpot.proof.conformance.run import PROMISES, Checked, check
from tests.support.backends import skip_or_fail
from tests.support.runner_on_socket import runner_on_socket
from tests.support.suites import open_gateway

if TYPE_CHECKING:
    from crabpot.gateway import Gateway
    from crabpot.proof.conformance.promises import Promise

_ROOTS = "all sessions work in the roots that the runner was started with"
_NETWORK = "a runner that runs already has the network of its container: refused"
_LIMITS = "the limit is set by who started the runner"
_REVIEW = "a runner that was started elsewhere has no layer: refused"
# What `explain` calls degraded or refused, promise by promise.
THEIRS = {
    "a_private_workspace_outlives_its_sandbox": _ROOTS,
    "sessions_have_folders_of_their_own_unless_they_share_a_scope": _ROOTS,
    "a_readable_workspace_is_seen_and_not_changed": _ROOTS,
    "a_writable_workspace_is_the_agents_own": _ROOTS,
    "a_workspace_that_was_made_anew_is_seen": _ROOTS,
    "binds_are_where_they_were_put": "nothing can be mounted into a runner that runs already: refused",
    "a_folder_under_review_is_complete_and_writable": _REVIEW,
    "the_host_never_sees_what_is_under_review": _REVIEW,
    "a_layer_outlives_its_sandbox_and_belongs_to_its_scope": _REVIEW,
    "a_layer_is_reached_through_the_folder_alone": _REVIEW,
    "what_the_host_replaces_shows_in_an_idle_sandbox": _REVIEW,
    "the_system_is_read_only": "whatever lies outside the roots is `outside`, so that nobody learns whether it is read-only",
    "the_environment_is_what_was_promised": "its passwd file is that of the container around it",
    "a_sandbox_that_dies_takes_its_calls_and_nothing_else": "the runner is started again by who started it",
    "the_agent_cannot_keep_the_next_sandbox_from_opening": "the root is the runner's user's own, and stays as the agent left it",
    "a_listed_place_is_reached_without_settings_and_no_other": _NETWORK,
    "two_hundred_connections_at_once_are_each_answered": _NETWORK,
    "an_empty_list_and_the_internet_reach_nothing_of_the_hosts": _NETWORK,
    "ordinary_programs_find_what_they_expect": "what programs find is what its container has",
    "programs_run_from_tmp_only_where_configured": "its /tmp is that of the container around it",
    "the_memory_limit_is_named": _LIMITS,
    "the_process_limit_is_named": _LIMITS,
    "the_file_size_limit_is_named": _LIMITS,
    "a_full_temporary_folder_is_named": _LIMITS,
    "the_limit_of_open_files_holds": _LIMITS,
}


def checked(promise: Promise) -> Checked:
    if shutil.which("bwrap") is None:
        skip_or_fail("bubblewrap", "the runner is started by the system's bwrap, which is not there")
    # With a shell in the list: the promises are about shell text.
    with runner_on_socket("sh") as runner:

        def over_it(text: str, state: str) -> Gateway:
            written = json.loads(text)
            written["agents"]["defaults"]["sandbox"]["socket"] = runner.path
            return open_gateway(json.dumps(written), state)

        return asyncio.run(check(promise, Harness(open_gateway=over_it, backend="socket")))


@pytest.mark.parametrize("promise", [one for one in PROMISES if one.name not in THEIRS], ids=lambda one: one.name)
def test_what_holds(promise: Promise) -> None:
    came = checked(promise)
    assert not came.broken, came.broken


@pytest.mark.parametrize("promise", [one for one in PROMISES if one.name in THEIRS], ids=lambda one: one.name)
def test_what_is_for_others_to_keep_is_seen_not_to_be_kept_here(promise: Promise) -> None:
    assert checked(promise).broken, f"it holds after all; the reason was: {THEIRS[promise.name]}"


def test_no_reason_is_for_a_promise_that_there_is_not() -> None:
    assert THEIRS.keys() <= {promise.name for promise in PROMISES}
