"""`secrets`: keys that stay outside, kept in the keyring or in files that only this user can read."""

from __future__ import annotations

import getpass
import json
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from crabpot.doors.cli.frame import OK
from crabpot.errors import CrabpotError
from crabpot.presets import secret_store

if TYPE_CHECKING:
    from argparse import Namespace

    from crabpot.doors.cli.frame import Frame

_KEYRING = "secret-tool"
_KEYRING_S = 60.0


def set_secret(frame: Frame, options: Namespace) -> int:
    """Keep one, in the keyring where there is one."""
    name, state = secret_store.check(options.name), frame.app().around.state
    value = _ask(name)
    if not value.strip():
        raise CrabpotError(f"{name}: nothing was given, and nothing was changed")
    if not options.file and _store(name, value):
        secret_store.note_keyring(state, name)
        print(f"{name}: kept in the keyring")
    else:
        secret_store.keep(state, name, value)
        print(f"{name}: kept in a file that only you can read ({state}/{secret_store.FOLDER}/{name})")
    return OK


def list_secrets(frame: Frame, options: Namespace) -> int:
    """List the names."""
    found = secret_store.kept(frame.app().around.state)
    if options.json:
        print(json.dumps([{"name": name, "where": where} for name, where in found], indent=2))
        return OK
    for name, where in found:
        print(f"{name}  ({where})")
    if not found:
        print("no secrets")
    return OK


def remove(frame: Frame, options: Namespace) -> int:
    """Forget one."""
    name, state = secret_store.check(options.name), frame.app().around.state
    if ("keyring" in dict(secret_store.kept(state)).get(name, "")) and shutil.which(_KEYRING):
        _tool("clear", "service", secret_store.SERVICE, "username", name)
    if not secret_store.forget(state, name):
        raise CrabpotError(f"no secret is called {name}; see: crabpot secrets list")
    print(f"{name}: forgotten")
    return OK


def _ask(name: str) -> bytes:
    if sys.stdin is not None and sys.stdin.isatty():
        # Never as an argument: other users see those.
        return getpass.getpass(f"{name}: ").encode("utf-8", "surrogateescape")
    given = b"" if sys.stdin is None else sys.stdin.buffer.read(16 << 10)
    return given.removesuffix(b"\n").removesuffix(b"\r")


def _store(name: str, value: bytes) -> bool:
    """Put a value into the desktop's keyring; return whether it is there, and can be had again."""
    if shutil.which(_KEYRING) is None:
        return False
    words = ("service", secret_store.SERVICE, "username", name)
    stored = _tool("store", f"--label=Crabpot: {name}", *words, given=value)
    return stored is not None and _tool("lookup", *words) == value


def _tool(*words: str, given: bytes = b"") -> bytes | None:
    try:
        done = subprocess.run([_KEYRING, *words], input=given, capture_output=True, timeout=_KEYRING_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.removesuffix(b"\n") if done.returncode == 0 else None
