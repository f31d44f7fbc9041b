"""Where a remote may be."""

from __future__ import annotations

import re
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
        "https://token:@example.com/r",
        "u@[2001:db8::1]:r",
        "ssh://[2001:db8::1]:22/r",
        "[example.com:22]:r",
    ],
)
def test_ssh_and_https_are_spoken(url: str) -> None:
    found = judge(url, folder="/nowhere", written=(), secrets=())
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
        # Which host these name depends on who reads them.
        "ssh://localhost%2f@github.com/x.git",
        "ssh://github.com%3a22@localhost/x",
        "ssh://a@b@localhost/x",
        "ssh://u:p@example.com/x",
        "[git@localhost]:/srv/x.git",
        "u@[git@localhost]:x",
        "a@b@localhost:x",
        "github.com:x@[localhost]:/srv/y",
        "ssh://github.com/x@[localhost]/y",
        "ssh://github.com/x%40%5blocalhost]/y",
        "https://localhost:1#@github.com/x",
        "https://localhost:1?@github.com/x",
        "https://localhost#@github.com/x",
        "https://localhost\\@github.com/x",
        "https://u:p@h@localhost/x",
        "https://github.com%40localhost/x",
        "https://loc%61lhost/x",
        "https://ｌocalhost/x",
        "ｌocalhost:x",
        "https://localhost:x/y",
        "ssh://[fe80::1%25lo]/x",
        "[localhost:22:1]:x",
        "[]:x",
        ":x",
        "ssh://h/a%0ab",
        "ssh://h/%2Dr",
        "file:///a%00b",
        "x" * 5000,
    ],
)
def test_all_else_is_refused(url: str) -> None:
    with pytest.raises(HostRefused) as refused:
        judge(url, folder="/nowhere", written=(), secrets=())
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
    assert judge(f"ssh://{bracketed}/r", folder="/", written=(), secrets=()).marks == (f"{host} is this machine",)


def test_others_are_not() -> None:
    assert not any(map(is_this_machine, ["example.com", "192.0.2.1", "2001:db8::1", "localhost.example.com"]))


def test_the_addresses_of_its_interfaces_and_its_other_names_are_this_machine(tmp_path: Path) -> None:
    with open("/proc/net/fib_trie", encoding="ascii") as table:
        own = set(re.findall(r"\|-- (\S+)\n\s+/32 host LOCAL", table.read()))
    assert "127.0.0.1" in own
    for address in own:
        assert is_this_machine(address)
        (tmp_path / "hosts").write_text(f"192.0.2.1 far\n# {address} none\n{address}\tOne two.example. # three\n")
        for name, expected in (("one", True), ("two.example", True), ("far", False), ("none", False), ("three", False)):
            assert is_this_machine(name, hosts=str(tmp_path / "hosts")) is expected
    (tmp_path / "resolv").write_text("nameserver 192.0.2.1\nsearch lan example.org\n")
    short = socket.gethostname().partition(".")[0]
    assert is_this_machine(f"{short}.example.org", resolver=str(tmp_path / "resolv"))
    assert not is_this_machine("other.example.org", resolver=str(tmp_path / "resolv"))


def test_a_path_is_resolved_and_none_that_a_sandbox_may_write(tmp_path: Path) -> None:
    for name in ("mine.git", "agent", "agent/r.git", "near", "near.git", "up/agent2"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "agent" / "r.git")
    (tmp_path / "mine.link").symlink_to(tmp_path / "mine.git")
    written = [str(tmp_path / one) for one in ("agent", "near.git", "up/agent2")]
    found = judge("../mine.link", folder=str(tmp_path / "agent"), written=written, secrets=())
    assert (found.url, found.path) == (str(tmp_path / "mine.git"),) * 2
    assert found.marks == (f"{tmp_path}/mine.git is a folder of this machine",)
    assert judge(f"file://{tmp_path}/mine.git", folder="/", written=written, secrets=()).path == found.path
    # The last two: git looks for near.git where it is told near, and what holds an agent's folder can be swapped in part.
    for name in ("agent", "agent/r.git", "agent/missing", "link", "near", "up", ""):
        with pytest.raises(HostRefused, match="a sandbox may write"):
            judge(f"{tmp_path}/{name}", folder="/", written=written, secrets=())
    with pytest.raises(HostRefused, match="is no folder"):
        judge(f"{tmp_path}/none", folder="/", written=written, secrets=())


