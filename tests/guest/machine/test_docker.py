"""The docker backend on an engine with cgroup v2 and AppArmor: limits that bite, and the profile that Crabpot prints. As root."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.suites import open_gateway

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY = "agent:main:x"
SLOW_S = 240.0
PROFILE = Path("/etc/apparmor.d/crabpot")


@pytest.fixture(scope="module", autouse=True)
def _engine() -> Iterator[None]:
    """Start the system's engine, with an image of this guest's own programs: there is nothing to pull."""
    run("systemctl", "start", "docker.service")
    # A shell, coreutils and Python with their libraries: the whole of /usr takes minutes to pack where it is emulated.
    libraries = "usr/lib/x86_64-linux-gnu/*.so* usr/lib/python3 usr/lib/python3.* usr/lib64"
    programs = "$(ls -d usr/bin/* | grep -vE 'docker|containerd|runc|ctr|git|perl|nsys|rg$|openssl|ssh')"
    kept = f"{libraries} {programs} bin lib lib64 sbin etc/passwd etc/group etc/alternatives etc/ld.so.cache"
    packed = f"cd / && tar -c --exclude=dist-packages --exclude=__pycache__ {kept}"
    run("sh", "-c", f"{packed} | docker import - crabpot-sandbox:latest")
    PROFILE.write_text(run(sys.executable, "-P", "-m", "crabpot", "render", "apparmor"))
    run("apparmor_parser", "--replace", str(PROFILE))
    yield
    run("apparmor_parser", "--remove", str(PROFILE))
    PROFILE.unlink()
    run("systemctl", "stop", "docker.service", "docker.socket")


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, cwd="/crabpot")
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


async def test_limits_bite_and_the_profile_is_enforced(tmp_path: Path) -> None:
    sandbox = {
        "backend": "docker",
        "limits": {"memory": "96m", "cpus": 0.3, "pids": 40},
        "docker": {"apparmor": "crabpot"},
    }
    gateway = open_gateway(json.dumps({"agents": {"defaults": {"sandbox": sandbox}}}), str(tmp_path / "state"))
    try:
        await _check(gateway)
    finally:
        await gateway.close()


async def _check(gateway: Any) -> None:
    label = await gateway.call(KEY, "exec", command="cat /proc/self/attr/current", timeout=SLOW_S)
    assert label.stdout.strip() == "crabpot (enforce)", label
    agent = gateway.settings.agent("main")
    spec = gateway.execution.describe(agent, KEY)[0]
    told = {one.name: one.state for one in (await gateway.execution.registry.clauses(spec))[1]}
    for name in ("limits.memory", "limits.cpus", "limits.pids", "apparmor"):
        assert told[name] == "enforced", told
    hog = 'exec python3 -c "b = bytearray(400 << 20); print(len(b))"'
    hit = await gateway.call(KEY, "exec", command=hog, timeout=SLOW_S)
    assert hit.error is not None, hit
    assert hit.error.code == "memory_limit", hit
    forks = "i=0; while [ $i -lt 100 ]; do sleep 60 & i=$((i + 1)); done; echo all of them"
    assert "all of them" not in (await gateway.call(KEY, "exec", command=forks, timeout=SLOW_S)).stdout
    denied = await gateway.call(
        KEY, "exec", command="cat /proc/sysrq-trigger; echo x > /proc/sys/kernel/hostname", timeout=SLOW_S
    )
    assert not denied.success
    (live,) = gateway.execution.fleet.listed()
    await live.sandbox.freeze()
    await live.sandbox.thaw()
    assert (await gateway.call(KEY, "exec", command="echo alive", timeout=SLOW_S)).stdout == "alive\n"
