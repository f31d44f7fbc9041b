"""The tokens of the HTTP door: a private file of digests, read again whenever it changes."""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import os
import re
import secrets
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from crabpot.doors.http.access.principals import Principal, Role, problem_with
from crabpot.errors import CrabpotError
from crabpot.state.files import write_whole
from crabpot.state.ownership import take

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE_NAME = "tokens.json"
# Where a program of the same user finds the operator's token; other tokens are shown once, and not stored.
OPERATORS = "http.token"
OPERATOR = "operator"

_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")
_OTHERS = 0o077


class TokenError(CrabpotError):
    """A token that cannot be created, found or read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """What is stored of a token: never the secret itself."""

    name: str
    role: str
    digest: str
    sessions: list[str]
    sender: str | None
    elicits: bool
    created: float
    # Absent in files of earlier versions, with the safe meaning.
    allow_host: bool = False

    def principal(self) -> Principal:
        """Return the principal of this token."""
        return Principal(
            name=self.name,
            role=Role(self.role),
            sessions=tuple(self.sessions),
            sender=self.sender,
            elicits=self.elicits,
            allow_host=self.allow_host,
        )


class Tokens:
    """The tokens of one state folder."""

    def __init__(self, state: str) -> None:
        self._state = state
        self._file = os.path.join(state, FILE_NAME)
        self._read: tuple[tuple[int, int, int], list[Token]] | None = None

    def find(self, secret: str) -> Principal | None:
        """Return the principal of a secret, or None. Every digest is compared, each in constant time."""
        return self.of_digest(digest(secret))

    def of_digest(self, given: str) -> Principal | None:
        """Return the principal whose secret has this digest now, or None: it may have been removed or rotated."""
        found = None
        for token in self.listed():
            if hmac.compare_digest(token.digest, given):
                found = token
        return None if found is None else found.principal()

    def listed(self) -> list[Token]:
        """List the tokens, from memory while the file is unchanged."""
        try:
            state = os.stat(self._file)
        except FileNotFoundError:
            return []
        version = (state.st_ino, state.st_mtime_ns, state.st_size)
        if self._read is None or self._read[0] != version:
            self._read = version, self._load()
        return self._read[1]

    def _load(self) -> list[Token]:
        # O_NOFOLLOW and the owner check: a file that others can write would let them in.
        try:
            handle = os.open(self._file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            raise TokenError(f"{self._file}: {error.strerror}") from None
        with os.fdopen(handle, encoding="utf-8") as stream:
            state = os.fstat(handle)
            if state.st_uid != os.geteuid() or state.st_mode & _OTHERS:
                raise TokenError(f"{self._file} must be private: chmod 600 {self._file}")
            try:
                return [Token(**one) for one in json.load(stream)]
            except (ValueError, TypeError):
                raise TokenError(f"{self._file} is damaged; remove it and add the tokens again") from None

    def add(  # noqa: PLR0913  keyword-only properties of a token
        self,
        name: str,
        role: Role,
        *,
        sessions: tuple[str, ...] = (),
        sender: str | None = None,
        elicits: bool = False,
        allow_host: bool = False,
    ) -> str:
        """Create a token and return its secret."""
        if not _NAME.fullmatch(name):
            raise TokenError(f'"{name}" cannot be a token\'s name; use lower-case letters, digits, _ . and -')
        if (role is Role.AGENT) is not bool(sessions):
            raise TokenError("an agent's token needs sessions (--session KEY, * matches anything); no other has any")
        if allow_host and role is not Role.AGENT:
            raise TokenError("--allow-host is for an agent's token: operators have the host, observers call nothing")
        for pattern in sessions:
            if wrong := problem_with(pattern):
                raise TokenError(f"--session {pattern!a} matches nothing: {wrong}")
        secret = _fresh()
        with self._changing() as tokens:
            if any(token.name == name for token in tokens):
                raise TokenError(f"the token {name} already exists; rotate or remove it")
            tokens.append(
                Token(
                    name=name,
                    role=role.value,
                    digest=digest(secret),
                    sessions=list(sessions),
                    sender=sender,
                    elicits=elicits,
                    allow_host=allow_host,
                    created=time.time(),
                )
            )
            self._keep_operators(name, secret)
        return secret

    def rotate(self, name: str) -> str:
        """Replace a token's secret and return the new one; the old one stops working at once."""
        secret = _fresh()
        with self._changing() as tokens:
            old = self._take(tokens, name)
            tokens.append(Token(**{**asdict(old), "digest": digest(secret), "created": time.time()}))
            self._keep_operators(name, secret)
        return secret

    def remove(self, name: str) -> None:
        """Remove a token."""
        with self._changing() as tokens:
            self._take(tokens, name)

    def need_operator(self) -> str:
        """Create the operator's token if there is none, and return its file."""
        if not any(token.name == OPERATOR for token in self.listed()):
            self.add(OPERATOR, Role.OPERATOR)
        return os.path.join(self._state, OPERATORS)

    def _take(self, tokens: list[Token], name: str) -> Token:
        found = next((token for token in tokens if token.name == name), None)
        if found is None:
            names = ", ".join(token.name for token in tokens) or "none"
            raise TokenError(f"there is no token {name}; there are: {names}")
        tokens.remove(found)
        return found

    def _keep_operators(self, name: str, secret: str) -> None:
        if name == OPERATOR:
            write_whole(os.path.join(self._state, OPERATORS), f"{secret}\n")

    @contextmanager
    def _changing(self) -> Iterator[list[Token]]:
        """Change the list under a lock, atomically."""
        take(self._state)
        lock = os.open(f"{self._file}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            tokens = list(self.listed())
            yield tokens
            written: list[dict[str, Any]] = [asdict(token) for token in tokens]
            write_whole(self._file, json.dumps(written, indent=1))
        finally:
            os.close(lock)


def _fresh() -> str:
    return f"crabpot_{secrets.token_urlsafe(32)}"


def digest(secret: str) -> str:
    """Return what is stored of a secret."""
    # A secret of 256 random bits needs no slow hash: there is nothing to guess.
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
