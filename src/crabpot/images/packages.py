"""The packages of an image, by group: data, in the order of their layers. What changes least comes first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from crabpot.settings import MIB, Size

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crabpot.settings import PackageGroup

SUITE = "bookworm"
BASE = "debian:bookworm-slim"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What one group brings: Debian packages, PyPI packages that Debian lacks, and about how much room they take."""

    what: str
    debian: tuple[str, ...]
    python: tuple[str, ...] = ()
    size: Size


# Left out on purpose: texlive, whose post-install step takes more memory than most machines have, and what needs a
# screen.
GROUPS: Mapping[PackageGroup, Contents] = {
    "minimal": Contents(
        what="what the tools of a session need, and what every agent expects",
        debian=(
            *("bash", "ca-certificates", "coreutils", "curl", "diffutils", "file", "findutils", "git", "jq", "less"),
            *("openssh-client", "patch", "procps", "python3", "ripgrep", "sed", "tar", "unzip", "util-linux", "wget"),
            *("xz-utils", "zip"),
        ),
        size=Size(230 * MIB),
    ),
    "docs": Contents(
        what="conversion of documents from one format to another",
        debian=("pandoc", "poppler-utils"),
        size=Size(230 * MIB),
    ),
    "media": Contents(
        what="sound, images and video; cairo and pango with their development files",
        debian=("ffmpeg", "imagemagick", "libcairo2-dev", "libpango1.0-dev", "pkg-config"),
        size=Size(550 * MIB),
    ),
    "dev": Contents(
        what="languages and their package managers, a compiler, and capsh and stress to try the walls with",
        debian=(
            *("build-essential", "libcap2-bin", "nodejs", "npm", "python3-dev", "python3-pip", "python3-venv"),
            *("stress", "stress-ng"),
        ),
        python=("uv",),
        size=Size(550 * MIB),
    ),
}
ALWAYS: PackageGroup = "minimal"

# Programs that are patched, by the package they come from. stress reports success where it cannot fork, as after
# a test of the process limit; a shell that cannot fork does not.
MENDED: Mapping[str, str] = {"stress": '/usr/bin/stress "$@" || exit 1'}
