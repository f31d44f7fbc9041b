"""What a pattern may grant its commands on the host: writable places, and visible credentials."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabpot.settings import Pattern
from crabpot.spec import binds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crabpot.settings import Elevated
    from crabpot.spec.binds import Surroundings

# What each name in `credentials` stands for, in the home; "ssh" and "docker" have a socket too.
NAMED = {
    "ssh": (".ssh/config", ".ssh/config.d", ".ssh/known_hosts", ".ssh/known_hosts2"),
    "git": (".gitconfig", ".config/git", ".git-credentials"),
    "docker": (".docker/config.json", ".docker/contexts"),
}


def problems(elevated: Elevated, around: Surroundings) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the grants of patterns, as (merged path, message)."""
    for index, pattern in enumerate(elevated.patterns):
        if isinstance(pattern, Pattern):
            path = f"tools.elevated.patterns[{index}]"
            for at, place in enumerate(pattern.writes):
                if wrong := _problem_with_writing(place, around):
                    yield f"{path}.writes[{at}]", wrong
            for at, name in enumerate(pattern.credentials):
                if name not in NAMED and not _is_path(name):
                    known = ", ".join(NAMED)
                    yield f"{path}.credentials[{at}]", f'"{name}" is none of {known}, nor a path (/… or ~/…)'


def places(elevated: Elevated, around: Surroundings) -> Iterator[tuple[str, str]]:
    """Yield the places that patterns make writable, as (merged path, folder)."""
    for index, pattern in enumerate(elevated.patterns):
        for at, place in enumerate(pattern.writes if isinstance(pattern, Pattern) else ()):
            yield f"tools.elevated.patterns[{index}].writes[{at}]", binds.normal(binds.expand(place, around.home))


def _problem_with_writing(place: str, around: Surroundings) -> str | None:
    if not _is_path(place):
        return f'"{place}" must be an absolute path or start with ~/'
    path = binds.expand(place, around.home)
    return binds.refuse_workspace(path, around) or binds.refuse_writing(path, around)


def _is_path(text: str) -> bool:
    return text.startswith(("/", "~/"))
