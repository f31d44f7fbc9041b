"""From inside, on a network of docker's own, to a real sshd: ssh asks who it is, and finds an entry in passwd."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from crabpot.spec.network import NetworkSpec
from crabpot.spec.spec import Mount
from tests.live.docker.live import opened

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crabpot.backends.docker.engine import Engine

SSHD = "/usr/sbin/sshd"
PORT = 2222

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="starting an sshd in the engine's network needs root"),
    pytest.mark.skipif(not os.path.exists(SSHD), reason="apt-get install openssh-server"),
]


@contextmanager
def sshd(engine: Engine, folder: Path, address: str) -> Iterator[None]:
    """Listen where the engine's bridges are, for one key and one command."""
    for name in ("host", "own"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True, stdin=subprocess.DEVNULL
        )
    # sshd drops to this user's folder before anybody logs in; only its package's start-up script makes it.
    os.makedirs("/run/sshd", exist_ok=True)
    settings = {
        "Port": PORT,
        "ListenAddress": address,
        "HostKey": folder / "host",
        "AuthorizedKeysFile": folder / "own.pub",
        "StrictModes": "no",
        "UsePAM": "no",
        "PermitRootLogin": "prohibit-password",
        "ForceCommand": 'echo "hello, $SSH_ORIGINAL_COMMAND"',
        "PidFile": "none",
    }
    (folder / "config").write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    pid = Path(engine.path).with_name("docker.pid").read_text().strip()
    process = subprocess.Popen(
        ["nsenter", f"--net=/proc/{pid}/ns/net", SSHD, "-D", "-e", "-f", folder / "config"],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        assert "Server listening" in process.stderr.readline()
        yield
    finally:
        process.terminate()
        process.communicate(timeout=20)


async def test_ssh_reaches_a_real_sshd_on_a_network_of_ones_own(engine: Engine, tmp_path: Path) -> None:
    if not Path(engine.path).with_name("docker.pid").exists():
        pytest.skip("the engine was not started by scripts/docker-engine, so that its network is not known")
    name = f"crabpot-test-{os.urandom(4).hex()}"
    await engine.post("/networks/create", body={"Name": name, "Internal": True})
    try:
        found = await engine.get(f"/networks/{name}")
        address = found["IPAM"]["Config"][0]["Gateway"].partition("/")[0]
        (tmp_path / "sshd").mkdir()
        with sshd(engine, tmp_path / "sshd", address):
            keys = tmp_path / "keys"
            keys.mkdir()
            shutil.copy(tmp_path / "sshd/own", keys / "own")
            os.chmod(keys / "own", 0o644)
            mounts = (Mount(source=str(keys), target="/keys", access="ro"),)
            async with opened(engine, tmp_path, network=NetworkSpec(kind="named", name=name), mounts=mounts) as inside:
                command = (
                    # ssh takes no key that others can read.
                    "cp /keys/own own && chmod 600 own && "
                    "ssh -F none -i own -o UserKnownHostsFile=known -o StrictHostKeyChecking=accept-new "
                    f"-o BatchMode=yes -p {PORT} root@{address} from inside"
                )
                assert "hello, from inside\n" in await inside.out(command)
                assert "ed25519" in await inside.out("cat known")
        started = time.monotonic()
        async with opened(engine, tmp_path) as alone:
            assert "hello" not in await alone.out(f"ssh -F none -o BatchMode=yes -p {PORT} root@{address} x")
        assert time.monotonic() - started < 20
    finally:
        await engine.delete(f"/networks/{name}")
