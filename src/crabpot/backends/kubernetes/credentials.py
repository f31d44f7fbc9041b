"""What a request proves itself with: certificates, and a token that is read or issued again before it expires."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import tempfile
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

from crabpot.errors import SandboxUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crabpot.backends.kubernetes.kubeconfig import Login

# A service account's token is renewed on disk well before it expires.
_REREAD_S = 60.0
_PLUGIN_S = 60.0
_EARLY_S = 30.0


class Credentials:
    """Of one login. `token` is asked before each request; `forget` after the cluster refused it."""

    def __init__(self, login: Login, environ: Mapping[str, str]) -> None:
        self._login = login
        self._environ = environ
        self._token: str | None = login.token
        self._good_until = 0.0 if login.token is None else float("inf")
        self._turn = asyncio.Lock()

    async def token(self) -> str | None:
        """Return the bearer token, or None for a user who is known by a certificate."""
        async with self._turn:
            if time.monotonic() >= self._good_until:
                if self._login.token_file is not None:
                    self._token, self._good_until = _read(self._login.token_file), time.monotonic() + _REREAD_S
                elif self._login.plugin is not None:
                    self._token, self._good_until = await _issued(self._login.plugin, self._environ)
            return self._token

    def forget(self) -> bool:
        """Have the next request get a new token; return whether there is a way to."""
        if self._login.token_file is None and self._login.plugin is None:
            return False
        self._good_until = 0.0
        return True

    def tls(self) -> ssl.SSLContext:
        """Return how to check the server, and how to answer for oneself."""
        login = self._login
        try:
            context = ssl.create_default_context(cadata=None if login.authority is None else login.authority.decode())
            if login.unchecked:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            if login.certificate is not None and login.key is not None:
                _load(context, login.certificate, login.key)
        except (ssl.SSLError, ValueError) as error:
            raise SandboxUnavailable(f"the certificates of {login.source} cannot be used: {error}") from None
        return context


def _load(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    # The module reads files alone. In memory where there is such a folder, and gone before anything else happens.
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:  # noqa: S108
        for name, content in (("certificate", certificate), ("key", key)):
            with open(os.open(f"{folder}/{name}", os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
                file.write(content)
        context.load_cert_chain(f"{folder}/certificate", f"{folder}/key")


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read(64 * 1024).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SandboxUnavailable(f"the token of the cluster cannot be read: {error}") from None


async def _issued(plugin: Mapping[str, Any], environ: Mapping[str, str]) -> tuple[str, float]:
    """Have the plugin issue a token; return it and until when it is good."""
    added = {one["name"]: str(one["value"]) for one in plugin.get("env") or () if isinstance(one, dict)}
    info = {"apiVersion": plugin.get("apiVersion"), "kind": "ExecCredential", "spec": {"interactive": False}}
    command = [plugin["command"], *(str(word) for word in plugin.get("args") or ())]
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**environ, **added, "KUBERNETES_EXEC_INFO": json.dumps(info)},
        )
    except OSError as error:
        raise SandboxUnavailable(f"the kubeconfig's credentials come from {command[0]}: {error.strerror}") from None
    try:
        said, wrong = await asyncio.wait_for(process.communicate(), _PLUGIN_S)
    except TimeoutError:
        process.kill()
        raise SandboxUnavailable(f"{command[0]} issued no credentials within {_PLUGIN_S:g} s") from None
    if process.returncode != 0:
        reason = wrong.decode("utf-8", "replace").strip()[-300:]
        raise SandboxUnavailable(f"{command[0]} issued no credentials: {reason or 'it failed'}; log in again")
    try:
        status = json.loads(said)["status"]
        return str(status["token"]), _moment(status.get("expirationTimestamp"))
    except (ValueError, KeyError, TypeError):
        raise SandboxUnavailable(f"{command[0]} issued no token: Crabpot uses tokens of such programs alone") from None


def _moment(expires: object) -> float:
    """Return when to ask again, on the clock that only goes forward."""
    if not isinstance(expires, str):
        return float("inf")
    left = datetime.fromisoformat(expires).timestamp() - time.time()
    return time.monotonic() + max(left - _EARLY_S, 0.0)
