"""The fields of messages: checked where they come in, since any client may send anything."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from crabpot.doors.e2b.refusals import RpcError

_MOST_NUMBER = 2**32 - 1


def _wrong(name: str, what: str) -> RpcError:
    return RpcError("invalid_argument", f"{name} must be {what}")


def text(message: dict[str, Any], name: str, default: str | None = None) -> str:
    """Return a field that is text; without a default it must be there."""
    value = message.get(name, default)
    if not isinstance(value, str) or "\0" in value:
        raise _wrong(name, "text")
    return value


def path(message: dict[str, Any], name: str = "path") -> str:
    """Return a field that is a path, which is not empty."""
    value = text(message, name)
    if not value:
        raise _wrong(name, "a path")
    return value


def flag(message: dict[str, Any], name: str, *, default: bool = False) -> bool:
    """Return a field that is true or false."""
    value = message.get(name, default)
    if not isinstance(value, bool):
        raise _wrong(name, "true or false")
    return value


def number(message: dict[str, Any], name: str, default: int | None = None, most: int = _MOST_NUMBER) -> int:
    """Return a field that is a whole number, from 0 on; JSON has large ones as text."""
    value = message.get(name, default)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= len(str(most)):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise _wrong(name, f"a whole number from 0 to {most}")
    return value


def inner(message: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a field that is a message; none is an empty one."""
    value = message.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _wrong(name, "a message")
    return value


def texts(message: dict[str, Any], name: str) -> dict[str, str]:
    """Return a field that maps text to text."""
    value = inner(message, name)
    if not all(isinstance(one, str) and "\0" not in one for one in (*value, *value.values())):
        raise _wrong(name, "text for text")
    return value


def words(message: dict[str, Any], name: str) -> list[str]:
    """Return a field that lists texts."""
    value = message.get(name) or []
    if not isinstance(value, list) or not all(isinstance(one, str) and "\0" not in one for one in value):
        raise _wrong(name, "a list of text")
    return value


def data(message: dict[str, Any], name: str) -> bytes:
    """Return a field that is bytes, in base64."""
    try:
        return base64.b64decode(text(message, name, ""), validate=True)
    except (binascii.Error, ValueError):
        raise _wrong(name, "base64") from None
