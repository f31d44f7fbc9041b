"""What is attacked in place of a session: its own settings on throw-away folders."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from crabpot.decide import placement, sessions
from crabpot.settings import MIB, Gateway, Settings, Size, Tools, camel
from crabpot.spec import binds, hardening
from crabpot.spec.build import build
from crabpot.state.removal import remove_tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crabpot.settings import Backend, Limits
    from crabpot.spec.binds import Surroundings

_AGENT, _NEIGHBOUR = "verify", "neighbour"

# Four more agents: one whose sandbox cannot be made, one that may use almost nothing, one on the host, and one whose
# folder is under review.
UNMAKEABLE, DENIED, ON_HOST, REVIEWED = "agent:unmakeable:x", "agent:denied:x", "agent:onhost:x", "agent:reviewed:x"
# Few enough to open them all.
_MOST_SANDBOXES = 6
_DENIED_TOOLS = ("exec", "process", "write", "group:automation")
_PLACE = "/var/tmp"  # noqa: S108  made for folders of a random name; /tmp may be memory
# For commands that an agent could ask for; a shell script stands for every build file.
_PATTERNS = ("git push *", "git *", "sh attack.sh")

# Limits at which an attack that works does no harm, and one that is stopped is stopped soon.
_SMALL = {
    "memory": Size(256 * MIB),
    "cpus": 0.5,
    "pids": 64,
    "output": Size(MIB // 4),
    "tmp": Size(16 * MIB),
    "open_files": 256,
    "file_size": Size(64 * MIB),
    "disk": Size(96 * MIB),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Settings under which two sessions get what one session of the user's would: the attacked, and its neighbour."""

    settings: Settings
    spec_hash: str
    # The limits that the attacked session has lower than the user's own: name, own, attacked.
    lowered: tuple[tuple[str, str, str], ...] = ()
    session: str = f"agent:{_AGENT}:attacked"
    other: str = f"agent:{_NEIGHBOUR}:quiet"


def host_because(settings: Settings, session: str) -> str | None:
    """Return why a session runs on the host, where there is nothing to attack; None if it is sandboxed."""
    key = sessions.parse(session, default_agent=settings.default_agent)
    placed = placement.decide(key, settings.agent(key.agent))
    return f"{placed.because} ({placed.source})" if placed.answer.scope_key is None else None


@contextmanager
def folder() -> Iterator[str]:
    """Make the folder of a trial, and remove it afterwards."""
    place = _PLACE if os.access(_PLACE, os.W_OK) else None
    made = os.path.realpath(tempfile.mkdtemp(prefix="crabpot-trial-", dir=place))
    if os.geteuid() == 0:
        os.chmod(made, 0o711)  # noqa: S103  a sandbox of root's is somebody else, and must get through
    try:
        yield made
    finally:
        remove_tree(made)


def prepare(
    settings: Settings, session: str, place: str, around: Surroundings, *, backend: Backend | None = None
) -> Trial:
    """Return a session's own sandbox settings for two agents with workspaces of their own below `place`.

    All that describes the sandbox stays as it is, except for its name, and for limits above those at which an attack
    is harmless: a limit is kept by the same means whatever its value. The session's tool policy is lifted, since it
    is the sandbox that is attacked, and not the policy before it. ValueError if that cannot be described.
    """
    key = sessions.parse(session, default_agent=settings.default_agent)
    agent = settings.agent(key.agent)
    own = build(agent, placement.decide(key, agent).answer.scope_key or session, around)
    sandbox = replace(
        agent.sandbox,
        mode="all",
        scope="session",
        warm=0,
        # Host commands are tried as the gateway's own user: another user would be a wall of its own.
        host_user=None,
        ssh_key=None,
        backend=backend or agent.sandbox.backend,
        limits=_lowered(agent.sandbox.limits),
    )
    elevated = agent.tools.elevated
    tools = Tools(
        elevated=replace(
            elevated,
            enabled=True,
            require_approval=True,
            allow_from=None,
            # First, and guarded: what a pattern of the session opens on purpose is not what is attacked.
            patterns=(*_PATTERNS, *elevated.patterns),
            confine="guarded",
        )
    )
    made = {}
    for name in (_AGENT, _NEIGHBOUR):
        workspace = f"{place}/{name}"
        if sandbox.workspace != "none":
            _make_like(workspace, binds.expand(agent.workspace, around.home))
        made[name] = replace(agent, id=name, workspace=workspace, sandbox=sandbox, tools=tools)
    made["unmakeable"] = replace(
        made[_AGENT], id="unmakeable", sandbox=replace(sandbox, binds=(*sandbox.binds, f"{place}/missing:/missing"))
    )
    made["denied"] = replace(made[_AGENT], id="denied", tools=replace(tools, deny=_DENIED_TOOLS))
    made["reviewed"] = replace(
        made[_AGENT], id="reviewed", workspace=f"{place}/reviewed", sandbox=replace(sandbox, workspace="review")
    )
    _make_for_somebody(f"{place}/reviewed")
    made["onhost"] = replace(made[_AGENT], id="onhost", sandbox=replace(sandbox, mode="off"))
    few = Gateway(max_sandboxes_per_agent=_MOST_SANDBOXES)
    tried = Settings(defaults=made[_AGENT], entries=made, gateway=few, default_agent=_AGENT, file=settings.file)
    return Trial(settings=tried, spec_hash=own.hash, lowered=_differing(agent.sandbox.limits, sandbox.limits))


def _lowered(limits: Limits) -> Limits:
    small: dict[str, Any] = {name: min(most, getattr(limits, name)) for name, most in _SMALL.items()}
    if limits.memory_reservation is not None:
        small["memory_reservation"] = Size(min(limits.memory_reservation, small["memory"]))
    return replace(limits, **small)


def _differing(own: Limits, tried: Limits) -> tuple[tuple[str, str, str], ...]:
    pairs = ((camel(name), getattr(own, name), getattr(tried, name)) for name in (*_SMALL, "memory_reservation"))
    return tuple((name, _written(one), _written(other)) for name, one, other in pairs if one != other)


def _written(value: object) -> str:
    return value.written() if isinstance(value, Size) else f"{value:g}" if isinstance(value, float) else str(value)


def _make_for_somebody(folder: str) -> None:
    """Make a folder of this user's own or, for root, of a user whom a sandbox can run as."""
    os.mkdir(folder, 0o755)
    if os.geteuid() == 0:
        os.chown(folder, hardening.NOBODY, hardening.NOBODY)


def _make_like(folder: str, model: str) -> None:
    """Make a folder with the owner and mode of another: the user of a sandbox depends on it."""
    os.mkdir(folder, 0o700)
    try:
        found = os.stat(model)
    except OSError:
        return
    if os.geteuid() == 0:
        os.chown(folder, found.st_uid, found.st_gid)
    os.chmod(folder, found.st_mode & 0o777)
