"""The small /etc."""

from __future__ import annotations

from crabpot.backends.linux import etc
from crabpot.spec.spec import User


def test_the_user_is_named_agent_and_lives_in_the_workspace() -> None:
    passwd = etc.written(User(uid=1000, gid=1001), resolves=False)["/etc/passwd"].decode()
    assert passwd.splitlines()[0] == "agent:x:1000:1001:agent:/workspace:/bin/sh"


def test_the_agent_is_named_first_even_where_it_is_nobody() -> None:
    files = etc.written(User(uid=65534, gid=65534), resolves=False)
    assert files["/etc/passwd"].startswith(b"agent:x:65534:65534:")
    assert files["/etc/group"].startswith(b"agent:x:65534:")


def test_no_server_is_asked_for_a_name_unless_the_network_is_the_hosts() -> None:
    user = User(uid=1000, gid=1000)
    assert b"hosts: files\n" in etc.written(user, resolves=False)["/etc/nsswitch.conf"]
    assert b"hosts: files dns\n" in etc.written(user, resolves=True)["/etc/nsswitch.conf"]


def test_nothing_but_these_is_written() -> None:
    files = etc.written(User(uid=1000, gid=1000), resolves=False)
    assert set(files) == {"/etc/passwd", "/etc/group", "/etc/hosts", "/etc/nsswitch.conf"}


def test_the_private_keys_beside_the_certificates_are_never_shown() -> None:
    assert not any("/etc/ssl/private".startswith(path) for path in etc.AUTHORITIES)
