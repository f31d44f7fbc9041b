"""Whose a gateway is: which configuration, which code, and which of the variables that say where things are.

The thin client imports this, so it imports next to nothing itself.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

SOCKET_NAME = "serve.sock"

# What settings and surroundings are made of besides the configuration: another value may mean another bind, another
# engine, or another place of credentials that must be refused.
DECISIVE = (
    *("HOME", "RUNNER_SOCKET", "DOCKER_HOST", "DOCKER_CONTEXT", "CONTAINER_HOST", "XDG_RUNTIME_DIR"),
    *("XDG_CONFIG_HOME", "GNUPGHOME", "DOCKER_CONFIG", "KUBECONFIG", "AWS_SHARED_CREDENTIALS_FILE"),
    *("AWS_CONFIG_FILE", "AZURE_CONFIG_DIR", "CLOUDSDK_CONFIG", "GOOGLE_APPLICATION_CREDENTIALS", "NETRC"),
    *("NPM_CONFIG_USERCONFIG", "PGPASSFILE", "PASSWORD_STORE_DIR", "GH_CONFIG_DIR", "XAUTHORITY"),
    *("GIT_CONFIG_GLOBAL", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "SOPS_AGE_KEY_FILE", "VAULT_TOKEN_PATH"),
    *("XDG_DATA_HOME", "CARGO_HOME"),
)
_TRACING, _COLLECTORS = "OTEL_", ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


def of_config(config: str | None, content: bytes) -> str:
    """Return the digest of a configuration: where it is, and what it says."""
    return "defaults" if config is None else digest(os.fsencode(config) + b"\0" + content)


def of_code(environ: Mapping[str, str]) -> str:
    """Return the digest of this code and of the decisive variables."""
    from crabpot import __version__  # noqa: PLC0415  what is a constant needs no import here

    given = [f"{name}={value}" for name, value in surroundings(environ).items()]
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    return digest("\0".join([package, __version__, sys.version, *given]).encode("utf-8", "surrogateescape"))


def surroundings(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the decisive variables; those of tracing are none where no collector is named."""
    traces = any(name in environ for name in _COLLECTORS)
    traced = sorted(name for name in environ if name.startswith(_TRACING)) if traces else ()
    return {name: environ[name] for name in (*DECISIVE, *traced) if name in environ}


def digest(data: bytes) -> str:
    """Return the SHA-256 of some bytes. `hashlib` would load OpenSSL, which takes as long as a whole call."""
    try:
        from _sha2 import sha256  # type: ignore[import-not-found]  # noqa: PLC0415  from Python 3.12 on
    except ImportError:
        try:
            from _sha256 import sha256  # type: ignore[import-not-found]  # noqa: PLC0415
        except ImportError:
            from hashlib import sha256  # noqa: PLC0415
    return str(sha256(data).hexdigest())
