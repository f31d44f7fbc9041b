"""What an agent could swap for a link, or rewrite to run as the gateway, is not given to any sandbox."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from crabpot.errors import ConfigError
from crabpot.spec.binds import BindRefused, mount, refuse_source
from crabpot.spec.build import build

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    "text",
    [
        '{agents:{entries:{a:{sandbox:{binds:["/d/w:/data:rw","/d/w/sub:/sub:rw"]}}}}}',
        '{agents:{entries:{a:{sandbox:{binds:["/d/w:/data:rw","/d/w/sub:/sub:ro"]}}}}}',
        '{agents:{entries:{a:{workspace:"/d/p",sandbox:{workspace:"rw"}},b:{workspace:"/d/p/sub",sandbox:{workspace:"rw"}}}}}',
        '{agents:{entries:{a:{workspace:"/d/p",sandbox:{workspace:"rw"}},b:{workspace:"/d/p/sub",sandbox:{workspace:"ro"}}}}}',
        '{agents:{entries:{a:{workspace:"/d/p",sandbox:{workspace:"rw",binds:["/d/p/../p/sub:/sub"]}}}}}',
        '{agents:{defaults:{workspace:"/d/p",sandbox:{workspace:"rw"}},entries:{b:{sandbox:{binds:["/d/p/x:/x"]}}}}}',
    ],
)
def test_a_source_inside_a_folder_that_a_sandbox_may_write_is_refused(load_text, text: str) -> None:
    with pytest.raises(ConfigError, match="could swap it for a link"):
        load_text(text)


@pytest.mark.parametrize(
    "text",
    [
        '{agents:{entries:{a:{sandbox:{binds:["/d/w:/data:ro","/d/w/sub:/sub:rw"]}}}}}',
        '{agents:{entries:{a:{workspace:"/d/p",sandbox:{workspace:"rw"}},b:{workspace:"/d/p",sandbox:{workspace:"rw"}}}}}',
        '{agents:{entries:{a:{workspace:"/d/p",sandbox:{workspace:"rw"}},b:{workspace:"/d/pp",sandbox:{workspace:"rw"}}}}}',
        '{agents:{entries:{a:{workspace:"/d/p",sandbox:{workspace:"none"}},b:{workspace:"/d/p/sub",sandbox:{workspace:"rw"}}}}}',
        '{agents:{entries:{a:{workspace:"/d/p",sandbox:{mode:"off",workspace:"rw"}},b:{workspace:"/d/p/s",sandbox:{workspace:"rw"}}}}}',
    ],
)
def test_neighbours_and_equals_and_what_nobody_may_write_are_not(load_text, text: str) -> None:
    assert load_text(text)


def test_a_workspace_that_became_a_link_to_credentials_is_refused_when_the_sandbox_is_described(
    load_text, around, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    here = replace(around, home=str(home))
    agent = load_text(f'{{agents:{{defaults:{{workspace:"{home}/p",sandbox:{{workspace:"rw"}}}}}}}}').defaults
    (home / "p").symlink_to(home / ".ssh")
    with pytest.raises(BindRefused, match="credentials"):
        build(agent, "agent:main:x", here)


def test_what_the_gateway_runs_from_is_never_writable_but_may_be_read(around) -> None:
    here = replace(around, code=("/opt/crabpot/lib/crabpot", "/opt/venv"))
    for source in (
        "/opt/crabpot",
        "/opt/crabpot/lib/crabpot",
        "/opt/crabpot/lib/crabpot/doors",
        "/opt/venv/bin",
        "/opt",
    ):
        with pytest.raises(BindRefused, match="Crabpot itself runs from"):
            mount(f"{source}:/x:rw", here)
    assert mount("/opt/venv/share:/x:ro", here).access == "ro"
    assert mount("/opt/other:/x:rw", here).access == "rw"


def test_homes_that_the_environment_does_not_name_are_protected_too(around) -> None:
    here = replace(around, home="/", other_homes=("/home/somebody",))
    for source in ("/home/somebody/.ssh", "/home/somebody", "/home", "/home/somebody/.aws/credentials"):
        assert refuse_source(source, here), source
    assert refuse_source("/home/somebody/project", here) is None


@pytest.mark.parametrize("folder", ["/tmp", "/var/tmp", "/tmp/"])
def test_the_folder_where_programs_keep_their_sockets_is_not_bound_whole(around, folder: str) -> None:
    assert "sockets" in (refuse_source(folder, replace(around, config="", state="/nowhere/state")) or "")
