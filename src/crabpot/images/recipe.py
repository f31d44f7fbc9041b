"""What goes into one image, decided: groups, extra packages, and the user. Pure."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from crabpot.images import packages
from crabpot.settings import MIB
from crabpot.spec import hardening

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crabpot.images.packages import Contents
    from crabpot.settings import PackageGroup
    from crabpot.spec.spec import User

# On images, and so on the containers made from them: none of the labels that say whose container it is.
RECIPE, GROUPS, EXTRA, USER = "crabpot.image", "crabpot.image.groups", "crabpot.image.extra", "crabpot.image.user"

_A_PACKAGE = 40 * MIB
# The file that makes pip refuse to install (PEP 668). Removing it does no harm in the sandbox: the root is read-only
# there, and pip uses the home instead, which is the workspace.
_MARKERS = "/usr/lib/python3*/EXTERNALLY-MANAGED"


class Layer(NamedTuple):
    """Packages that are installed in one step."""

    what: str
    debian: tuple[str, ...]
    python: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """One image. Extra packages are in the order in which they were written."""

    groups: tuple[PackageGroup, ...]
    extra: tuple[str, ...]
    user: User

    def _chosen(self) -> Iterator[tuple[PackageGroup, Contents]]:
        for name, contents in packages.GROUPS.items():
            if name == packages.ALWAYS or name in self.groups:
                yield name, contents

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Return the steps: groups in the catalogue's order, then each extra package alone; one more is one step."""
        grouped = [Layer(f"{name}: {one.what}", one.debian, one.python) for name, one in self._chosen()]
        return (*grouped, *(Layer("as requested", (name,)) for name in dict.fromkeys(self.extra)))

    @property
    def debian(self) -> tuple[str, ...]:
        """Return every Debian package, once."""
        return tuple(dict.fromkeys(name for layer in self.layers for name in layer.debian))

    @property
    def python(self) -> tuple[str, ...]:
        """Return every PyPI package, once."""
        return tuple(dict.fromkeys(name for layer in self.layers for name in layer.python))

    @property
    def size_bytes(self) -> int:
        """Estimate how large the image will be."""
        return sum(one.size for _, one in self._chosen()) + _A_PACKAGE * len(self.extra)

    @property
    def digest(self) -> str:
        """Return a digest of all that is in the recipe."""
        said = json.dumps([self.debian, self.python, self.finish, packages.SUITE], separators=(",", ":"))
        return hashlib.sha256(said.encode()).hexdigest()[:16]

    @property
    def finish(self) -> tuple[str, ...]:
        """Return the last commands, run as root: make pip usable, and add a user with the host's ids to passwd."""
        uid, gid, home, name = self.user.uid, self.user.gid, hardening.WORKSPACE, hardening.USER
        # A base image may have the ids under another name. A log of logins would grow with the id.
        options = "--non-unique --no-log-init --no-create-home --shell /bin/bash"
        return (
            f"rm -f {_MARKERS}",
            f"(userdel {name}; groupdel {name}; true) 2>/dev/null",
            f"groupadd --non-unique --gid {gid} {name}",
            f"useradd {options} --uid {uid} --gid {gid} --home-dir {home} {name}",
            f"install --directory --owner={uid} --group={gid} --mode=0755 {home}",
            *(_mend(name, script) for name, script in packages.MENDED.items() if name in self.debian),
        )

    @property
    def labels(self) -> dict[str, str]:
        """Return the labels by which an image is found again."""
        return {
            RECIPE: self.digest,
            GROUPS: ",".join(name for name, _ in self._chosen()),
            EXTRA: ",".join(self.extra),
            USER: f"{self.user.uid}:{self.user.gid}",
        }


def _mend(program: str, script: str) -> str:
    path = f"/usr/local/bin/{program}"
    return f"printf '%s\\n' '#!/bin/sh' '{script}' >{path} && chmod 0755 {path}"
