"""Start the runner, whether it is named as a module, as a folder or (fastest: no runpy) as this file."""

from __future__ import annotations

import sys

if not __package__:
    # Registered by hand rather than through sys.path: nothing beside the runner becomes importable, and the folder that
    # naming it put on the path is removed again.
    folder = __file__.rpartition("/")[0] or "."
    sys.path[:] = [entry for entry in sys.path if entry != folder]
    package = type(sys)("crabpot_runner")
    package.__path__ = [folder]
    sys.modules["crabpot_runner"] = package
    __package__, __spec__ = "crabpot_runner", None

from .core.server import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
