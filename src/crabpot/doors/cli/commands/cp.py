"""`cp`: copy files and folders in and out of a session's sandbox, binary-safe and in constant memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabpot.doors.cli.commands.exec import finished, gateway, longest
from crabpot.doors.cli.copying.copier import Copier, Remote
from crabpot.doors.cli.copying.receiving import Receiver
from crabpot.doors.cli.copying.sending import Sender
from crabpot.doors.cli.frame import OK, UsageError
from crabpot.wording import counted

if TYPE_CHECKING:
    from argparse import Namespace

    from crabpot.app import App
    from crabpot.doors.cli.frame import Frame


def parse(text: str) -> Remote | str:
    """Parse `SESSION:/path`, or a local path; one that begins with / or . is always local."""
    session, colon, path = text.partition(":/")
    if not colon or not session or text.startswith(("/", ".")):
        return text
    return Remote(session=session, path=f"/{path}")


def copy(frame: Frame, options: Namespace) -> int:
    """Copy files in or out."""
    return finished(_copy(frame.app(), parse(options.source), parse(options.target)))


async def _copy(app: App, source: Remote | str, target: Remote | str) -> int:
    if isinstance(source, str) == isinstance(target, str):
        raise UsageError("cp takes one local path and one SESSION:/path, as in agent:main:main:/workspace/a.txt")
    copier: Copier
    async with gateway(app) as opened:
        if isinstance(target, Remote):
            copier = sender = Sender(opened, target.session, longest(app, target.session))
            await sender.send(str(source), target)
        else:
            assert isinstance(source, Remote)
            copier = receiver = Receiver(opened, source.session, longest(app, source.session))
            await receiver.receive(source, target)
    print(f"copied {counted(copier.files, 'file')}, {counted(copier.size, 'byte')}")
    return OK
