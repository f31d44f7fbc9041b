"""What an engine says of itself, read as what matters to a sandbox."""

from __future__ import annotations

import os
from typing import Any

import pytest

from crabpot.backends.docker.facts import find_out


class Said:
    """An engine that answers with what it was given."""

    path = "/run/docker.sock"

    def __init__(self, **info: Any) -> None:
        self.info = {"OSType": "linux", "NCPU": 2, "KernelVersion": os.uname().release, **info}

    async def negotiate(self) -> dict[str, Any]:
        return {"Version": "28.0"}

    async def get(self, _path: str) -> dict[str, Any]:
        return self.info


async def facts_of(**info: Any) -> Any:
    return await find_out(Said(**info))  # type: ignore[arg-type]


async def test_a_rootless_engine_is_recognised() -> None:
    found = await facts_of(SecurityOptions=["name=seccomp,profile=builtin", "name=rootless", "name=cgroupns"])
    assert found.rootless
    assert found.remapped
    assert found.first_ids is None


async def test_an_engine_that_maps_users_tells_how() -> None:
    found = await facts_of(SecurityOptions=["name=userns"], DockerRootDir="/var/lib/docker/100000.200000")
    assert (found.remapped, found.rootless, found.first_ids) == (True, False, (100_000, 200_000))


@pytest.mark.parametrize("root", ["/var/lib/docker", "/srv/docker.1", "/srv/1.2/docker", None])
async def test_a_folder_that_does_not_tell_is_not_guessed_from(root: str | None) -> None:
    assert (await facts_of(SecurityOptions=["name=userns"], DockerRootDir=root)).first_ids is None


async def test_a_folder_that_only_looks_so_means_nothing_without_mapping() -> None:
    assert (await facts_of(SecurityOptions=["name=seccomp"], DockerRootDir="/srv/1.2")).first_ids is None


async def test_gvisor_is_known_by_its_name_its_program_or_its_shim() -> None:
    runtimes = {
        "runc": {"path": "runc"},
        "runsc": {"path": "/opt/x"},
        "strong": {"path": "/usr/bin/runsc", "runtimeArgs": ["--platform=ptrace"]},
        "shim": {"runtimeType": "io.containerd.runsc.v1"},
        "kata": {"path": "/usr/bin/kata-runtime"},
    }
    found = await facts_of(Runtimes=runtimes)
    assert found.gvisor == {"runsc", "strong", "shim"}
    assert found.runtimes == set(runtimes)


@pytest.mark.parametrize(
    ("info", "shared"),
    [({}, True), ({"KernelVersion": "6.1.0-linuxkit"}, False), ({"OperatingSystem": "Docker Desktop"}, False)],
)
async def test_an_engine_in_a_virtual_machine_has_another_kernel(info: dict[str, Any], shared: object) -> None:
    assert (await facts_of(**info)).same_kernel is shared
