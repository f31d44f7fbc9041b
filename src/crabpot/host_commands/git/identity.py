"""The committer: the operator's name and address for git in a guard, where the operator's configuration is absent."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from crabpot.host_commands import trusted

if TYPE_CHECKING:
    from collections.abc import Mapping

_TIMEOUT_S = 5.0
_LONGEST = 256
# Confined as it is, git may work in another user's folder, as root does in an agent's.
_FIXED = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "safe.directory",
    "GIT_CONFIG_VALUE_0": "*",
}


async def variables(env: Mapping[str, str], home: str) -> dict[str, str]:
    """Return git's variables for the committer; without a name or address, git itself reports what is missing."""
    git = trusted.find("git", env["PATH"], ()).path
    name, address = [await _configured(git, key, env, home) for key in ("user.name", "user.email")]
    given = {"NAME": name, "EMAIL": address}
    who = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in given.items() if value}
    return {**_FIXED, **who}


async def _configured(git: str, key: str, env: Mapping[str, str], home: str) -> str | None:
    """Return one value of the operator's own configuration, without looking for a repository."""
    process = await asyncio.create_subprocess_exec(
        *(git, "config", "--global", "--get", key),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        cwd="/",
        env={"HOME": home, "PATH": env["PATH"]},
    )
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            said, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return None
    text = said.decode("utf-8", "replace").strip()
    return text if process.returncode == 0 and 0 < len(text) <= _LONGEST and text.isprintable() else None
