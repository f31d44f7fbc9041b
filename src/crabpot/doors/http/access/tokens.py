"""The tokens of the HTTP door: a private file of digests, read again whenever it has changed."""

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
# Where a program of the same user finds the operator's token; the other tokens are shown once, and kept nowhere.
OPERATORS = "http.token"
OPERATOR = "operator"

_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")
_OTHERS = 0o077


class TokenError(CrabpotError):
    """A token that cannot be made, found or read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """What is kept of one: never the secret itself."""

    name: str
    role: str
    digest: str
    sessions: list[str]
    sender: str | None
    elicits: bool
    created: float
    # Files written before there was this key mean what is safe.
    allow_host: bool = False

    def principal(self) -> Principal:
        """Give whom it stands for."""
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
        """Give whom a secret belongs to. Every digest is compared, each in constant time."""
        given = _digest(secret)
        found = None
        for token in self.listed():
            if hmac.compare_digest(token.digest, given):
                found = token
        return None if found is None else found.principal()

    def listed(self) -> list[Token]:
        """List them, from memory while the file stays the same."""
        try:
            state = os.stat(self._file)
        except FileNotFoundError:
            return []
        version = (state.st_ino, state.st_mtime_ns, state.st_size)
        if self._read is None or self._read[0] != version:
            self._read = version, self._load()
        return self._read[1]

    def _load(self) -> list[Token]:
        # O_NOFOLLOW and the owner: a file that others can write would let them in.
        try:
            handle = os.open(self._file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            raise TokenError(f"{self._file}: {error.strerror}") from None
        with os.fdopen(handle, encoding="utf-8") as stream:
            state = os.fstat(handle)
            if state.st_uid != os.geteuid() or state.st_mode & _OTHERS:
                raise TokenError(f"{self._file} must be yours alone: chmod 600 {self._file}")
            try:
                return [Token(**one) for one in json.load(stream)]
            except (ValueError, TypeError):
                raise TokenError(f"{self._file} is no list of tokens any more; remove it and add them anew") from None

    def add(  # noqa: PLR0913  what a token is for is told by name
        self,
        name: str,
        role: Role,
        *,
        sessions: tuple[str, ...] = (),
        sender: str | None = None,
        elicits: bool = False,
        allow_host: bool = False,
    ) -> str:
        """Make a token and give its secret."""
        if not _NAME.fullmatch(name):
            raise TokenError(f'"{name}" cannot be a token\'s name; use small letters, digits, _ . and -')
        if (role is Role.AGENT) is not bool(sessions):
            raise TokenError("an agent's token is for sessions (--session KEY, * stands for anything); no other is")
        if allow_host and role is not Role.AGENT:
            raise TokenError("--allow-host is for an agent's token: operators have the host, observers call nothing")
        for pattern in sessions:
            if wrong := problem_with(pattern):
                raise TokenError(f"--session {pattern!a} is for nothing: {wrong}")
        secret = _fresh()
        with self._changing() as tokens:
            if any(token.name == name for token in tokens):
                raise TokenError(f"there is a token {name} already; rotate or remove it")
            tokens.append(
                Token(
                    name=name,
                    role=role.value,
                    digest=_digest(secret),
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
        """Give a token a new secret; the old one is worth nothing from now on."""
        secret = _fresh()
        with self._changing() as tokens:
            old = self._take(tokens, name)
            tokens.append(Token(**{**asdict(old), "digest": _digest(secret), "created": time.time()}))
            self._keep_operators(name, secret)
        return secret

    def remove(self, name: str) -> None:
        """Let a token open nothing any more."""
        with self._changing() as tokens:
            self._take(tokens, name)

    def need_operator(self) -> str:
        """Make the operator's token if there is none, and tell where it is."""
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
        """Change the list alone, whole or not at all."""
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


def _digest(secret: str) -> str:
    # A secret of 256 random bits needs no slow hash: there is nothing to guess.
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
