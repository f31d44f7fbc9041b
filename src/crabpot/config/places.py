"""Locate the configuration, the state folder and what no sandbox may see. The working directory is never searched."""

from __future__ import annotations

import os
import pwd
from typing import TYPE_CHECKING

from crabpot.spec.binds import expand, is_under, normal

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE_NAME = "crabpot.json5"
_FIRST_PERSON, _NOBODY = 1000, 65534

# Variables by which programs find their credentials, and what of that place holds them.
_CREDENTIALS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        (
            *("XDG_CONFIG_HOME", "GNUPGHOME", "DOCKER_CONFIG", "KUBECONFIG", "AWS_SHARED_CREDENTIALS_FILE"),
            *("AWS_CONFIG_FILE", "AZURE_CONFIG_DIR", "CLOUDSDK_CONFIG", "GOOGLE_APPLICATION_CREDENTIALS", "NETRC"),
            *("NPM_CONFIG_USERCONFIG", "PGPASSFILE", "PASSWORD_STORE_DIR", "GH_CONFIG_DIR", "XAUTHORITY"),
            *("GIT_CONFIG_GLOBAL", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "SOPS_AGE_KEY_FILE", "VAULT_TOKEN_PATH"),
        ),
        ("",),
    ),
    "XDG_DATA_HOME": ("keyrings", "opencode", "containers"),
    "CARGO_HOME": ("credentials", "credentials.toml"),
}


def find_config(flag: str | None, environ: Mapping[str, str], home: str) -> str | None:
    """Return the configuration file to read, or None for the defaults."""
    chosen = environ.get("CRABPOT_CONFIG") if flag is None else flag
    if chosen or flag is not None:
        return os.path.abspath(expand(chosen or "", home))
    usual = usual_config(environ, home)
    try:
        os.lstat(usual)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        # A file that cannot be examined may deny what the defaults allow: reading it will report the error.
        return usual
    return usual


def usual_config(environ: Mapping[str, str], home: str) -> str:
    """Return the path of the user's own configuration."""
    return f"{_base(environ, 'XDG_CONFIG_HOME', f'{home}/.config')}/crabpot/{FILE_NAME}"


def find_state(flag: str | None, environ: Mapping[str, str], home: str) -> str:
    """Return the folder that holds the sandboxes' files, the audit log and the approvals."""
    chosen = flag or environ.get("CRABPOT_STATE")
    if chosen:
        return os.path.abspath(expand(chosen, home))
    return f"{_base(environ, 'XDG_STATE_HOME', f'{home}/.local/state')}/crabpot"


def find_keys(environ: Mapping[str, str], home: str) -> tuple[str, ...]:
    """List the places of credentials that variables name; one that contains the home cannot be kept apart from it."""
    named = [
        normal(f"{path}/{part}")
        for name, parts in _CREDENTIALS.items()
        for path in environ.get(name, "").split(":")
        for part in parts
        if path.startswith("/") and path != os.devnull
    ]
    return tuple(dict.fromkeys(path for path in named if path not in ("/", home) and not is_under(home, path)))


def find_homes(home: str) -> tuple[str, ...]:
    """List the homes other than $HOME: the account's own, and everybody's where the gateway runs as root."""
    accounts = pwd.getpwall() if os.geteuid() == 0 else [one for one in pwd.getpwall() if one.pw_uid == os.geteuid()]
    people = [one.pw_dir for one in accounts if one.pw_uid == os.geteuid() or _FIRST_PERSON <= one.pw_uid < _NOBODY]
    return tuple(dict.fromkeys(folder for folder in people if folder.startswith("/") and folder not in ("/", home)))


def find_sockets(environ: Mapping[str, str]) -> tuple[str, ...]:
    """List the sockets of container runtimes that variables name."""
    hosts = [environ.get(name, "") for name in ("DOCKER_HOST", "CONTAINER_HOST")]
    return tuple(host.removeprefix("unix://") for host in hosts if host.startswith("unix:///"))


def _base(environ: Mapping[str, str], name: str, usual: str) -> str:
    """Return an XDG folder; the specification says to ignore a relative one."""
    given = environ.get(name, "")
    return given if given.startswith("/") else usual


def planted(folder: str) -> str | None:
    """Return a configuration file in this folder that is not read, or None."""
    file = os.path.join(folder, FILE_NAME)
    return file if os.path.lexists(file) else None
