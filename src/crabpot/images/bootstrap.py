"""An image's file system from Debian's packages, by mmdebstrap: without an image registry, and without an engine."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import sys
import tempfile
from typing import TYPE_CHECKING

from crabpot.errors import CrabpotError
from crabpot.images import packages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from crabpot.images.recipe import Recipe

# What a sandbox does not need, and what would differ from one build to the next.
_LEFT_OUT = ("/usr/share/man/*", "/usr/share/locale/*", "/usr/share/doc/*", "/usr/share/info/*")
_CLEANED = 'rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/* "$1"/var/log/*.log "$1"/root/.cache'
_SOURCES = ("/etc/apt/sources.list.d/debian.sources", "/etc/apt/sources.list")
_WHEELS = "/var/tmp/wheels"  # noqa: S108  in the file system that is being made, where nobody else is
_TOLD_AT_THE_END = 20


class BuildFailed(CrabpotError):
    """An image that could not be made."""


def argv(recipe: Recipe, target: str, sources: tuple[str, ...], wheels: str | None) -> list[str]:
    """Return the command. `sources` are apt's own files or lines; `wheels` is a folder with the packages from PyPI."""
    return [
        *("mmdebstrap", "--format=tar", "--variant=minbase", f"--include={','.join(recipe.debian)}"),
        *(f"--dpkgopt=path-exclude={path}" for path in _LEFT_OUT),
        '--aptopt=Acquire::Languages "none"',
        '--aptopt=APT::Install-Recommends "false"',
        *(f"--customize-hook={hook}" for hook in _hooks(recipe, wheels)),
        packages.SUITE,
        target,
        *sources,
    ]


def _hooks(recipe: Recipe, wheels: str | None) -> Iterator[str]:
    if wheels is not None:
        yield f'mkdir -p "$1{_WHEELS}"'
        yield f"sync-in {shlex.quote(wheels)} {_WHEELS}"
        install = "python3 -m pip install --no-cache-dir --break-system-packages --no-index --no-deps"
        yield f'chroot "$1" sh -c {shlex.quote(f"{install} {_WHEELS}/*.whl && rm -rf {_WHEELS}")}'
    yield f'chroot "$1" sh -c {shlex.quote(" && ".join(recipe.finish))}'
    yield _CLEANED


def sources() -> tuple[str, ...]:
    """Return this machine's own package sources if it is a Debian of that suite; else mmdebstrap has its own."""
    try:
        with open("/etc/os-release", encoding="utf-8") as file:
            facts = dict(line.rstrip().partition("=")[::2] for line in file)
    except OSError:
        return ()
    if (facts.get("ID"), facts.get("VERSION_CODENAME")) != ("debian", packages.SUITE):
        return ()
    return tuple(path for path in _SOURCES if os.path.isfile(path) and os.path.getsize(path))


async def make(recipe: Recipe, target: str, progress: Callable[[str], None]) -> None:
    """Make the file system as a tarball, whole or not at all."""
    if shutil.which("mmdebstrap") is None:
        raise BuildFailed("mmdebstrap is not installed: apt-get install mmdebstrap (or drop --from-packages)")
    with tempfile.TemporaryDirectory(prefix="crabpot-image-") as folder:
        wheels = None
        if recipe.python:
            wheels = f"{folder}/wheels"
            progress(f"fetching {', '.join(recipe.python)} from PyPI")
            # By this Python's pip, and so from the index that this machine uses. -P: an agent may have put a module of
            # pip's name into the current folder.
            fetch = (sys.executable, "-P", "-m", "pip", "download", "--no-deps", "--only-binary=:all:")
            await _run([*fetch, "--dest", wheels, *recipe.python], lambda _: None)
            os.chmod(wheels, 0o755)  # noqa: S103  nothing in it is secret, and mmdebstrap may be another user
        os.chmod(folder, 0o755)  # noqa: S103  as above
        # Two that make the same image at once must not write to one file.
        draft = f"{target}.{os.urandom(4).hex()}.part"
        try:
            await _run(argv(recipe, draft, sources(), wheels), lambda line: _tell(line, progress))
            os.replace(draft, target)
        finally:
            if os.path.exists(draft):
                os.unlink(draft)


def _tell(line: str, progress: Callable[[str], None]) -> None:
    """Pass on what mmdebstrap prints of its steps, except for the commands of ours that it repeats."""
    if line.startswith("I: ") and "--customize-hook" not in line and "tempdir" not in line:
        progress(line.removeprefix("I: ").rstrip("."))


async def _run(command: list[str], heard: Callable[[str], None]) -> None:
    """Run a program to its end; report its output line by line, and whole if it fails."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
    except OSError as error:
        raise BuildFailed(f"{command[0]} cannot be run: {error.strerror}") from None
    said: list[str] = []
    try:
        assert process.stdout is not None
        # In pieces: a progress bar writes lines without an end.
        left = b""
        while piece := await process.stdout.read(65536):
            *lines, left = (left + piece).replace(b"\r", b"\n").split(b"\n")
            for line in lines:
                said = [*said[1 - _TOLD_AT_THE_END :], line.decode("utf-8", "replace")]
                heard(said[-1])
            left = left[-65536:]
        code = await process.wait()
    except BaseException:
        process.terminate()
        await process.wait()
        raise
    if code != 0:
        output = "\n".join(line for line in said if line.strip())
        raise BuildFailed(f"{' '.join(command[:4])} … ended with {code}:\n{output}")
