"""A document as YAML that every parser reads alike: in blocks, and every text in double quotes.

Unquoted, `no`, `1.10` and `0o17` mean different things to each version of YAML; JSON's quoting is YAML's.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_STEP = "  "


def document(value: dict[str, Any]) -> str:
    """Return mappings, lists, texts, numbers and booleans as YAML."""
    return "".join(f"{line}\n" for line in _lines(value, ""))


def _lines(value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _entry(f"{indent}{_key(key)}:", item, indent + _STEP)
    elif isinstance(value, list | tuple) and value:
        for item in value:
            yield from _item(item, indent)
    else:
        yield indent + _scalar(value)


def _entry(head: str, value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, dict | list | tuple) and value:
        yield head
        yield from _lines(value, indent)
    else:
        yield f"{head} {_scalar(value)}"


def _item(value: Any, indent: str) -> Iterator[str]:
    """Yield one item of a list; the first line of its content follows the dash."""
    first, *rest = _lines(value, indent + _STEP)
    yield f"{indent}- {first.removeprefix(indent + _STEP)}"
    yield from rest


def _key(key: str) -> str:
    plain = key.isascii() and key.replace("_", "a").replace("-", "a").isalnum() and key[0].isalpha()
    # Words that some version of YAML takes for a boolean stay in quotes.
    return (
        key
        if plain and key.lower() not in ("y", "n", "yes", "no", "on", "off", "true", "false", "null")
        else _scalar(key)
    )


def _scalar(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True)
