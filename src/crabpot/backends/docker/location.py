"""Where the local engine listens: DOCKER_HOST, the chosen context, a rootless engine's socket, the system's."""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING, Any

from crabpot.errors import SandboxUnavailable
from crabpot.state.untrusted import read_regular

if TYPE_CHECKING:
    from collections.abc import Mapping

_LARGEST = 1024**2
_SYSTEM = "/var/run/docker.sock"


def find(environ: Mapping[str, str], home: str) -> str:
    """Return the path of the engine's Unix socket, or raise SandboxUnavailable with what to do."""
    host = environ.get("DOCKER_HOST")
    if host:
        return _local(host, "DOCKER_HOST")
    folder = environ.get("DOCKER_CONFIG") or f"{home}/.docker"
    context = environ.get("DOCKER_CONTEXT") or _current(folder)
    if context not in ("", "default"):
        return _local(_endpoint(folder, context), f'the docker context "{context}"')
    runtime = environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}"
    tried = (f"{runtime}/docker.sock", _SYSTEM, f"{home}/.docker/run/docker.sock")
    for path in tried:
        if os.path.exists(path):
            return path
    raise SandboxUnavailable(
        f"no docker engine was found ({', '.join(tried)} do not exist): start it (systemctl start docker), "
        "set DOCKER_HOST to its unix:// socket, or use the bubblewrap backend"
    )


def _local(host: str, source: str) -> str:
    if not host.startswith("unix:///"):
        raise SandboxUnavailable(
            f"{source} names a remote engine ({host}), which is not supported yet: the workspace lies on this machine. "
            "Set DOCKER_HOST to the unix:// socket of a local engine, or use the bubblewrap backend"
        )
    return host.removeprefix("unix://")


def _current(folder: str) -> str:
    path = f"{folder}/config.json"
    document = _read(path) if os.path.exists(path) else {}
    name = document.get("currentContext", "")
    if not isinstance(name, str):
        raise SandboxUnavailable(f"{path}: currentContext is not a name; docker context use default fixes it")
    return name


def _endpoint(folder: str, context: str) -> str:
    # The command line client stores a context under the digest of its name.
    path = f"{folder}/contexts/meta/{hashlib.sha256(context.encode()).hexdigest()}/meta.json"
    if not os.path.exists(path):
        raise SandboxUnavailable(
            f'the docker context "{context}" does not exist ({path}): docker context use default, or set DOCKER_HOST'
        )
    document = _read(path)
    try:
        host = document["Endpoints"]["docker"]["Host"]
    except (KeyError, TypeError):
        host = None
    if not isinstance(host, str):
        raise SandboxUnavailable(f'the docker context "{context}" has no docker endpoint ({path})')
    return host


def _read(path: str) -> dict[str, Any]:
    try:
        document = json.loads(read_regular(path, most=_LARGEST, follow=True))
    except (OSError, ValueError, RecursionError) as error:
        raise SandboxUnavailable(f"{path} cannot be read: {error}; set DOCKER_HOST to the engine's socket") from None
    if not isinstance(document, dict):
        raise SandboxUnavailable(f"{path} is not a JSON object; set DOCKER_HOST to the engine's socket")
    return document
