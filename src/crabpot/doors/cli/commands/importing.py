"""`import`: turn another program's configuration into one of ours, on standard output."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from crabpot.approvals.display import line
from crabpot.config import load, openclaw
from crabpot.config.document import SyntaxProblem, line_of, plain
from crabpot.config.reading import parse
from crabpot.doors.cli.frame import OK, UsageError, note
from crabpot.errors import ConfigError

if TYPE_CHECKING:
    from argparse import Namespace

    from crabpot.doors.cli.frame import Frame


def from_openclaw(frame: Frame, options: Namespace) -> int:
    """Print the configuration; what was left out goes to standard error."""
    app = frame.app()
    text = load.read_text(options.file)
    try:
        document = json.loads(json.dumps(plain(parse(text))))
    except SyntaxProblem as problem:
        raise UsageError(f"{options.file}:{line_of(text, problem.offset)}: {problem}") from None
    if not isinstance(document, dict):
        raise UsageError(f"{options.file}: must be an object")
    made = openclaw.translate(document)
    translated = json.dumps(made.config, indent=2, ensure_ascii=False)
    try:
        load.from_text(translated, None, app.around, app.environ)
    except ConfigError as error:
        raise UsageError(f"{options.file} cannot be translated: what it says would not load here\n{error}") from None
    for one in made.left_out:
        note(f"left out {line(one.path)}: {one.because}")
    print(translated)
    return OK
