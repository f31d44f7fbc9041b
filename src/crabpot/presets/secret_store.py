"""Where keys are found that stay outside: the caller's environment, the keyring, or a file of the state folder."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from crabpot.errors import CrabpotError
from crabpot.settings import ValueFrom
from crabpot.spec.naming import is_variable_name
from crabpot.state.ownership import make_own

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER = "secrets"
SERVICE = "crabpot"
# An empty file of this ending says that the value is in the keyring.
_IN_KEYRING = ".keyring"
_LARGEST = 8 << 10


def check(name: str) -> str:
    """Return a name that a secret can have, or raise CrabpotError."""
    if not is_variable_name(name) or len(name) > 128:  # noqa: PLR2004  far longer than any
        raise CrabpotError(f"{name!r} cannot name a secret: letters, digits and _, as a variable such as API_KEY")
    return name


def find(state: str, name: str, environ: Mapping[str, str]) -> ValueFrom | None:
    """Return where a secret is, never the secret; None if it is nowhere."""
    if environ.get(name):
        return ValueFrom(env=name)
    folder = os.path.join(state, FOLDER)
    if os.path.isfile(os.path.join(folder, name)):
        return ValueFrom(file=os.path.join(folder, name))
    if os.path.isfile(os.path.join(folder, name + _IN_KEYRING)):
        return ValueFrom(keyring=f"{SERVICE}/{name}")
    return None


def kept(state: str) -> list[tuple[str, str]]:
    """Return the names of the secrets that are kept, each with where."""
    try:
        found = sorted(os.listdir(os.path.join(state, FOLDER)))
    except FileNotFoundError:
        return []
    rows = [(name.removesuffix(_IN_KEYRING), "keyring" if name.endswith(_IN_KEYRING) else "file") for name in found]
    return [(name, where) for name, where in rows if is_variable_name(name)]


def keep(state: str, name: str, value: bytes) -> None:
    """Write a secret to a file that only this user can read; whole or not at all."""
    if not value or len(value) > _LARGEST or b"\n" in value or b"\0" in value:
        raise CrabpotError("a secret is one line of at most 8 KiB")
    folder = _folder(state)
    draft = os.path.join(folder, f".{os.urandom(4).hex()}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(value)
            file.flush()
            os.fsync(file.fileno())
        os.rename(draft, os.path.join(folder, name))
    except BaseException:
        os.unlink(draft)
        raise
    _unlink(os.path.join(folder, name + _IN_KEYRING))


def note_keyring(state: str, name: str) -> None:
    """Note that a secret is in the keyring, and forget its file."""
    folder = _folder(state)
    os.close(os.open(os.path.join(folder, name + _IN_KEYRING), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    _unlink(os.path.join(folder, name))


def forget(state: str, name: str) -> bool:
    """Remove a secret from the state folder; return whether it was there."""
    folder = os.path.join(state, FOLDER)
    gone = [_unlink(os.path.join(folder, name + ending)) for ending in ("", _IN_KEYRING)]
    return True in gone


def _folder(state: str) -> str:
    make_own(state)
    folder = os.path.join(state, FOLDER)
    make_own(folder)
    return folder


def _unlink(path: str) -> bool:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    return True
