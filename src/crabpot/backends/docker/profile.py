"""The seccomp profile of a container: Crabpot's own, or a file that the configuration names."""

from __future__ import annotations

import json
from functools import cache

from crabpot.backends.docker.render import seccomp_text
from crabpot.errors import SandboxUnavailable
from crabpot.spec.seccomp.profile import docker_profile
from crabpot.state.untrusted import read_regular

_LARGEST = 4 * 1024**2


def problem(setting: str) -> str | None:
    """Return why a profile cannot be used, or None."""
    try:
        read(setting)
    except SandboxUnavailable as refusal:
        return str(refusal)
    return None


def read(setting: str) -> str:
    """Return the profile as the engine takes it, or raise SandboxUnavailable."""
    if setting == "default":
        return _own()
    if not setting.startswith("/"):
        raise SandboxUnavailable(f'docker.seccomp is "default" or the absolute path of a profile, not "{setting}"')
    try:
        document = json.loads(read_regular(setting, most=_LARGEST, follow=True))
    except (OSError, ValueError, RecursionError) as error:
        raise SandboxUnavailable(f"the seccomp profile {setting} cannot be read: {error}") from None
    if not isinstance(document, dict) or not isinstance(document.get("defaultAction"), str):
        raise SandboxUnavailable(f"{setting} is not a seccomp profile: it has no defaultAction")
    return seccomp_text(document)


@cache
def _own() -> str:
    return seccomp_text(docker_profile())