def test_a_folder_whose_git_is_a_file_that_leads_to_an_agents_is_no_remote(tmp_path: Path) -> None:
    """`git worktree add` leaves such a file: the hooks and the configuration that git would obey are the agent's."""
    agent, plain = tmp_path / "agent", tmp_path / "plain"
    for made in (agent / ".git" / "worktrees" / "hotfix", tmp_path / "hotfix", tmp_path / "bare", plain / ".git"):
        made.mkdir(parents=True)
    (tmp_path / "hotfix" / ".git").write_text(f"gitdir: {agent}/.git/worktrees/hotfix\n")
    (tmp_path / "bare.git").write_text(f"gitdir: {agent}/.git\n")
    written = [str(agent)]
    assert judge(str(plain), folder="/", written=written, secrets=()).path == str(plain)
    for name in ("hotfix", "bare"):
        with pytest.raises(HostRefused, match=r"its \.git leads elsewhere"):
            judge(f"{tmp_path}/{name}", folder="/", written=written, secrets=())


@pytest.mark.parametrize(
    "url", ["https://github.com:443@evil.example/x", "ssh://github.com@evil.example/x", "github.com@evil.example:x"]
)
def test_a_user_that_reads_like_a_host_is_pointed_out(url: str) -> None:
    assert judge(url, folder="/", written=(), secrets=()).marks == (
        "the host is evil.example; github.com is a user there",
    )


def test_crabpots_own_and_places_of_credentials_are_no_remotes(tmp_path: Path) -> None:
    for name in ("home/.password-store/sub", "home/.ssh.git", "home/fine.git", "far/state/git/x.git"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "home" / ".password-store")
    (tmp_path / "state").symlink_to(tmp_path / "far" / "state")
    secrets = [str(tmp_path / one) for one in ("home/.password-store", "home/.ssh.git", "state", "home/.absent")]
    assert judge(f"{tmp_path}/home/fine.git", folder="/", written=(), secrets=secrets).path
    for name in ("home/.password-store", "home/.password-store/sub", "home", "link", "link/sub", "home/.ssh", "state"):
        with pytest.raises(HostRefused, match="of credentials or of Crabpot's own"):
            judge(f"{tmp_path}/{name}", folder="/", written=(), secrets=secrets)
    for name in ("state/git/x.git", "far/state/git/x.git", "far", "home/.absent", "home/fine.git/../.password-store"):
        with pytest.raises(HostRefused, match="of credentials or of Crabpot's own"):
            judge(f"file://{tmp_path}/{name}", folder="/", written=(), secrets=secrets)


def test_a_refused_path_tells_nothing_of_the_host(tmp_path: Path) -> None:
    """What /proc leads to, what is missing, what is a file and what is a secret are all refused in the same words."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "file").write_text("x")
    paths = ["/proc/self/exe", "/proc/self/cwd", "/proc/1/exe", "/proc/1/root", "/sys/kernel", "/dev/fd/0", "/run", "/"]
    paths += [f"{tmp_path}/{name}" for name in ("secret", "link", "file", "none", "file/x")]
    told = set()
    for path in paths:
        with pytest.raises(HostRefused) as refused:
            judge(path, folder="/", written=(), secrets=[str(tmp_path / "secret")])
        told.add((refused.value.code, str(refused.value).replace(path, "PATH", 1)))
    assert len(told) == 1
