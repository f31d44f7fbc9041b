"""The values of injected headers: read when needed, and shown to nobody but the server."""

from __future__ import annotations

import asyncio
import os
import re
from typing import TYPE_CHECKING

from crabpot.state.untrusted import open_regular, read_handle

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crabpot.settings import ValueFrom

_LARGEST = 8 << 10
_KEYRING_S = 30.0
_VALUE = re.compile(rb"[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?")
_OTHERS = 0o077


class SecretUnavailable(Exception):
    """A value that is unavailable; the message names where it should be, never what is there."""


class Secrets:
    """The gateway's own environment, files and keyring."""

    def __init__(self, environ: Mapping[str, str], home: str, *, keyring: str = "secret-tool") -> None:
        self._environ = environ
        self._home = home
        self._keyring = keyring

    async def value(self, source: ValueFrom) -> bytes:
        """Return a value that is safe in a header."""
        if source.env is not None:
            found = self._variable(source.env)
        elif source.file is not None:
            found = await asyncio.to_thread(self._file, source.file)
        else:
            found = await self._kept(source.keyring or "")
        plain = found.removesuffix(b"\n").removesuffix(b"\r")
        if not _VALUE.fullmatch(plain):
            # A line break in it would begin another header or request.
            raise SecretUnavailable(f"the content of {source.shown} cannot be the value of a header")
        return plain

    def _variable(self, name: str) -> bytes:
        value = self._environ.get(name)
        if not value:
            raise SecretUnavailable(f"the environment of the gateway has no {name}")
        return value.encode("utf-8", "surrogateescape")

    def _file(self, written: str) -> bytes:
        path = f"{self._home}/{written[2:]}" if written.startswith("~/") else written
        try:
            fd = open_regular(path)
        except OSError as error:
            raise SecretUnavailable(f"file {written} cannot be read: {error.strerror}") from None
        try:
            found = os.fstat(fd)
            if found.st_uid not in (0, os.geteuid()) or found.st_mode & _OTHERS:
                raise SecretUnavailable(f"file {written} can be read by others: chmod 600 it, as the gateway's user")
            return read_handle(fd, written, most=_LARGEST)
        except OSError:
            raise SecretUnavailable(f"file {written} is larger than a header") from None
        finally:
            os.close(fd)

    async def _kept(self, entry: str) -> bytes:
        """Return a value from the desktop's keyring by libsecret's program: no library here uses the session bus."""
        service, _, user = entry.partition("/")
        words = ["lookup", "service", service, *(("username", user) if user else ())]
        try:
            asking = await asyncio.create_subprocess_exec(
                self._keyring,
                *words,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env=dict(self._environ),
            )
        except OSError:
            raise SecretUnavailable("the keyring is asked through secret-tool, which is not installed") from None
        try:
            async with asyncio.timeout(_KEYRING_S):
                found, _ = await asking.communicate()
        except TimeoutError:
            raise SecretUnavailable(f"the keyring did not answer within {_KEYRING_S:g} s; is it locked?") from None
        finally:
            if asking.returncode is None:
                asking.kill()
                await asking.wait()
        if asking.returncode or not found:
            raise SecretUnavailable(f"the keyring has nothing under {entry}")
        return found
