"""The composition root: the only place that wires settings, state and machine together."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from crabpot.spec.binds import Surroundings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crabpot.explain import Explainer
    from crabpot.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """One invocation: which configuration, which state, on which machine."""

    config: str | None
    around: Surroundings
    environ: Mapping[str, str]

    def settings(self) -> Settings:
        """Load the configuration, or raise ConfigError."""
        from crabpot.config.load import load  # noqa: PLC0415  pydantic, which --help must not pay for

        return load(self.config, self.around, self.environ)

    def explainer(self) -> Explainer:
        """Wire what answers `explain`."""
        from crabpot.explain import Explainer  # noqa: PLC0415  as above

        return Explainer(settings=self.settings(), around=self.around)


def start(*, config: str | None, state: str | None, environ: Mapping[str, str]) -> App:
    """Find the configuration and the state folder, without reading either."""
    from crabpot.config.places import find_config, find_state  # noqa: PLC0415

    home = environ.get("HOME") or os.path.expanduser("~")
    file = find_config(config, environ, home)
    around = Surroundings(
        home=home,
        state=find_state(state, environ, home),
        config=file or "",
        runtime_sockets=_runtime_sockets(environ),
    )
    return App(config=file, around=around, environ=environ)


def _runtime_sockets(environ: Mapping[str, str]) -> tuple[str, ...]:
    hosts = [environ.get(name, "") for name in ("DOCKER_HOST", "CONTAINER_HOST")]
    return tuple(host.removeprefix("unix://") for host in hosts if host.startswith("unix:///"))
