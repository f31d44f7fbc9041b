"""Remove a tree that an agent wrote, however deep, and with whatever permissions."""

from __future__ import annotations

import errno
import os
import stat


def remove_tree(folder: str) -> None:
    """Remove a folder and all in it, following no link.

    A folder inside is moved up to the top before it is emptied. So nothing here grows with the depth of the tree:
    neither the stack, nor the number of open files, nor the length of a path, each of which an agent could exhaust.
    """
    top = _open(folder, None)
    try:
        moved = 0
        while names := os.listdir(top):
            for name in names:
                if not _unlinked(name, top):
                    moved = _empty(name, top, moved)
                    os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
    os.rmdir(folder)


def remove_mapped_tree(folder: str) -> None:
    """Remove a tree whose files belong to this user's subordinate ids, as a rootless engine's containers leave it.

    OSError if this user has no such ids, or the tools for them are missing or old.
    """
    import subprocess  # noqa: PLC0415  slow to import, and seldom needed

    # In another process: one with several threads cannot enter a user namespace.
    command = ["unshare", "--user", "--map-root-user", "--map-auto", "rm", "-rf", "--", os.path.abspath(folder)]
    ended = subprocess.run(
        command, env={"PATH": "/usr/bin:/bin"}, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    if ended.returncode != 0:
        raise PermissionError(ended.stderr.decode("utf-8", "replace").strip())


def _empty(name: str, top: int, moved: int) -> int:
    folder = _open(name, top)
    try:
        for inner in os.listdir(folder):
            if not _unlinked(inner, folder):
                os.close(_open(inner, folder))
                moved = _move_up(inner, folder, top, moved)
    finally:
        os.close(folder)
    return moved


def _move_up(name: str, folder: int, top: int, moved: int) -> int:
    while True:
        moved += 1
        try:
            os.rename(name, f"{moved}", src_dir_fd=folder, dst_dir_fd=top)
        except OSError as error:
            # The agent has something of that name there.
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
        else:
            return moved


def _unlinked(name: str, folder: int) -> bool:
    try:
        os.unlink(name, dir_fd=folder)
    except (IsADirectoryError, PermissionError):
        if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            return False
        raise
    return True


def _open(name: str, folder: int | None) -> int:
    """Open a folder to list and empty it; its owner may have removed its permissions to keep it."""
    handle = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        if os.fstat(handle).st_mode & stat.S_IRWXU != stat.S_IRWXU:
            os.chmod(f"/proc/self/fd/{handle}", stat.S_IRWXU)
        return os.open(f"/proc/self/fd/{handle}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    finally:
        os.close(handle)
