"""Layers for tests: a folder, and what an agent's script does to it through a real overlay or in a copy."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from crabpot.layers import copying, stamps
from crabpot.layers.changes import entries
from crabpot.layers.store import LayerStore

if TYPE_CHECKING:
    from crabpot.layers.layer import Layer

_REALTIME_COARSE = 5
_MOUNTED = 'mount -t overlay overlay -o userxattr,lowerdir="$0",upperdir="$1",workdir="$2" "$3" && cd "$3" && eval "$4"'


@dataclass(frozen=True, kw_only=True)
class Project:
    """A folder of the host under review, and its layer."""

    folder: Path
    layer: Layer
    store: LayerStore

    def agent(self, script: str) -> None:
        """Run a script where the folder is writable and its changes go to the layer."""
        if self.layer.mechanism == "copy":
            subprocess.run(["bash", "-ec", script], cwd=self.layer.content, check=True, timeout=600)
            return
        view = Path(self.layer.path) / "view"
        view.mkdir(exist_ok=True)
        _let_the_clock_tick()
        stamps.opened(self.layer.path)
        work = str(Path(self.layer.path) / "work")
        argv = ["unshare", "-Urm", "bash", "-ec", _MOUNTED]
        places = [str(self.folder), self.layer.content, work, str(view)]
        subprocess.run([*argv, *places, f"set -e\n{script}"], check=True, timeout=600)
        stamps.closed(self.layer.path)
        entries.note(self.layer)


def _let_the_clock_tick() -> None:
    """Wait until what the test wrote just now is older than a mount: the kernel's clock for mounts counts in ticks."""
    began = time.time_ns()
    while time.clock_gettime_ns(_REALTIME_COARSE) <= began:
        time.sleep(0.001)


def project(place: Path, mechanism: Literal["overlay", "copy"], **files: str) -> Project:
    """Return a folder with some files in it, and an empty layer over it; `__` in a name is `/`, and `_dot_` is `.`."""
    folder = place / "project"
    folder.mkdir()
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return over(folder, place / "state", mechanism)


def over(folder: Path, state: Path, mechanism: Literal["overlay", "copy"]) -> Project:
    """Return an empty layer over a folder."""
    state.mkdir(exist_ok=True)
    store = LayerStore(str(state))
    key = "agent:main:main"
    layer = store.make(scope_key=key, session=key, agent="main", folder=str(folder), mechanism=mechanism)
    if mechanism == "copy":
        copying.copy_folder(layer)
    return Project(folder=folder, layer=layer, store=store)


def picture(folder: Path) -> dict[str, tuple[Any, ...]]:
    """Return all that can be seen of a folder: types, modes, times and contents."""
    found = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        facts = path.lstat()
        content: Any = None
        if path.is_symlink():
            content = os.readlink(path)
        elif path.is_file():
            content = path.read_bytes()
        found[str(path.relative_to(folder))] = (facts.st_mode, facts.st_mtime_ns, facts.st_ino, facts.st_uid, content)
    return found
