"""The images that Crabpot made, by their labels."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crabpot.images import recipe

if TYPE_CHECKING:
    from crabpot.backends.docker.engine import Engine


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """One image, as its labels and the engine describe it."""

    # None if it lost its name: another of the same name was made since.
    name: str | None
    id: str
    created: int
    size_bytes: int
    groups: tuple[str, ...]
    extra: tuple[str, ...]
    user: str

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "name": self.name,
            "id": self.id,
            "created": self.created,
            "size": self.size_bytes,
            "groups": list(self.groups),
            "extra": list(self.extra),
            "user": self.user,
        }


async def made(engine: Engine) -> list[Made]:
    """Return them, newest first."""
    found = await engine.get("/images/json", {"filters": json.dumps({"label": [recipe.RECIPE]})})
    listed = [_made(image, name) for image in found for name in _names(image)]
    return sorted(listed, key=lambda one: -one.created)


def _names(image: dict[str, Any]) -> list[str | None]:
    # How engines before 25 name an image that has no name.
    return [name for name in image.get("RepoTags") or () if name != "<none>:<none>"] or [None]


def _made(image: dict[str, Any], name: str | None) -> Made:
    labels = image.get("Labels") or {}
    return Made(
        name=name,
        id=str(image["Id"]),
        created=int(image.get("Created") or 0),
        size_bytes=int(image.get("Size") or 0),
        groups=_words(labels.get(recipe.GROUPS)),
        extra=_words(labels.get(recipe.EXTRA)),
        user=str(labels.get(recipe.USER, "")),
    )


def _words(text: str | None) -> tuple[str, ...]:
    return tuple(text.split(",")) if text else ()
