"""An sshd of the test's own on the loopback, and an account that it lets the gateway in as."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

# Of this process alone: several may test at once.
USER = f"crabpot-hop-{os.getpid()}"


class Server:
    """An sshd on a port of its own, with a key that lets the gateway in as the user."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.key = folder, folder / "key"
        self._keygen(self.key)
        self._keygen(folder / "host")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        allowed = folder / "allowed"
        shutil.copy(folder / "key.pub", allowed)
        allowed.chmod(0o644)
        (folder / "config").write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nAuthorizedKeysFile {allowed}\n"
            "StrictModes no\nUsePAM no\nPasswordAuthentication no\nPidFile none\nLogLevel QUIET\n"
        )
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @staticmethod
    def _keygen(path: Path) -> None:
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)

    def note(self, state: Path) -> None:
        """Note its key as an operator would who looked at it."""
        state.mkdir(mode=0o700, exist_ok=True)
        key = (self.folder / "host.pub").read_text()
        (state / "loopback_host_keys").write_text(f"[127.0.0.1]:{self.port} {key}")

    def start(self) -> None:
        os.makedirs("/run/sshd", exist_ok=True)
        self._process = subprocess.Popen(["/usr/sbin/sshd", "-D", "-f", str(self.folder / "config")])
        deadline = time.monotonic() + 20
        while True:
            with socket.socket() as trying:
                if trying.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            assert time.monotonic() < deadline, "sshd does not answer"
            time.sleep(0.01)

    def stop(self) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait()

    def change_key(self) -> None:
        self.stop()
        for name in ("host", "host.pub"):
            (self.folder / name).unlink()
        self._keygen(self.folder / "host")
        self.start()


@contextmanager
def running() -> Iterator[Server]:
    """Make the account, start the server, and leave neither."""
    if os.geteuid() != 0 or not shutil.which("sshd", path="/usr/sbin"):
        pytest.skip("needs root, and openssh-server: an account is made and an sshd started")
    try:
        pwd.getpwnam(USER)
    except KeyError:
        subprocess.run(["useradd", "--create-home", "--shell", "/bin/sh", "--password", "*", USER], check=True)
    folder = Path(tempfile.mkdtemp(prefix="crabpot-sshd-"))
    folder.chmod(0o755)
    made = Server(folder)
    try:
        yield made
    finally:
        made.stop()
        shutil.rmtree(folder)
        subprocess.run(["userdel", "--remove", USER], check=False, capture_output=True)
