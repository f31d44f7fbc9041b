"""What an engine's refusal means to a person: the engine's message, and what to do next. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from crabpot.errors import SandboxUnavailable

if TYPE_CHECKING:
    from crabpot.backends.docker.engine import EngineError
    from crabpot.spec.spec import SandboxSpec

_LONGEST = 600

# The first match applies, searched in lower case.
_ADVICE = (
    (
        r"no space left|disk quota exceeded",
        "the engine's disk is full: docker system df shows what fills it, docker system prune frees it",
    ),
    (r"bind source path does not exist: (\S+)", "a folder to mount vanished: make it, or remove the bind"),
    (
        r"(unknown|invalid) runtime",
        "the engine does not know that runtime: install it and name it in daemon.json, or remove docker.runtime",
    ),
    (
        r"apparmor",
        "the engine could not apply the AppArmor profile: load it with apparmor_parser -r, or remove docker.apparmor",
    ),
    (
        r"seccomp",
        "the engine could not apply the seccomp profile: fix the file of docker.seccomp, or remove that setting",
    ),
    (r"network .* not found", "docker network create makes it; or choose another network"),
    (r"minimum memory limit", "raise limits.memory"),
    (r"range of cpus|nanocpus", "lower limits.cpus"),
    (r"no such image", "crabpot image build, or name another in docker.image"),
    (
        r"cannot allocate memory|resource temporarily unavailable|too many open files",
        "the machine is out of memory, processes or files",
    ),
    (r"did not answer|does not answer|hung up", "once it is up again the next call opens a new sandbox"),
)


def explain(error: EngineError, spec: SandboxSpec | None = None) -> SandboxUnavailable:
    """Turn the engine's error into one that says what to do."""
    words = str(error)
    said = words if len(words) <= _LONGEST else f"{words[:_LONGEST]}…"
    advice = next((text for pattern, text in _ADVICE if re.search(pattern, words.lower())), None)
    which = "" if spec is None else f" {spec.name}"
    return SandboxUnavailable(f"docker could not open the sandbox{which}: {said}{f' ({advice})' if advice else ''}")
