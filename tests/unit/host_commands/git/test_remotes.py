"""Where a remote may be."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from crabpot.errors import HostRefused
from crabpot.host_commands.git.remotes import is_this_machine, judge

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    "url",
    [
        "ssh://git@example.com/x.git",
        "ssh://example.com:2222/~u/x",
        "git@example.com:o/r.git",
        "example.com:r",
        "https://example.com/o/r",
        "https://u:token@example.com/r",
        "u@[2001:db8::1]:r",
        "ssh://[2001:db8::1]:22/r",
        "[example.com:22]:r",
    ],
)
def test_ssh_and_https_are_spoken(url: str) -> None:
    found = judge(url, folder="/nowhere", written=())
    assert (found.url, found.path, found.marks) == (url, None, ())


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/r",
        "git://example.com/r",
        "ftp://example.com/r",
        "ext::sh -c x",
        "ext::x",
        "fd::3,4",
        "transport::https://x",
        "HTTPS://example.com/r",
        "git+ssh://h/r",
        "ssh+git://h/r",
        "rsync://h/r",
        "-oProxyCommand=x",
        "ssh://-oProxyCommand=x/r",
        "-x@h:r",
        "ssh://-x@h/r",
        "-oProxyCommand=x:r",
        "u@-oProxyCommand=x:r",
        "h:-r",
        "ssh://h/-r",
        "ssh://%2DoProxyCommand=x/r",
        "https:///r",
        "ssh://",
        "",
        "a\nb",
        "h:r x",
        "h:\u202er",
        "file://host/x",
        "x" * 5000,
    ],
)
def test_all_else_is_refused(url: str) -> None:
    with pytest.raises(HostRefused) as refused:
        judge(url, folder="/nowhere", written=())
    assert refused.value.code in ("denied", "not_found")


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST.",
        "x.localhost",
        "127.0.0.1",
        "127.9.9.9",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0",
        "::1",
        "0:0:0:0:0:0:0:1",
        "::ffff:127.0.0.1",
        socket.gethostname(),
    ],
)
def test_this_machine_is_marked_in_any_spelling(host: str) -> None:
    assert is_this_machine(host)
    bracketed = f"[{host}]" if ":" in host else host
    assert judge(f"ssh://{bracketed}/r", folder="/", written=()).marks == (f"{host} is this machine",)


def test_others_are_not() -> None:
    assert not any(map(is_this_machine, ["example.com", "10.0.0.1", "2001:db8::1", "localhost.example.com"]))


def test_a_path_is_resolved_and_none_that_a_sandbox_may_write(tmp_path: Path) -> None:
    for name in ("mine.git", "agent", "agent/r.git", "near", "near.git", "up/agent2"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "agent" / "r.git")
    (tmp_path / "mine.link").symlink_to(tmp_path / "mine.git")
    written = [str(tmp_path / one) for one in ("agent", "near.git", "up/agent2")]
    found = judge("../mine.link", folder=str(tmp_path / "agent"), written=written)
    assert (found.url, found.path) == (str(tmp_path / "mine.git"),) * 2
    assert found.marks == (f"{tmp_path}/mine.git is a folder of this machine",)
    assert judge(f"file://{tmp_path}/mine.git", folder="/", written=written).path == found.path
    # The last two: git looks for near.git where it is told near, and what holds an agent's folder can be swapped in part.
    for name in ("agent", "agent/r.git", "agent/missing", "link", "near", "up", ""):
        with pytest.raises(HostRefused, match="a sandbox may write"):
            judge(f"{tmp_path}/{name}", folder="/", written=written)
    with pytest.raises(HostRefused, match="is no folder"):
        judge(f"{tmp_path}/none", folder="/", written=written)
