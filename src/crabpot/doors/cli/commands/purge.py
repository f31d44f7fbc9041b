"""`purge`: remove everything that Crabpot keeps, before it is uninstalled or to begin anew."""

from __future__ import annotations

import fcntl
import os
import sys
from typing import TYPE_CHECKING

from crabpot.approvals.store import FILE_NAME, Store
from crabpot.doors.cli.frame import FAILED, OK, UsageError
from crabpot.doors.cli.show import visible
from crabpot.doors.local.identity import SOCKET_NAME
from crabpot.doors.local.server import beside
from crabpot.errors import CrabpotError
from crabpot.layers.content import is_empty
from crabpot.layers.store import LayerStore
from crabpot.state.ownership import take
from crabpot.state.removal import remove_tree
from crabpot.wording import counted

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from crabpot.app import App
    from crabpot.doors.cli.frame import Frame

# What a folder has at least one of that Crabpot made: any other folder is not ours to remove.
_OURS = (FILE_NAME, "audit.db", "sandboxes", "bubblewrap", "layers", "tokens.json", SOCKET_NAME)


def purge(frame: Frame, options: Namespace) -> int:
    """Remove the state folder, once a person agreed. The configuration and the projects stay."""
    app = frame.app()
    state = app.around.state
    if not os.path.lexists(state):
        print(f"{state}: nothing is kept there")
        return OK
    take(state)
    if os.listdir(state) and not any(os.path.lexists(os.path.join(state, name)) for name in _OURS):
        raise CrabpotError(f"{state} has nothing of Crabpot's in it, and was left alone")
    folder = os.open(state, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _lock(folder, state)
        for line in _told(app):
            print(line)
        if not options.yes and not _agreed():
            print("nothing was removed")
            return FAILED
        remove_tree(state)
    finally:
        os.close(folder)
    print(f"{state} was removed")
    return OK


def _lock(folder: int, state: str) -> None:
    """Hold what a serving gateway holds; CrabpotError while a gateway, of `serve` or of one command, is alive."""
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise CrabpotError(f"a gateway serves {state}; end it with `crabpot serve stop`, then purge") from None
    if any(os.path.exists(f"/proc/{''.join(filter(str.isdigit, name))}") for name in beside(state)):
        raise CrabpotError(f"an agent of `crabpot run` still runs on {state}; end it first, then purge")
    if not os.path.exists(os.path.join(state, FILE_NAME)):
        return
    store = Store(state)
    try:
        waits = store.pending()
    finally:
        store.close()
    if waits:
        raise CrabpotError("a command of another terminal waits for an answer; end it first, then purge")


def _told(app: App) -> Iterator[str]:
    state = app.around.state
    yield f"removes {state}: private folders, homes, layers and snapshots of sessions, the audit log, tokens, leases"
    yield "  and secrets kept in files. Not removed: your projects, secrets in the keyring, docker images, and"
    yield f"  the configuration ({app.config or 'there is none'})"
    changed = [layer for layer in LayerStore(state).all() if not is_empty(layer)]
    if changed:
        yield f"LOST with it: {counted(len(changed), 'session')} with changes that nobody applied:"
    for layer in changed:
        yield f"  {visible(layer.session)} over {visible(layer.folder)}"


def _agreed() -> bool:
    if not (sys.stdin and sys.stdin.isatty()):
        raise UsageError("purge asks first, and there is no terminal to ask on; if you mean it: crabpot purge --yes")
    print('type "purge" to go on: ', end="", flush=True)
    return sys.stdin.readline().strip() == "purge"
