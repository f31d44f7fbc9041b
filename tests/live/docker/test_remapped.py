"""On an engine with userns-remap a sandbox has a user namespace, and its files still have the right owner outside."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from crabpot.backends.docker import facts
from crabpot.errors import SandboxUnavailable
from tests.live.docker.live import backend, nothing_left, opened, spec_in

if TYPE_CHECKING:
    from pathlib import Path

    from crabpot.backends.docker.engine import Engine


async def test_users_are_mapped_and_files_belong_to_who_made_them(remapped_engine: Engine, open_folder: Path) -> None:
    found = await facts.find_out(remapped_engine)
    assert found.first_ids is not None
    first_uid, first_gid = found.first_ids
    spec = spec_in(open_folder)
    async with opened(remapped_engine, open_folder, name=spec.name, workspace=spec.workspace) as inside:
        shown = {one.name: one.state for one in await backend(remapped_engine, open_folder).probe(spec)}
        assert shown["namespaces"] == "enforced"
        assert (await inside.out("cat /proc/self/uid_map")).split() == ["0", str(first_uid), "65536"]
        assert await inside.out("echo x > file; chmod 700 .; id -u") == "65534\n"
        status = os.stat(f"{spec.workspace}/file")
        assert (status.st_uid, status.st_gid) == (first_uid + 65534, first_gid + 65534)

    workspace = open_folder / "agent"
    workspace.mkdir()
    with pytest.raises(SandboxUnavailable, match=f"chown -R {first_uid + 65534}:{first_gid + 65534} {workspace}"):
        await backend(remapped_engine, open_folder).open(spec_in(open_folder, workspace=str(workspace), private=False))
    os.chown(workspace, first_uid + 1234, first_gid + 1235)
    async with opened(remapped_engine, open_folder, workspace=str(workspace), private=False) as inside:
        assert await inside.out("id -u; id -g; echo x > by-shell") == "1234\n1235\n"
        assert (await inside.wire.call("write", {"path": "by-tool", "content": "x"}, timeout_s=20)).success
    owners = {(one.stat().st_uid, one.stat().st_gid) for one in workspace.iterdir()}
    assert owners == {(first_uid + 1234, first_gid + 1235)}
    await nothing_left(remapped_engine, open_folder)
