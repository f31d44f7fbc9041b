"""Files and folders between this machine and a sandbox. What comes out is hostile: it stays below the target."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

from crabpot.errors import CallFailed
from crabpot.state.untrusted import CAREFULLY

if TYPE_CHECKING:
    from crabpot.doors.python.files import Files

_DEEPEST = 64
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


async def upload(files: Files, source: str, path: str) -> None:
    """Copy a file or folder in. A link that was named itself is followed; nothing below it is."""
    await _send(files, os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), path, 0)


async def _send(files: Files, handle: int, path: str, depth: int) -> None:
    mode = os.fstat(handle).st_mode
    if stat.S_ISREG(mode):
        with os.fdopen(handle, "rb") as file:
            await files.write(path, file)
        return
    try:
        if not stat.S_ISDIR(mode) or depth > _DEEPEST:
            raise CallFailed("not_a_file", f"{path}: only files and folders, {_DEEPEST} deep at most, are copied")
        await files.mkdir(path, parents=True, exist_ok=True)
        for name in sorted(os.listdir(handle)):
            kind = os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode
            if stat.S_ISREG(kind) or stat.S_ISDIR(kind):
                await _send(files, os.open(name, CAREFULLY, dir_fd=handle), f"{path.rstrip('/')}/{name}", depth + 1)
    finally:
        os.close(handle)


async def download(files: Files, path: str, target: str) -> None:
    """Copy a file or folder out, to the target itself."""
    if (await files.stat(path)).is_directory:
        os.makedirs(target, exist_ok=True)
        await _receive_folder(files, path, os.open(target, _FOLDER), 0)
        return
    folder = os.open(os.path.dirname(target) or ".", _FOLDER)
    try:
        await _receive_file(files, path, folder, os.path.basename(target))
    finally:
        os.close(folder)


async def _receive_folder(files: Files, path: str, folder: int, depth: int) -> None:
    try:
        if depth > _DEEPEST:
            raise CallFailed("invalid_arguments", f"folders nested deeper than {_DEEPEST} are not copied")
        for entry in await files.ls(path):
            inner = f"{path.rstrip('/')}/{entry.name}"
            if entry.name in (".", ".."):
                raise CallFailed("internal", f"the sandbox listed {entry.name!r}, which is not a file name")
            if entry.is_directory:
                await _receive_folder(files, inner, _open_folder(entry.name, folder), depth + 1)
            elif entry.type == "file":
                await _receive_file(files, inner, folder, entry.name)
    finally:
        os.close(folder)


def _open_folder(name: str, above: int) -> int:
    """Make or open a folder; a link in its place is an error, and is not followed."""
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=above)
    return os.open(name, CAREFULLY | os.O_DIRECTORY, dir_fd=above)


async def _receive_file(files: Files, path: str, folder: int, name: str) -> None:
    part = f".crabpot-{os.urandom(8).hex()}.part"
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=folder)
    try:
        with os.fdopen(handle, "wb") as file:

            def keep(_stream: str, data: bytes) -> None:
                file.write(data)

            await files.read_into(path, keep)
        os.replace(part, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        os.unlink(part, dir_fd=folder)
        raise
