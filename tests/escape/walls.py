"""Sandboxes with one wall removed, for the attacks to succeed in. Only tests make them; no program of Crabpot's can.

Each wall is a change of what bubblewrap is told, of the spec, of the greeting, of the runner's source, or of a part of
the gateway. `FALLS` says under which removed wall each claim is expected to fall: an attack that cannot succeed proves
nothing.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from contextlib import asynccontextmanager, suppress
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import crabpot.runner
from crabpot import app
from crabpot.app import App
from crabpot.backends.bubblewrap import bundle
from crabpot.backends.bubblewrap.backend import Bubblewrap, Machine
from crabpot.backends.bubblewrap.user import Choice
from crabpot.backends.bubblewrap.walls import Walls
from crabpot.backends.registry import Registry
from crabpot.frozen import dataclass
from crabpot.gateway import Gateway
from crabpot.proof.verify import trial, witness
from crabpot.proof.verify.bait import Bait, laid_out
from crabpot.proof.verify.target import Target
from crabpot.sandboxes.fleet import Fleet
from crabpot.sandboxes.opening import connect
from crabpot.settings import Limits, Network, Settings, Size
from crabpot.spec.spec import SandboxSpec, User
from tests.escape import bwrap_argv, naive
from tests.support.suites import take_over

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from crabpot.backends.base import Backend
    from crabpot.backends.bubblewrap.clauses import Findings
    from crabpot.backends.bubblewrap.sandbox import BubblewrapSandbox
    from crabpot.sandboxes.opening import Connect

# Nobody else of the machine runs as this one: what a sandbox signals without a pid namespace is its own.
ALONE = User(uid=61298, gid=61298)
_RUNNER = Path(crabpot.runner.__file__).parent


def same(value: Any) -> Any:
    """Change nothing."""
    return value


@dataclass(frozen=True, kw_only=True)
class Wall:
    """One wall, and how it is removed."""

    name: str
    edit: bwrap_argv.Edit = lambda argv, _scene: argv
    spec: Callable[[SandboxSpec], SandboxSpec] = same
    settings: Callable[[Settings, Bait], Settings] = lambda settings, _bait: settings
    greeting: Mapping[str, Any] = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=dict)
    runner: tuple[tuple[str, str, str], ...] = ()
    naive_mounts: bool = False
    as_root: bool = False
    fleet: Callable[[], Fleet] | None = None
    connect: Connect = connect
    gateway: type[Gateway] = Gateway
    target: type[Target] = Target
    falls: str
    """The claims that are seen to fall without it: the control of each is the wall that it stands behind."""
    spares: tuple[str, ...] = ()
    """Groups that are not tried without it, since their attacks would do harm."""


class Weakened(Bubblewrap):
    """Bubblewrap without one of its walls."""

    def __init__(self, *, state: str, wall: Wall, bait: Bait) -> None:
        super().__init__(state=state)
        self._wall, self._weak_home = wall, f"{state}/weakened"
        self._scene = bwrap_argv.Scene(bait=bait.folder, state=state)

    def _recall(self) -> None:
        """Take nothing over from the backend that has all of them."""

    async def _survey(self) -> Machine:
        machine = await super()._survey()
        assert machine.context is not None
        wall, scene, rendered = self._wall, self._scene, machine.context.walls.arguments
        walls = Walls(arguments=lambda spec, plan: wall.edit(rendered(spec, plan), scene), confined={}, namespaces=())
        context = replace(machine.context, walls=walls)
        if wall.runner:
            with tempfile.TemporaryDirectory() as folder:
                os.chmod(folder, 0o755)
                context = replace(context, bundle=await bundle.prepare(self._weak_home, mutated(wall, folder)))
        # By bwrap, which does all that it is told; a fork server knows no way to leave some of the walls out.
        assert not isinstance(machine.chosen, str)
        chosen = replace(machine.chosen, program=replace(machine.chosen.program, forks=False))
        return replace(machine, context=context, chosen=chosen)

    def _judge(self, spec: SandboxSpec, machine: Machine) -> Findings:
        found = super()._judge(spec, machine)
        return replace(found, choice=Choice(user=User(uid=0, gid=0), because="x")) if self._wall.as_root else found

    async def open(self, spec: SandboxSpec) -> BubblewrapSandbox:
        if self._wall.naive_mounts:
            # As bubblewrap before 0.12 did for a mount point below /workspace: through whatever link lies there.
            place = f"{spec.workspace}/.x"
            if os.path.islink(place):
                os.makedirs(os.path.realpath(place), exist_ok=True)
        opened = await super().open(self._wall.spec(spec))
        limits = {**opened.hello["limits"], **self._wall.greeting.get("limits", {})}
        # Without the second wall, Landlock, which stands behind several of the others and would hide that they are gone.
        opened.hello = {**opened.hello, "writable": None, **self._wall.greeting, "limits": limits}
        return opened


def mutated(wall: Wall, folder: str) -> str:
    """Copy the runner's source, changed."""
    copy = f"{folder}/runner"
    shutil.copytree(_RUNNER, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for name, old, new in wall.runner:
        path = Path(copy, name)
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{name} does not hold {old!r} once"
        path.write_text(text.replace(old, new), encoding="utf-8")
    return copy


@dataclass(frozen=True, slots=True, kw_only=True)
class WeakenedApp(App):
    """The composition root with a weakened backend in the place of the real one."""

    wall: Wall
    bait: Bait

    def registry(self, told: Any = None) -> Registry:
        backends: dict[str, Backend] = {"bubblewrap": Weakened(state=self.around.state, wall=self.wall, bait=self.bait)}
        return Registry(backends, told)


@asynccontextmanager
async def without(wall: Wall) -> AsyncIterator[Target]:
    """Open what is attacked, without one wall; what an attack that works left behind is ended."""
    async with laid_out() as bait:
        with trial.folder() as place:
            # The bundle alone: `_recall` leaves what was found of the machine with all walls where it is.
            take_over(f"{place}/state", images=False)
            plain = app.start(config=None, state=f"{place}/state", environ=os.environ)
            environ = {**plain.environ, **wall.environ}
            wired = WeakenedApp(config=None, around=plain.around, environ=environ, wall=wall, bait=bait)
            tried = trial.prepare(wired.settings(), "agent:main:x", place, wired.around, backend="bubblewrap")
            gateway = wired.gateway(settings=wall.settings(tried.settings, bait))
            if wall.fleet is not None:
                gateway.execution.fleet = wall.fleet()
            gateway.execution.opener.connect = wall.connect
            gateway.__class__ = wall.gateway
            try:
                yield wall.target(gateway, tried.session, bait, other=Target(gateway, tried.other, bait))
            finally:
                await gateway.close()
                left = [*witness.processes_with(bait.token), *witness.processes_with(f"600.{int(bait.token, 16)}")]
                for pid in left:
                    if pid != bait.process:
                        with suppress(ProcessLookupError):
                            os.kill(pid, signal.SIGKILL)


# --- the spec ---------------------------------------------------------------------------------------------------------

_HUGE = Size(1 << 40)


def unlimited(spec: SandboxSpec) -> SandboxSpec:
    """Eight times the output, and all of the rest that an attack would ask for."""
    limits = replace(
        Limits(),
        memory=_HUGE,
        cpus=64.0,
        pids=4096,
        output=Size(8 * spec.limits.output),
        tmp=Size(64 << 20),
        open_files=1 << 16,
        file_size=_HUGE,
        disk=_HUGE,
    )
    return replace(spec, limits=limits)


def _wanting(settings: Settings, _bait: Bait) -> Settings:
    """Promise so little of the processor that on a busy machine, too, more than that is had."""
    return _of_all(settings, lambda one: replace(one, limits=replace(one.limits, cpus=0.05)))


def _written_directly(settings: Settings, _bait: Bait) -> Settings:
    """Give the agent whose folder is under review that folder itself."""
    reviewed = settings.entries["reviewed"]
    entry = replace(reviewed, sandbox=replace(reviewed.sandbox, workspace="rw"))
    return replace(settings, entries={**settings.entries, "reviewed": entry})


def _listing_the_host(settings: Settings, bait: Bait) -> Settings:
    """List the host's own services among the places that the gateway connects to."""
    places = tuple(f"{f'[{host}]' if ':' in host else host}:{port}" for host, port in bait.ports)
    return _of_all(settings, lambda one: replace(one, network=Network(name="allow", allow=places)))


# As somebody told git to, who only wanted the message about ownership to be gone.
_SAFE = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}


