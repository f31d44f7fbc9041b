"""What every test stands on: how hard hypothesis tries, and a configuration loaded the way the program loads it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadGroupScheduling

from crabpot.config.load import from_text
from crabpot.errors import ConfigError
from crabpot.spec.binds import Surroundings

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdist.remote import Producer

    from crabpot.settings import AgentSettings, Settings

# A busy machine is no failure of a property, so nothing here looks at the clock.
_BUSY = [HealthCheck.too_slow]
settings.register_profile("quick", max_examples=60, deadline=None, suppress_health_check=_BUSY)
settings.register_profile("thorough", max_examples=3000, deadline=None, suppress_health_check=_BUSY)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


class ByFile(LoadGroupScheduling):
    """A file stays with one worker, for what its tests share; `xdist_group` cuts a long file up, or keeps several together."""

    def _split_scope(self, nodeid: str) -> str:
        scope = super()._split_scope(nodeid)
        return nodeid.partition("::")[0] if scope == nodeid else scope


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByFile:
    """Hand tests out by file, in the order in which they were collected."""
    return ByFile(config, log)


@pytest.fixture(scope="session")
def around(tmp_path_factory: pytest.TempPathFactory) -> Surroundings:
    """Give a home of its own, with Crabpot's files where they usually are."""
    home = str(tmp_path_factory.mktemp("home"))
    return Surroundings(home=home, state=f"{home}/.local/state/crabpot", config=f"{home}/.config/crabpot/crabpot.json5")


@pytest.fixture(scope="session")
def load_text(around: Surroundings) -> Callable[..., Settings]:
    """Load a text as if it stood in the usual file."""

    def load(text: str, **environ: str) -> Settings:
        return from_text(text, around.config, around, environ)

    return load


@pytest.fixture(scope="session")
def agent_of(load_text: Callable[..., Settings]) -> Callable[..., AgentSettings]:
    """Load a text and give one agent's settings."""

    def agent(text: str, name: str = "main") -> AgentSettings:
        return load_text(text).agent(name)

    return agent


@pytest.fixture(scope="session")
def refused(load_text: Callable[..., Settings]) -> Callable[..., str]:
    """Load a text that must not load, and give what is said about it."""

    def refuse(text: str, **environ: str) -> str:
        with pytest.raises(ConfigError) as caught:
            load_text(text, **environ)
        return str(caught.value)

    return refuse
