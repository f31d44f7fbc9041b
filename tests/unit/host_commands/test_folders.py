"""The working folder of an elevated command: mapped from inside to the host, and never out of what is mounted."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from crabpot.errors import HostRefused
from crabpot.host_commands.folders import hold

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any


@pytest.fixture
def mapped(tmp_path: Path, machine_with: Callable[..., Any]) -> Any:
    (tmp_path / "data" / "deep").mkdir(parents=True)
    (tmp_path / "ref").mkdir()
    made = machine_with(binds=(f"{tmp_path}/data:/data:rw", f"{tmp_path}/ref:/data/ref"))
    (made.workspace / "sub").mkdir()
    return made


@pytest.mark.parametrize(
    ("cwd", "host"),
    [
        (None, "ws"),
        ("", "ws"),
        (".", "ws"),
        ("/workspace", "ws"),
        ("sub", "ws/sub"),
        ("/workspace/sub/../sub/", "ws/sub"),
        ("/data", "data"),
        ("/data/deep", "data/deep"),
        ("/data/ref", "ref"),
        ("../data/deep", "data/deep"),
    ],
)
def test_a_folder_inside_is_the_hosts_behind_the_deepest_mount(
    mapped: Any, tmp_path: Path, cwd: str | None, host: str
) -> None:
    folder = hold(mapped.spec, cwd)
    try:
        assert folder.path == str(tmp_path / host)
        assert os.path.samestat(os.fstat(folder.fd), os.stat(tmp_path / host))
    finally:
        folder.close()


@pytest.mark.parametrize("cwd", ["/", "/tmp", "/usr/bin", "/workspacex", "/proc/self/cwd", "../tmp", "/proc/self/fd/9"])
def test_what_is_the_sandboxs_own_is_no_folder_of_the_host(mapped: Any, cwd: str) -> None:
    with pytest.raises(HostRefused, match="is not on the host") as refused:
        hold(mapped.spec, cwd)
    assert refused.value.code == "outside"


@pytest.mark.parametrize("target", ["/", "/etc", "..", "../..", "/proc/self/root", "../home"])
def test_no_link_leads_out(mapped: Any, target: str) -> None:
    (mapped.workspace / "way").symlink_to(target)
    with pytest.raises(HostRefused):
        hold(mapped.spec, "way")


def test_a_link_within_is_read_as_the_sandbox_reads_it(mapped: Any) -> None:
    (mapped.workspace / "here").symlink_to("sub")
    (mapped.workspace / "there").symlink_to("/workspace/sub")
    for name in ("here", "there"):
        folder = hold(mapped.spec, name)
        folder.close()
        assert folder.path == str(mapped.workspace / "sub")


def test_what_is_not_there_or_no_folder_is_named(mapped: Any) -> None:
    (mapped.workspace / "file").write_text("")
    for name in ("none", "file"):
        with pytest.raises(HostRefused, match=f"/workspace/{name}"):
            hold(mapped.spec, name)


def test_the_agents_workspace_shown_read_only_is_mapped_too(machine_with: Callable[..., Any]) -> None:
    machine = machine_with(workspace="ro")
    folder = hold(machine.spec, "/agent")
    folder.close()
    assert folder.path == str(machine.workspace)


def test_a_private_folder_that_no_sandbox_made_yet_is_said_to_be_missing(machine_with: Callable[..., Any]) -> None:
    with pytest.raises(HostRefused, match="which is /workspace inside: No such file"):
        hold(machine_with(workspace="none").spec, None)
