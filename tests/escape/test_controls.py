"""The same attacks where there is no wall: a session on the host. An attack that cannot succeed proves nothing.

Only those that do no harm when they succeed, and that need no more rights than any user has.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from functools import cache
from pathlib import Path

import pytest
from tests.ordinary_user import open_gateway

from crabpot.errors import CrabpotError
from crabpot.verify.catalogue import chosen
from crabpot.verify.run import carry_out, targets, verify

SUCCEEDING = (
    "cannot_read_a_file_of_the_host",
    "cannot_see_the_hosts_own_folders",
    "sees_only_a_small_etc_of_its_own",
    "cannot_run_a_program_from_the_temporary_folder",
    "has_a_private_temporary_folder_without_programs_or_devices",
    "cannot_see_the_hosts_processes",
    "cannot_signal_a_process_of_the_host",
    "shares_no_namespace_with_the_host",
    "cannot_reach_the_hosts_shared_memory",
    "finds_only_the_promised_environment",
    "cannot_trace_the_runner",
    "can_never_gain_privileges_by_running_a_program",
    "stands_within_a_second_wall",
    "makes_every_system_call_through_a_filter",
    "cannot_mount_anything",
    "cannot_change_its_root",
    "cannot_use_the_kernels_keyrings",
    "is_told_that_unknown_calls_do_not_exist",
    "cannot_type_into_a_terminal",
    "cannot_connect_to_the_hosts_loopback",
    "has_no_way_to_the_world",
    "cannot_reach_an_abstract_socket_of_the_host",
    "cannot_reach_a_socket_file_of_the_host",
    "cannot_be_heard_on_the_host",
    "cannot_read_a_file_of_the_host_by_a_path",
    "cannot_write_a_file_of_the_host_by_a_path",
    "cannot_search_the_host",
)

# A container's own filter would refuse what is to succeed here.
CONFINED = "Seccomp:\t0" not in Path("/proc/self/status").read_text(encoding="ascii")


def unconfined(folder: str):
    text = json.dumps({"agents": {"defaults": {"workspace": f"{folder}/agent", "sandbox": {"mode": "off"}}}})
    return targets(lambda: open_gateway(text, f"{folder}/state"))


async def attack_the_host() -> dict[str, dict[str, str]]:
    with tempfile.TemporaryDirectory() as folder:
        async with unconfined(folder) as target:
            return {claim.name: (await carry_out(claim, target)).as_json() for claim in chosen(SUCCEEDING)}


@cache
def findings() -> dict[str, dict[str, str]]:
    return asyncio.run(attack_the_host())


@pytest.mark.skipif(CONFINED, reason="these tests are themselves confined by a system call filter")
@pytest.mark.parametrize("name", SUCCEEDING)
def test_an_attack_succeeds_where_nothing_stops_it(name: str) -> None:
    found = findings()[name]
    assert found["state"] == "broken", found["came_back"]


def test_a_session_on_the_host_is_not_attacked_by_accident(tmp_path: Path) -> None:
    async def refused() -> None:
        async with unconfined(str(tmp_path)) as target:
            with pytest.raises(CrabpotError, match="runs on the host"):
                await verify(target)

    asyncio.run(refused())
