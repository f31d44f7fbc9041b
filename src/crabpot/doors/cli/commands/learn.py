"""`learn`: propose the least configuration that a session needed, and write it if asked."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

from crabpot.approvals.display import line
from crabpot.audit.reading import AuditReader
from crabpot.decide import learning, sessions
from crabpot.doors.cli.commands.config import change
from crabpot.doors.cli.frame import OK, note
from crabpot.errors import CrabpotError
from crabpot.wording import counted

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from crabpot.decide.learning import Lesson
    from crabpot.doors.cli.frame import Frame


def learn(frame: Frame, options: Namespace) -> int:
    """Print what the session's records propose; with --write, change the configuration."""
    app = frame.app()
    settings = app.settings()
    agent = settings.agent(sessions.parse(options.session).agent)
    lesson = learning.learn(AuditReader(app.around.state).all(), options.session, agent, settings.defaults)
    if not lesson.calls:
        raise CrabpotError(f"the audit log has no call of {line(options.session)}; see `crabpot audit tail`")
    if options.json:
        print(json.dumps(lesson.as_json(), indent=2))
    else:
        print("\n".join(_told(lesson)))
    if options.write and lesson.proposals:
        file, _ = change(app, [(one.path, json.dumps(one.value)) for one in lesson.proposals])
        note(f"{file}: {counted(len(lesson.proposals), 'value')} set; see `crabpot check`")
    return OK


def _told(lesson: Lesson) -> Iterator[str]:
    yield f"{line(lesson.session)}, agent {lesson.agent}, {counted(lesson.calls, 'call')}"
    if lesson.incomplete:
        yield "Some records were withheld from the log: what follows may lack something that was used."
    yield "It needed:" if lesson.proposals else "There is nothing to add to the configuration, and nothing to narrow."
    mark = "  ! " if lesson.suspicious else "  "
    for one in lesson.proposals:
        yield f"{mark}{one.path}: {line(json.dumps(one.value, ensure_ascii=False))}"
        yield f"      {line(one.because)}"
    if lesson.inherited:
        places = line(", ".join(lesson.inherited))
        yield f"agents.defaults.sandbox.network.allow gives every agent what it did not use: {places}"
    if lesson.suspicious:
        yield "! It was refused something, so it may have been hostile: look at each line before you keep it."
        yield "Still refused:"
    for refusal in lesson.refusals:
        yield f"  {line(refusal.what)}: {line(refusal.because)}"
        if refusal.change is not None:
            yield f"      to allow it: crabpot config set {line(shlex.join(refusal.change))}"
