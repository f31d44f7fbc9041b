"""The file of a listening socket: made for owner and group alone, never through a link, never in a live one's place."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import stat

# Read and write for the owner and the group: connecting needs write.
_UMASK = 0o117
_WAITING = 1024
_LONGEST = 107


class CannotListen(Exception):
    """Why there is no socket, and what to do about it."""


class SocketFile:
    """A listening socket and its file."""

    def __init__(self, path: str) -> None:
        self._path = path
        if len(os.fsencode(path)) > _LONGEST:
            raise CannotListen("%s is longer than a socket's path may be (%d bytes)" % (path, _LONGEST))
        folder = os.path.dirname(path)
        try:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise CannotListen("%s: %s (make it first: mkdir -p %s)" % (folder, error.strerror, folder)) from error
        try:
            # Two runners that start at once must not both find the file of a dead one.
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._remove_stale()
            self.listener = self._bind()
        finally:
            os.close(lock)
        found = os.stat(path, follow_symlinks=False)
        self._identity = (found.st_dev, found.st_ino)

    def _remove_stale(self) -> None:
        try:
            mode = os.stat(self._path, follow_symlinks=False).st_mode
        except FileNotFoundError:
            return
        except OSError as error:
            raise CannotListen("%s: %s" % (self._path, error.strerror)) from error
        if not stat.S_ISSOCK(mode):
            kind = "a link" if stat.S_ISLNK(mode) else "not a socket"
            raise CannotListen("%s is %s, and is left alone: remove it, or name another path" % (self._path, kind))
        with socket.socket(socket.AF_UNIX) as probe:
            probe.setblocking(False)
            try:
                probe.connect(self._path)
            except ConnectionRefusedError:
                os.unlink(self._path)
                return
            except FileNotFoundError:
                return
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.EPERM, errno.EACCES):
                    raise CannotListen("%s: %s" % (self._path, error.strerror)) from error
        raise CannotListen("%s is in use: a runner listens there already" % self._path)

    def _bind(self) -> socket.socket:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
        before = os.umask(_UMASK)
        try:
            listener.bind(self._path)
        except OSError as error:
            listener.close()
            raise CannotListen("%s: %s" % (self._path, error.strerror)) from error
        finally:
            os.umask(before)
        listener.listen(_WAITING)
        return listener

    def remove(self) -> None:
        """Takes the file away, if it still is this one."""
        try:
            found = os.stat(self._path, follow_symlinks=False)
            if (found.st_dev, found.st_ino) == self._identity:
                os.unlink(self._path)
        except OSError:
            return
