"""Parse a session key: which agent it belongs to, and whether it is that agent's main session."""

from __future__ import annotations

import re

from crabpot.errors import SessionError
from crabpot.frozen import dataclass

MAIN = "main"

# ASCII only, and before lower-casing: the Kelvin sign lower-cases to `k` and would name another agent.
_AGENT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", re.ASCII)


# In characters. A key is kept in memory, names folders and is in every record, and a door takes it from anybody.
LONGEST = 4096

_BOX = "agent:main:box-"
_NAMED = "agent:main:named-"
_LONGEST_NAME = 200
_AGENTS = "agent:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A parsed key, with the key exactly as given."""

    key: str
    agent: str
    main: bool


def is_agent_id(text: str) -> bool:
    """Return whether this can be an agent's id."""
    return _AGENT_ID.fullmatch(text) is not None


def of_box(name: str) -> str:
    """Return the key of a program's own sandbox; `name` is 32 hexadecimal digits that nobody else has."""
    return f"{_BOX}{name}"


def program_of(key: str) -> str | None:
    """Return the program whose own sandbox this is: the first half of the digits. None for every other key."""
    return key.removeprefix(_BOX)[:16] if is_box(key) else None


def of_named_box(name: str) -> str:
    """Return the key of a sandbox that a program named, and that any program finds again by that name."""
    if not name or len(name) > _LONGEST_NAME or not name.isprintable():
        raise SessionError(f"{name!a:.80} cannot name a sandbox; use 1 to {_LONGEST_NAME} printable characters")
    return f"{_NAMED}{name}"


def name_of_box(key: str) -> str | None:
    """Return the name that a program gave its sandbox, or None for every other key."""
    return key.removeprefix(_NAMED) if key.startswith(_NAMED) else None


def is_box(key: str) -> bool:
    """Return whether a key belongs to a program's own sandbox, which is gone when its program ends."""
    return re.fullmatch(f"{_BOX}[0-9a-f]{{32}}", key) is not None


def names_a_session(key: str) -> bool:
    """Return whether a key can be parsed."""
    try:
        parse(key)
    except SessionError:
        return False
    return True


def parse(key: str, *, default_agent: str = MAIN) -> Session:
    """Parse a key without trimming it. SessionError if it is empty, too long, or begins with `agent:` and names none.

    Such a key must not fall back to the default agent: `agent:ops:` matches, as text, a grant for `agent:ops:*`,
    and would run with another agent's settings.
    """
    if not key:
        raise SessionError('the session key is empty; give one such as "agent:main:main"')
    if len(key) > LONGEST:
        raise SessionError(f"a session key is text of at most {LONGEST} characters")
    if key.startswith(_AGENTS):
        agent, _, rest = key.removeprefix(_AGENTS).partition(":")
        if not rest or not is_agent_id(agent):
            raise SessionError(f'{key!a} names no session of an agent; write "agent:ID:NAME", as in "agent:ops:main"')
        return Session(key=key, agent=agent.lower(), main=rest == MAIN)
    return Session(key=key, agent=default_agent, main=key == MAIN)
