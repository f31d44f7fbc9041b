"""An image as one file that every engine and every node's runtime can load (docker's archive format), of one layer."""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import tarfile
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def write(layer: str, target: str, *, tag: str, config: Mapping[str, Any]) -> None:
    """Write the archive of an image whose whole file system is in the tarball `layer`, whole or not at all."""
    with open(layer, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    machine = platform.machine()
    described = json.dumps(
        {
            "architecture": _ARCHITECTURES.get(machine, machine),
            "os": "linux",
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
            # What differs from one run to the next stays out: the same packages are the same image.
            "created": "1970-01-01T00:00:00Z",
            "history": [{"created": "1970-01-01T00:00:00Z", "created_by": "crabpot image build"}],
        },
        separators=(",", ":"),
    ).encode()
    name = f"{hashlib.sha256(described).hexdigest()}.json"
    listed = [{"Config": name, "RepoTags": [tag], "Layers": [f"{digest}/layer.tar"]}]
    draft = f"{target}.{os.urandom(4).hex()}.part"
    try:
        with tarfile.open(draft, "w") as archive:
            _add(archive, name, described)
            _add(archive, "manifest.json", json.dumps(listed, separators=(",", ":")).encode())
            entry = tarfile.TarInfo(f"{digest}/layer.tar")
            entry.size = os.path.getsize(layer)
            with open(layer, "rb") as file:
                archive.addfile(entry, file)
        os.replace(draft, target)
    finally:
        if os.path.exists(draft):
            os.unlink(draft)


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))