def _unguarded(settings: Settings, _bait: Bait) -> Settings:
    """Run what leaves as it was run before there were guards."""
    bare = {
        name: replace(
            one, tools=replace(one.tools, elevated=replace(one.tools.elevated, confine="host", pass_env=tuple(_SAFE)))
        )
        for name, one in settings.entries.items()
    }
    return replace(settings, entries=bare)


def _of_all(settings: Settings, change: Callable[[Any], Any]) -> Settings:
    agents = {name: replace(one, sandbox=change(one.sandbox)) for name, one in settings.entries.items()}
    return replace(settings, entries=agents)


def leaking(spec: SandboxSpec) -> SandboxSpec:
    """All that the gateway has."""
    return replace(spec, env={**os.environ, **spec.env})


def alone(spec: SandboxSpec) -> SandboxSpec:
    """A user of its own, as whom nobody else runs."""
    return replace(spec, user=ALONE if os.geteuid() == 0 else None)


_NO_RLIMITS = {"limits": {"open_files": None, "file_size": None, "processes": None}}
_TRUSTING = {"contained": False}
_BLOCKING = "        for fd in fds[::2]:\n            posix.set_blocking(fd, False)\n"

WALLS = (
    Wall(name="second wall", falls="stands_within_a_second_wall"),
    Wall(
        name="system call filter",
        edit=bwrap_argv.no_filter,
        falls="""
        cannot_trace_the_runner is_not_root_on_the_host_either makes_every_system_call_through_a_filter
        cannot_make_a_namespace_of_its_own cannot_join_another_namespace cannot_map_users_anew cannot_mount_anything
        cannot_change_its_root cannot_open_a_file_by_its_number cannot_use_io_uring cannot_hold_the_kernel_halfway
        cannot_load_programs_or_probes_into_the_kernel cannot_use_the_kernels_keyrings cannot_command_the_machine
        cannot_make_a_system_call_by_another_entry is_told_that_unknown_calls_do_not_exist cannot_type_into_a_terminal
        cannot_type_into_the_terminal_that_it_was_given cannot_open_a_socket_below_or_beside_the_network
        cannot_have_the_kernel_speak_a_protocol_on_its_socket
        gets_what_its_description_promises
        """,
    ),
    Wall(
        name="list of places",
        settings=_listing_the_host,
        falls="cannot_talk_the_gateway_into_reaching_the_host",
    ),
    Wall(
        name="reading of streams",
        target=naive.UnreadTarget,
        falls="cannot_send_a_listed_place_a_request_for_another_host",
    ),
    Wall(
        name="keys by host",
        target=naive.KeyedTarget,
        falls="""
        cannot_have_a_key_sent_anywhere_but_to_its_host cannot_have_a_key_sent_over_tls_anywhere_but_to_its_host
        cannot_have_a_key_given_to_a_server_that_is_not_its_host cannot_have_its_own_authority_vouch_for_another_host
        """,
    ),
    Wall(
        name="rules for servers",
        target=naive.ServingTarget,
        falls="""
        cannot_see_what_another_agents_server_knows cannot_change_a_tool_of_a_server_after_approval
        cannot_call_a_denied_tool_of_a_server cannot_imitate_a_tool_of_another_server
        """,
    ),
    Wall(
        name="homes by name",
        target=naive.HomelyTarget,
        falls="cannot_find_what_an_agent_left_in_another_home",
    ),
    Wall(name="capabilities dropped", edit=bwrap_argv.capabilities_kept, falls="holds_no_capability"),
    Wall(
        name="pid namespace",
        edit=bwrap_argv.shared_pids,
        spec=alone,
        greeting=_TRUSTING,
        falls="""
        cannot_see_the_hosts_processes cannot_signal_a_process_of_the_host leaves_nothing_running_when_the_sandbox_ends
        cannot_see_or_signal_a_process_of_another_sandbox
        """,
    ),
    Wall(
        name="network namespace",
        edit=bwrap_argv.without("--unshare-net"),
        falls="""
        shares_no_namespace_with_the_host has_no_network_interface_but_loopback cannot_connect_to_the_hosts_loopback
        has_no_way_to_the_world cannot_reach_an_abstract_socket_of_the_host cannot_be_heard_on_the_host
        cannot_phone_home_from_a_server
        """,
    ),
    Wall(
        name="ipc namespace",
        edit=bwrap_argv.without("--unshare-ipc"),
        falls="cannot_reach_the_hosts_shared_memory cannot_meet_another_sandbox_in_shared_memory_or_sockets",
    ),
    Wall(
        name="uts namespace",
        edit=bwrap_argv.without("--unshare-uts", "--hostname"),
        falls="is_told_nothing_of_another_sandbox_by_its_own_name",
    ),
    Wall(
        name="read-only root",
        edit=bwrap_argv.without("--remount-ro"),
        falls="cannot_write_to_the_system has_no_writable_mount_but_its_own cannot_change_the_runner",
    ),
    Wall(
        name="host's folders out of sight",
        edit=bwrap_argv.hosts_folders,
        falls="""
        cannot_read_a_file_of_the_host cannot_see_the_homes_of_the_host cannot_see_the_hosts_own_folders
        cannot_reach_a_socket_file_of_the_host cannot_read_a_file_of_the_host_by_a_path cannot_search_the_host
        cannot_write_a_file_of_the_host_by_a_path cannot_read_a_file_of_the_host_from_a_server
        """,
    ),
    Wall(name="small /etc", edit=bwrap_argv.hosts_etc, falls="sees_only_a_small_etc_of_its_own cannot_resolve_a_name"),
    Wall(name="small /dev", edit=bwrap_argv.hosts_devices, falls="finds_no_device_of_the_host"),
    Wall(
        name="masks in /proc",
        edit=bwrap_argv.no_masks,
        falls="cannot_read_what_proc_tells_of_the_kernel cannot_change_a_setting_of_the_kernel",
    ),
    Wall(
        name="noexec and size of /tmp",
        edit=bwrap_argv.plain_tmp,
        falls="""
        cannot_run_a_program_from_the_temporary_folder has_a_private_temporary_folder_without_programs_or_devices
        cannot_fill_the_temporary_folder_beyond_its_size
        """,
    ),
    Wall(
        name="limits",
        spec=unlimited,
        settings=_wanting,
        greeting=_NO_RLIMITS,
        falls="""
        cannot_raise_a_limit_of_its_own cannot_start_more_processes_than_its_limit cannot_fill_the_disk
        cannot_start_more_threads_than_its_limit harms_nobody_by_a_fork_bomb cannot_write_a_file_larger_than_its_limit
        cannot_open_more_files_than_its_limit cannot_take_more_of_the_processor_than_its_share
        cannot_take_more_memory_than_its_limit cannot_take_more_memory_than_its_limit_by_many_processes
        cannot_hide_memory_in_files_without_a_name cannot_flood_the_gateway_with_output
        cannot_flood_the_gateway_with_a_streams_worth_of_errors
        """,
    ),
    Wall(
        name="limits and own terminals",
        edit=bwrap_argv.hosts_devices,
        spec=unlimited,
        settings=_wanting,
        greeting=_NO_RLIMITS,
        falls="cannot_use_up_the_terminals_of_the_host",
    ),
    Wall(name="clean environment", spec=leaking, falls="finds_only_the_promised_environment"),
    Wall(
        name="mount points without links",
        naive_mounts=True,
        falls="cannot_have_the_host_follow_a_link_planted_in_the_workspace",
    ),
    Wall(
        name="runner not dumpable",
        runner=(("core/prctl.py", "(_PR_SET_DUMPABLE, 0)", "(_PR_SET_DUMPABLE, 1)"),),
        falls="""
        cannot_read_the_runners_memory cannot_take_the_runners_end_of_the_wire
        cannot_open_a_descriptor_of_another_process
        """,
    ),
    Wall(
        name="end of a call's processes",
        runner=(
            ("exec/reaper.py", "return not self._childless and bool(self._tops(tree, proc.parents()))", "return False"),
            (
                "exec/reaper.py",
                "        if self._contained and len(self._trees) == 1:\n",
                "        return\n        if False:\n",
            ),
        ),
        falls="leaves_nothing_running_when_a_call_ends cannot_run_longer_than_its_time_limit",
    ),
    Wall(
        name="descriptors closed",
        runner=(("exec/spawn.py", _BLOCKING, f"{_BLOCKING}        posix.set_inheritable(fds[0], True)\n"),),
        falls="inherits_no_descriptor",
    ),
    Wall(
        name="few background processes",
        spec=unlimited,
        settings=_wanting,
        runner=(("exec/process.py", "_MAX_LIVE = ", "_MAX_LIVE = 1000 + "),),
        falls="cannot_start_more_background_processes_than_are_kept",
    ),
    Wall(
        name="file tools that stay inside",
        edit=bwrap_argv.hosts_folders,
        runner=(("files/context.py", "_hold(path), confined=True)", "_hold(path), confined=False)"),),
        falls="""
        cannot_patch_a_file_of_the_host cannot_reach_the_host_through_a_link_in_the_workspace
        cannot_start_a_command_in_a_folder_of_the_host cannot_win_a_race_against_the_file_tools
        """,
    ),
    Wall(
        name="all of them, as root",
        edit=bwrap_argv.privileged,
        as_root=True,
        greeting=_TRUSTING,
        spares=("resources", "system calls", "gateway under a hostile runner"),
        falls="""
        cannot_read_the_hosts_password_hashes cannot_see_crabpots_own_state_or_configuration is_not_root
        cannot_name_a_program_that_the_kernel_starts cannot_press_the_kernels_emergency_keys
        cannot_change_anything_in_sys cannot_make_a_device_node cannot_read_or_write_a_file_of_another_sandbox
        cannot_become_another_user gains_nothing_by_a_file_capability cannot_put_itself_before_others
        cannot_answer_for_itself cannot_load_a_kernel_module_or_another_kernel has_no_terminal_of_the_callers
        """,
    ),
    Wall(
        name="layer",
        settings=_written_directly,
        falls="""
        cannot_change_a_folder_under_review cannot_have_a_host_command_work_in_a_folder_under_review
        """,
    ),
    Wall(
        name="detached layer",
        edit=lambda argv, _scene: [word for word in argv if not word.startswith("detach=")],
        falls="cannot_reach_a_layer_but_through_its_folder",
    ),
    Wall(
        name="rules of the gateway",
        gateway=naive.NaiveGateway,
        # With what one agent may have by default, which is more than its own settings say.
        fleet=Fleet,
        falls="""
        cannot_act_as_another_agent_by_a_key_that_names_none
        is_not_placed_on_the_host_by_a_token_that_was_not_made_for_it
        cannot_open_more_sandboxes_than_an_agent_may_have
        cannot_name_its_own_place_or_sender cannot_use_a_denied_tool_by_another_name
        cannot_start_anything_that_is_less_confined runs_nothing_when_its_sandbox_cannot_be_made
        cannot_leave_by_a_command_that_only_looks_allowed
        cannot_leave_with_an_environment_an_input_or_a_terminal_of_its_own
        """,
    ),
    Wall(
        name="judgement of configurations and plans",
        target=naive.NaiveTarget,
        falls="""
        cannot_be_given_a_folder_of_the_hosts_system cannot_be_given_a_container_runtimes_socket
        cannot_be_given_a_home_or_the_keys_in_it cannot_be_given_crabpots_own_files cannot_have_a_wall_switched_off
        cannot_have_a_mount_over_what_it_stands_on cannot_join_another_containers_network
        cannot_have_a_host_allowed_by_a_spelling_that_hides_it cannot_be_configured_from_its_own_workspace
        cannot_have_an_empty_or_unknown_word_taken_for_everything never_gets_a_sandbox_of_another_configuration
        cannot_use_an_answer_twice cannot_use_an_answer_for_something_else cannot_swap_the_folder_that_was_agreed_to
        cannot_have_a_program_of_its_own_run_on_the_host cannot_have_the_host_run_what_it_planted_for_git
        cannot_have_another_build_run_by_what_was_allowed_for_longer cannot_push_more_than_was_shown
        cannot_have_the_hooks_of_a_remote_that_it_wrote_run cannot_push_what_attacks_a_git_folder
        cannot_have_a_listening_runner_write_beyond_its_roots
        cannot_have_an_apply_follow_a_link cannot_have_an_apply_bring_what_the_host_would_run
        """,
    ),
    Wall(
        name="guard",
        settings=_unguarded,
        environ=_SAFE,
        falls="""
        cannot_write_beyond_its_folder_by_a_command_that_left
        cannot_have_host_git_write_through_a_link_that_it_planted
        cannot_have_a_repository_that_it_hid_run_programs_beyond_its_folder
        cannot_have_host_git_write_a_file_that_its_words_name
        cannot_reach_a_socket_of_the_host_by_a_command_that_left
        cannot_read_crabpots_own_files_or_keys_by_a_command_that_left
        cannot_see_or_signal_a_process_of_the_host_by_a_command_that_left
        """,
    ),
    Wall(
        name="checks of the wire",
        connect=naive.connect,
        falls="""
        cannot_break_the_gateway_by_frames_of_any_size cannot_break_the_gateway_by_what_is_no_frame
        cannot_answer_for_another_call cannot_forge_a_decision_of_the_gateway cannot_hold_upcalls_beyond_measure
        cannot_flood_the_gateway_from_the_runners_place
        """,
    ),
    Wall(
        name="forgetting of lost sandboxes",
        fleet=naive.StubbornFleet,
        falls="harms_only_itself_by_killing_the_runner",
    ),
    Wall(
        name="deadline of runners",
        edit=bwrap_argv.shared_pids,
        spec=alone,
        greeting=_TRUSTING,
        connect=partial(connect, grace_s=14.0),
        falls="cannot_hold_a_call_by_silence cannot_hold_the_gateway_by_stopping_the_runner",
    ),
)

# Where there is no sandbox at all, a session on the host: what only that takes away.
ON_THE_HOST = """
can_never_gain_privileges_by_running_a_program gains_nothing_by_a_setuid_program
cannot_hard_link_a_file_from_outside_the_workspace
"""
