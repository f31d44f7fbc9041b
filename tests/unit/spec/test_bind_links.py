"""Binds that reach what is refused by a link: in the last part, in an ancestor, through what does not exist yet."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from crabpot.spec.binds import BindRefused, Surroundings, mount

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def home(tmp_path: Path) -> Surroundings:
    folder = tmp_path / "home"
    folder.mkdir()
    return Surroundings(
        home=str(folder), state=str(tmp_path / "state/crabpot"), config=str(tmp_path / "conf/crabpot.json5")
    )


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Return a folder that may be bound."""
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


def refuses(source: str | Path, around: Surroundings) -> str:
    with pytest.raises(BindRefused) as caught:
        mount(f"{source}:/x:ro", around)
    return str(caught.value)


def test_a_link_to_a_runtimes_socket_is_refused_whatever_its_name(home: Surroundings, outside: Path) -> None:
    (outside / "innocent").symlink_to("/var/run/docker.sock")
    assert "resolves to " in refuses(outside / "innocent", home)


def test_a_folder_that_holds_a_runtimes_socket_is_refused(home: Surroundings, outside: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(outside / "docker.sock"))
        assert "contains docker.sock" in refuses(outside, home)


def test_the_socket_that_the_environment_names_is_refused_with_its_folders(home: Surroundings, outside: Path) -> None:
    around = replace(home, runtime_sockets=(str(outside / "deep/engine"),))
    for path in (outside / "deep/engine", outside / "deep", outside):
        assert "a container runtime's socket" in refuses(path, around)
    (outside.parent / "link").symlink_to(outside)
    assert "a container runtime's socket" in refuses(outside.parent / "link/deep/engine", around)


def test_a_link_to_what_is_refused_is_refused_and_the_target_is_named(home: Surroundings, outside: Path) -> None:
    targets = [
        "/",
        "/etc",
        "/proc",
        "/dev",
        "/root",
        "/etc/ssl",
        home.home,
        f"{home.home}/.ssh",
        home.state,
        home.config,
    ]
    for number, target in enumerate(targets):
        link = outside / f"link{number}"
        link.symlink_to(target)
        assert f'"{link}" (resolves to {os.path.realpath(target)}) is refused' in refuses(link, home)


def test_a_link_to_a_link_is_followed_to_its_end(home: Surroundings, outside: Path) -> None:
    (outside / "one").symlink_to("two")
    (outside / "two").symlink_to("three")
    (outside / "three").symlink_to("/etc")
    assert "resolves to /etc" in refuses(outside / "one", home)


def test_a_link_in_an_ancestor_is_followed(home: Surroundings, outside: Path) -> None:
    (outside / "up").symlink_to("/")
    assert "resolves to /etc/ssl" in refuses(outside / "up/etc/ssl", home)
    assert "is refused" in refuses(outside / "up/proc", home)


def test_the_deepest_ancestor_that_exists_is_resolved_when_the_rest_does_not(home: Surroundings, outside: Path) -> None:
    (outside / "conf").symlink_to("/etc")
    assert "resolves to /etc/not/yet" in refuses(outside / "conf/not/yet", home)
    (outside / "dangling").symlink_to("/etc/not-there-yet")
    assert "resolves to /etc/not-there-yet" in refuses(outside / "dangling", home)


def test_dots_after_a_link_are_judged_both_ways(home: Surroundings, outside: Path) -> None:
    (outside / "etc").symlink_to("/etc/ssl")
    assert "resolves to /etc" in refuses(outside / "etc/..", home), "the kernel climbs from where the link leads"
    (outside / "deep").mkdir()
    (outside / "deep/link").symlink_to(outside / "elsewhere")
    assert "is refused" in refuses(f"{outside}/deep/link/../../home/.ssh", home), "a person reads it as it is written"


def test_a_link_that_lies_where_it_is_refused_and_leads_out_is_refused(home: Surroundings, outside: Path) -> None:
    os.mkdir(f"{home.home}/.config")
    os.symlink(outside, f"{home.home}/.config/link")
    message = refuses("~/.config/link", home)
    assert f"resolves to {outside}" in message
    assert "a place of credentials" in message


def test_a_home_that_is_a_link_is_protected_under_both_names(home: Surroundings, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(home.home)
    around = replace(home, home=str(tmp_path / "alias"))
    for path in (tmp_path / "alias", home.home, tmp_path / "alias/.ssh", f"{home.home}/.ssh"):
        assert "is refused" in refuses(path, around)


def test_credentials_that_are_kept_elsewhere_are_protected_there(home: Surroundings, outside: Path) -> None:
    (outside / "keys").mkdir()
    os.symlink(outside / "keys", f"{home.home}/.ssh")
    assert "a place of credentials" in refuses(outside / "keys", home)
    assert "a place of credentials" in refuses(outside, home)


def test_the_source_of_a_mount_is_where_the_link_leads(home: Surroundings, outside: Path) -> None:
    (outside / "real").mkdir()
    (outside / "link").symlink_to("real")
    assert mount(f"{outside}/link:/x", home).source == str(outside / "real")
