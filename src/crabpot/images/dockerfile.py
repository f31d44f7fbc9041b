"""A recipe as a Dockerfile that needs nothing beside it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabpot.images import packages
from crabpot.spec import hardening

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crabpot.images.recipe import Layer, Recipe

_HEAD = """\
# An image for sandboxes, as `crabpot image build` makes it. By hand:
#   crabpot render dockerfile | docker build --tag crabpot-sandbox:latest -
# Each group of packages is a layer, and so is each further package: one more does not rebuild those before it."""


def text(recipe: Recipe, *, base: str = packages.BASE) -> str:
    """Return the file."""
    return "\n".join(_lines(recipe, base)) + "\n"


def _lines(recipe: Recipe, base: str) -> Iterator[str]:
    yield _HEAD
    yield f"ARG BASE={base}"
    yield "FROM ${BASE}"
    yield "USER root"
    yield f"ENV LANG={hardening.LANG}"
    for layer in recipe.layers:
        yield from _layer(layer)
    yield ""
    yield "# pip without PEP 668's refusal; a user with the host's ids, whom ssh finds in passwd; a home of its own"
    yield "RUN " + " \\\n && ".join(recipe.finish)
    yield "LABEL " + " \\\n      ".join(f'{name}="{value}"' for name, value in recipe.labels.items())
    yield f"USER {recipe.user.uid}:{recipe.user.gid}"
    yield f"WORKDIR {hardening.WORKSPACE}"
    yield 'CMD ["sleep", "infinity"]'


def _layer(layer: Layer) -> Iterator[str]:
    yield ""
    yield f"# {layer.what}"
    yield "RUN apt-get update \\"
    yield " && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \\"
    yield "".join(f"      {name} \\\n" for name in layer.debian) + " && rm -rf /var/lib/apt/lists/*"
    if layer.python:
        yield f"RUN python3 -m pip install --no-cache-dir --break-system-packages {' '.join(layer.python)}"
