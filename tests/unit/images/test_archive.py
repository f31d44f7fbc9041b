"""An image as a file: what engines read of it, and that it is whole or not there."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from typing import TYPE_CHECKING

import pytest

from crabpot.images import archive

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def layer(tmp_path: Path) -> Path:
    made = tmp_path / "layer.tar"
    with tarfile.open(made, "w") as packed:
        entry = tarfile.TarInfo("etc/hostname")
        entry.size = 4
        packed.addfile(entry, io.BytesIO(b"pot\n"))
    return made


def test_the_archive_names_the_image_its_configuration_and_its_layer(layer: Path, tmp_path: Path) -> None:
    target = tmp_path / "image.tar"
    archive.write(str(layer), str(target), tag="pot:1", config={"User": "1000:1000"})
    with tarfile.open(target) as packed:
        content = {entry.name: packed.extractfile(entry).read() for entry in packed}
    (listed,) = json.loads(content["manifest.json"])
    assert listed["RepoTags"] == ["pot:1"]
    (name,) = listed["Layers"]
    assert content[name] == layer.read_bytes()
    described = content[listed["Config"]]
    # Runtimes find both by their digests, and refuse what does not match.
    assert listed["Config"] == f"{hashlib.sha256(described).hexdigest()}.json"
    said = json.loads(described)
    assert said["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(layer.read_bytes()).hexdigest()}"]
    assert said["config"] == {"User": "1000:1000"}


def test_the_same_files_are_the_same_image(layer: Path, tmp_path: Path) -> None:
    for name in ("one.tar", "two.tar"):
        archive.write(str(layer), str(tmp_path / name), tag="pot:1", config={})
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes()


def test_what_cannot_be_written_leaves_nothing(layer: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError, match="taken"):
        archive.write(str(layer), str(tmp_path / "taken"), tag="pot:1", config={})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["layer.tar", "taken"]
