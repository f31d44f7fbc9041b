"""The registry that a person's own npm or pip uses, as it is configured: asked of the tool itself, on the host."""

from __future__ import annotations

import ast
import asyncio
import os
import socket
import sys
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from crabpot.decide.servers import place_of_url
from crabpot.egress.addresses import special
from crabpot.errors import CrabpotError
from crabpot.presets import programs
from crabpot.settings import TRUSTED_PATH

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from crabpot.presets.programs import Program

# What pip uses where nothing is written: it has no command that says so. npm has one.
_DEFAULTS = (
    "from pip._internal.models.index import PyPI as it; print(it.simple_url, 'https://' + it.file_storage_domain)"
)
_ASK_S = 30.0
_AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Installer:
    """What installs a package inside: the program, its variables, what is shown for it, and the places it may reach."""

    argv: tuple[str, ...]
    program: Program
    env: Mapping[str, str]
    places: tuple[str, ...]
    shows: tuple[str, ...] = ()


async def npm(environ: Mapping[str, str], home: str) -> Installer:
    """Return npm, as it is configured for this person."""
    program = programs.find("npm", environ.get("PATH", TRUSTED_PATH), home, "install Node.js with npm")
    url = (await _asked(environ, "npm", "config", "get", "registry")).strip()
    env = {"npm_config_registry": url, "npm_config_cache": "/workspace/cache", "npm_config_update_notifier": "false"}
    cafile = (await _asked(environ, "npm", "config", "get", "cafile")).strip()
    authorities = cafile if cafile.startswith("/") else environ.get("NODE_EXTRA_CA_CERTS") or _AUTHORITIES
    if os.path.isfile(authorities):
        env["NODE_EXTRA_CA_CERTS"] = authorities
    places = await _places([url])
    return Installer(argv=program.argv, program=program, env=env, places=places, shows=_shown(authorities))


async def pip(environ: Mapping[str, str], home: str) -> Installer:
    """Return the pip of the first Python that has one, as it is configured for this person."""
    path = environ.get("PATH", TRUSTED_PATH)
    for python in (sys.executable, getattr(sys, "_base_executable", ""), "/usr/bin/python3"):
        try:
            said = await _asked(environ, python, "-m", "pip", "config", "list")
        except CrabpotError:
            continue
        program = programs.find(python, path, home)
        break
    else:
        raise CrabpotError("no Python here has pip, which installs the package: python3 -m ensurepip")
    found = _pip_settings(said)
    urls = [url for key in ("index-url", "extra-index-url") for url in found.get(key, "").split()]
    if "index-url" not in found:
        urls += (await _asked(environ, python, "-c", _DEFAULTS)).split()
    env = {
        f"PIP_{key.upper().replace('-', '_')}": found[key] for key in ("index-url", "extra-index-url") if key in found
    }
    authorities = found.get("cert") or _AUTHORITIES
    if os.path.isfile(authorities):
        env["PIP_CERT"] = authorities
    env |= {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_CACHE_DIR": "1", "PIP_NO_INPUT": "1"}
    places = await _places(urls)
    argv = (*program.argv, "-m", "pip")
    return Installer(argv=argv, program=program, env=env, places=places, shows=_shown(authorities))


def _pip_settings(said: str) -> dict[str, str]:
    """Parse what `pip config list` prints; what the environment says comes last, and counts."""
    found: dict[str, str] = {}
    lines = sorted(said.splitlines(), key=lambda line: line.startswith(":env:"))
    for line in lines:
        name, equals, value = line.partition("=")
        try:
            text = ast.literal_eval(value) if equals else None
        except (ValueError, SyntaxError):
            continue
        if isinstance(text, str) and text:
            found[name.rpartition(".")[2]] = text
    return found


def _shown(authorities: str) -> tuple[str, ...]:
    """Return a file of authorities that a sandbox does not have by itself."""
    own = authorities.startswith("/etc/ssl/") or not os.path.isfile(authorities)
    return () if own else (authorities,)


async def _places(urls: Iterable[str]) -> tuple[str, ...]:
    """Return what a registry's addresses list: its hosts, and where they lead if that is inside this network.

    A company's registry has a private address, and the person wrote its name themselves.
    """
    made: dict[str, None] = {}
    for url in urls:
        parts = urlsplit(url)
        if parts.scheme not in ("https", "http") or not parts.hostname:
            raise CrabpotError(f"the registry {url!r} has no address that can be reached; see npm or pip config")
        if parts.username or parts.password:
            raise CrabpotError("the registry's address has a password in it, which would be seen inside")
        place = place_of_url(url)
        port = place.rpartition(":")[2]
        made[place] = None
        for address in await asyncio.to_thread(_addresses, parts.hostname):
            found = special(ip_address(address))
            if found is not None and not found.never:
                made[f"[{address}]:{port}" if ":" in address else f"{address}:{port}"] = None
    return tuple(made)


def _addresses(host: str) -> set[str]:
    try:
        return {str(one[4][0]) for one in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except OSError:
        return set()


async def _asked(environ: Mapping[str, str], *words: str) -> str:
    """Return what one of the person's own tools says of its configuration; never in a folder that has one too."""
    pipe = asyncio.subprocess.PIPE
    try:
        asking = await asyncio.create_subprocess_exec(
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=pipe,
            stderr=asyncio.subprocess.DEVNULL,
            cwd="/",
            env=dict(environ),
        )
    except OSError as error:
        raise CrabpotError(f"{words[0]} cannot be asked for its registry: {error.strerror}") from None
    try:
        async with asyncio.timeout(_ASK_S):
            said, _ = await asking.communicate()
    except TimeoutError:
        raise CrabpotError(f"{words[0]} did not say its registry within {_ASK_S:g} s") from None
    finally:
        if asking.returncode is None:
            asking.kill()
            await asking.wait()
    if asking.returncode:
        raise CrabpotError(f"{' '.join(words)} failed with exit code {asking.returncode}")
    return said.decode("utf-8", "replace")
