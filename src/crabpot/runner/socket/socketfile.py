"""The file of a listening socket: for owner and group alone, never through a link, never replacing a live one."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import socket
import stat

from ..core.signals import signal

# Read and write for the owner and the group: connecting needs write.
_UMASK = 0o117
_WAITING = 1024
_LONGEST = 107
_REMOVAL_S = 2.0


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
        self._keeper: socket.socket | None = None
        # A folder that is removed with the file.
        self.private: str | None = None

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

    def start_remover(self) -> None:
        """Leave a process outside the wall that is about to go up, which removes the file at the end.

        Nobody within the wall may: the right to remove one file is the right to remove all files of its folder.
        """
        ours, theirs = socket.socketpair()
        child = os.fork()
        if child == 0:
            # Forked twice, so that it is not a child that the runner looks after.
            if os.fork() == 0:
                self._keep(ours, theirs)
            os._exit(0)
        os.waitpid(child, 0)
        theirs.close()
        self._keeper = ours

    def _keep(self, ours: socket.socket, theirs: socket.socket) -> None:
        """Wait until the runner says so, or is gone. It must hold nothing of the runner, least of all the listener."""
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        ours.close()
        self.listener.close()
        null = os.open("/dev/null", os.O_RDWR)
        for fd in (1, 2):
            os.dup2(null, fd)
        theirs.recv(1)
        self._remove_own()
        os._exit(0)

    def remove(self) -> None:
        """Remove the file, if it still is this one."""
        self.listener.close()
        if self._keeper is None:
            self._remove_own()
            return
        self._keeper.shutdown(socket.SHUT_WR)
        self._keeper.settimeout(_REMOVAL_S)
        with contextlib.suppress(OSError):
            self._keeper.recv(1)

    def _remove_own(self) -> None:
        try:
            found = os.stat(self._path, follow_symlinks=False)
            if (found.st_dev, found.st_ino) != self._identity:
                return
            os.unlink(self._path)
        except OSError:
            return
        if self.private is not None:
            shutil.rmtree(self.private, ignore_errors=True)
