"""`runner`: the runner of every sandbox, on a socket of its own, for gateways and plain clients."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NoReturn

from crabpot.backends import runner_source

if TYPE_CHECKING:
    from argparse import Namespace

    from crabpot.doors.cli.frame import Frame


def run(frame: Frame, options: Namespace) -> NoReturn:
    """Execute the runner: the very program that ships into sandboxes, with nothing else loaded."""
    names = options.allow or list(frame.app().settings().runner.commands)
    program = runner_source.PROGRAM
    words = ["--socket", options.socket, "--patience", f"{options.patience:g}", "--root", *options.root]
    words += ["--without-landlock"] if options.without_landlock else []
    # Each after `=`, and joined: no name is taken for an option.
    os.execv(sys.executable, [sys.executable, "-I", "-S", program, *words, f"--allow={','.join(names)}"])  # noqa: S606
