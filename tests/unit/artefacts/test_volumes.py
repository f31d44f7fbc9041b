"""Folders of the host for a rendered container: judged as binds are, but for a whole agent's own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from crabpot.artefacts.volumes import Volume, gathered, parse
from crabpot.spec.binds import BindRefused
from crabpot.spec.spec import Mount

if TYPE_CHECKING:
    from crabpot.spec.binds import Surroundings


def test_a_volume_is_read_only_unless_written(around: Surroundings) -> None:
    assert parse("/srv/data:/data", around) == Volume(source="/srv/data", target="/data", access="ro")


def test_flags_are_kept(around: Surroundings) -> None:
    volume = parse("/srv/logs:/app/logs:rw,nosuid,nodev", around)
    assert volume == Volume(source="/srv/logs", target="/app/logs", access="rw", flags=("nosuid", "nodev"))


@pytest.mark.parametrize("folder", ["config", "skills", "logs"])
def test_the_folders_of_the_guide_are_accepted(folder: str, around: Surroundings) -> None:
    source = os.path.realpath(f"{around.home}/.openclaw/{folder}")
    assert parse(f"~/.openclaw/{folder}:/app/{folder}", around).source == source


@pytest.mark.parametrize(
    "source",
    [
        "~",
        "~/.openclaw",
        "~/.openclaw/..",
        "~/.openclaw/../.ssh",
        "~/.ssh",
        "/",
        "/etc",
        "/var/run/docker.sock",
        "/run",
        "/proc/sys",
        "~/.local/state/crabpot/artefacts",
    ],
)
def test_what_gives_the_machine_away_is_refused(source: str, around: Surroundings) -> None:
    with pytest.raises(BindRefused, match="is refused"):
        parse(f"{source}:/app/x:rw,nosuid,nodev", around)


@pytest.mark.parametrize("leads_to", ["/etc", ".", "../.ssh"])
def test_a_link_in_the_agents_home_is_judged_by_where_it_leads(leads_to: str, around: Surroundings) -> None:
    own = f"{around.home}/.openclaw"
    os.makedirs(own, exist_ok=True)
    os.symlink(leads_to, f"{own}/sneaky")
    try:
        with pytest.raises(BindRefused, match="is refused"):
            parse("~/.openclaw/sneaky:/app/x", around)
    finally:
        os.unlink(f"{own}/sneaky")


@pytest.mark.parametrize("target", ["/", "/proc/x", "/tmp", "/var/run/x", "/dev", "data", "/data/../etc"])
def test_what_the_container_stands_on_is_no_place_for_a_volume(target: str, around: Surroundings) -> None:
    with pytest.raises(BindRefused):
        parse(f"/srv:{target}", around)


@pytest.mark.parametrize(
    "text",
    ["", "/srv", "/srv:", ":/data", "srv:/data", "/srv:/data:rx", "/srv:/data:ro,rw", "/srv:/data:suid", "/a:/b:rw:z"],
)
def test_what_is_no_volume_is_refused(text: str, around: Surroundings) -> None:
    with pytest.raises(BindRefused):
        parse(text, around)


def test_two_folders_at_one_place_are_refused(around: Surroundings) -> None:
    mounts = (Mount(source="/srv/ref", target="/ref", access="ro"),)
    asked = parse("/srv/other:/ref", around)
    with pytest.raises(BindRefused, match="/ref"):
        gathered([asked], mounts)
    assert [one.target for one in gathered([parse("/srv/other:/other", around)], mounts)] == ["/ref", "/other"]
