"""A spec that is described after that of another scope is what it would be if it were built alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from crabpot.settings import AgentSettings, Limits, Sandbox
from crabpot.spec.binds import BindRefused
from crabpot.spec.build import build
from crabpot.spec.described import describe

if TYPE_CHECKING:
    from pathlib import Path

    from crabpot.spec.binds import Surroundings
    from crabpot.spec.spec import SandboxSpec

KEYS = ("agent:main:x", "agent:main:y", f"agent:main:e2b-{'0' * 20}", f"agent:main:e2b-{'1' * 20}", "shared", "a key")
SANDBOXES: tuple[dict[str, Any], ...] = (
    {},
    {"workspace": "ro"},
    {"workspace": "rw"},
    {"workspace": "review"},
    {"workspace": "rw", "workspace_at": "same"},
    {"binds": ("~/data:/data",)},
    {"programs": ("/opt/tool",)},
    {"home": "claude", "env": {"A": "1"}, "host_commands": ("git",), "user": "1000"},
    {"scope": "shared"},
    {"backend": "socket", "socket": "/run/runner.sock"},
)


@pytest.mark.parametrize("chosen", SANDBOXES)
def test_a_spec_after_another_is_the_one_that_is_built_alone(chosen: dict[str, Any], around: Surroundings) -> None:
    agent = AgentSettings(id="main", sandbox=Sandbox(**chosen))
    described = None
    for key in (*KEYS, *KEYS[::-1]):
        described = describe(agent, key, around, described)
        alone = build(agent, key, around)
        assert described.spec == alone
        # In both orders: each is remembered once it was asked for.
        assert (described.spec.family, described.spec.hash) == (alone.family, alone.hash)


def test_settings_that_changed_leave_nothing_of_the_spec_before(around: Surroundings) -> None:
    agent = AgentSettings(id="main")
    before = describe(agent, "agent:main:x", around, None)
    assert before.spec.hash
    changed = replace(agent, sandbox=replace(agent.sandbox, limits=Limits(pids=99)))
    spec = describe(changed, "agent:main:x", around, before).spec
    assert spec == build(changed, "agent:main:x", around)
    assert spec.family != before.spec.family


def test_a_link_that_leads_elsewhere_since_is_followed_or_refused_again(around: Surroundings, tmp_path: Path) -> None:
    link = tmp_path / "link"
    for place in ("one", "two"):
        (tmp_path / place).mkdir()
    for chosen in (Sandbox(binds=(f"{link}:/data",)), Sandbox(programs=(str(link),)), Sandbox(workspace="ro")):
        link.symlink_to(tmp_path / "one")
        agent = AgentSettings(id="main", workspace=str(link), sandbox=chosen)
        before = describe(agent, "agent:main:x", around, None)
        link.unlink()
        link.symlink_to(tmp_path / "two")
        after = describe(agent, "agent:main:y", around, before)
        assert str(tmp_path / "one") in _sources(before.spec)
        assert str(tmp_path / "two") in _sources(after.spec)
        assert before.spec.family != after.spec.family
        link.unlink()
        link.symlink_to("/etc")
        with pytest.raises(BindRefused):
            describe(agent, "agent:main:z", around, after)
        link.unlink()


def _sources(spec: SandboxSpec) -> tuple[str | None, ...]:
    return (spec.agent_workspace, *(mount.source for mount in spec.mounts))
