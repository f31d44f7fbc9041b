"""The runner's source files, which every backend puts into its sandboxes."""

from __future__ import annotations

import os

import crabpot.runner

FOLDER = os.path.dirname(os.path.abspath(crabpot.runner.__file__))
PROGRAM = os.path.join(FOLDER, "__main__.py")


def files(folder: str = FOLDER) -> dict[str, str]:
    """Return the path of each source file by its name below the folder, such as `core/wire.py`, in order."""
    found = (os.path.join(path, name) for path, _, names in os.walk(folder) for name in names if name.endswith(".py"))
    return {os.path.relpath(path, folder): path for path in sorted(found)}
