"""`bench`: the benchmark of the checkout that this program runs from."""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING

import crabpot
from crabpot.doors.cli.frame import UsageError

if TYPE_CHECKING:
    from argparse import Namespace

    from crabpot.doors.cli.frame import Frame

_CHECKOUT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(crabpot.__file__)), "../.."))


def bench(frame: Frame, options: Namespace) -> int:
    """Run `bench/`, which is beside the package and not installed with it."""
    if not os.path.isfile(os.path.join(_CHECKOUT, "bench/command.py")):
        raise UsageError("the benchmark is not part of the installed package; run ./crabpot bench in a checkout")
    sys.path.append(_CHECKOUT)
    code: int = importlib.import_module("bench.command").bench(frame, options)
    return code
