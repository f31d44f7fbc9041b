"""Which file and which folder: the flag, then the environment, then the usual place; never where one stands."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from crabpot.config.places import find_config, find_keys, find_state, planted, usual_config

if TYPE_CHECKING:
    from pathlib import Path

HOME = "/home/somebody"


def test_the_flag_comes_before_the_environment_and_the_usual_place(tmp_path: Path) -> None:
    usual = tmp_path / ".config/crabpot/crabpot.json5"
    usual.parent.mkdir(parents=True)
    usual.write_text("{}")
    home = str(tmp_path)
    assert find_config("/a/b", {"CRABPOT_CONFIG": "/c/d"}, home) == "/a/b"
    assert find_config(None, {"CRABPOT_CONFIG": "/c/d"}, home) == "/c/d"
    assert find_config(None, {"CRABPOT_CONFIG": ""}, home) == str(usual)
    assert find_config(None, {}, home) == str(usual)


def test_a_tilde_is_the_home(tmp_path: Path) -> None:
    assert find_config("~/c.json5", {}, HOME) == f"{HOME}/c.json5"
    assert find_state("~/s", {}, HOME) == f"{HOME}/s"


def test_an_empty_flag_is_not_taken_for_no_flag(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_config("", {"CRABPOT_CONFIG": "/c/d"}, HOME) == str(tmp_path)


def test_a_relative_flag_is_made_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_config("c.json5", {}, HOME) == str(tmp_path / "c.json5")
    assert find_state("s", {}, HOME) == str(tmp_path / "s")


@pytest.mark.parametrize("given", ["", "relative/config", "./x"])
def test_a_relative_xdg_folder_is_ignored(given: str) -> None:
    assert usual_config({"XDG_CONFIG_HOME": given}, HOME) == f"{HOME}/.config/crabpot/crabpot.json5"
    assert find_state(None, {"XDG_STATE_HOME": given}, HOME) == f"{HOME}/.local/state/crabpot"


def test_an_absolute_xdg_folder_is_taken() -> None:
    assert usual_config({"XDG_CONFIG_HOME": "/x"}, HOME) == "/x/crabpot/crabpot.json5"
    assert find_state(None, {"XDG_STATE_HOME": "/x"}, HOME) == "/x/crabpot"
    assert find_state(None, {"XDG_STATE_HOME": "/x", "CRABPOT_STATE": "/y"}, HOME) == "/y"


def test_no_file_means_the_defaults(tmp_path: Path) -> None:
    assert find_config(None, {}, str(tmp_path)) is None


def test_a_link_that_leads_nowhere_is_named_and_not_skipped(tmp_path: Path) -> None:
    file = tmp_path / ".config/crabpot/crabpot.json5"
    file.parent.mkdir(parents=True)
    file.symlink_to("/nowhere")
    assert find_config(None, {}, str(tmp_path)) == str(file)


def test_a_file_that_cannot_even_be_looked_for_is_named_and_not_skipped(tmp_path: Path) -> None:
    too_long = "x" * 300
    assert find_config(None, {"XDG_CONFIG_HOME": f"/{too_long}"}, str(tmp_path)) == f"/{too_long}/crabpot/crabpot.json5"


def test_the_working_directory_is_never_looked_at(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "crabpot.json5").write_text("{}")
    monkeypatch.chdir(tmp_path)
    assert find_config(None, {}, HOME) is None
    assert planted(os.getcwd()) == str(tmp_path / "crabpot.json5")


def test_a_planted_link_is_seen_too(tmp_path: Path) -> None:
    assert planted(str(tmp_path)) is None
    (tmp_path / "crabpot.json5").symlink_to("/nowhere")
    assert planted(str(tmp_path)) == str(tmp_path / "crabpot.json5")


def test_places_of_credentials_that_variables_name_are_found() -> None:
    environ = {
        "XDG_CONFIG_HOME": "/srv/cfg/",
        "KUBECONFIG": "/k/one:/k/two:relative",
        "CARGO_HOME": "/srv/cargo",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GNUPGHOME": "",
    }
    cargo = ("/srv/cargo/credentials", "/srv/cargo/credentials.toml")
    assert find_keys(environ, HOME) == ("/srv/cfg", "/k/one", "/k/two", *cargo)


@pytest.mark.parametrize("place", ["/", "/home", HOME, f"{HOME}/"])
def test_a_place_that_holds_the_home_is_none(place: str) -> None:
    assert find_keys({"XDG_CONFIG_HOME": place}, HOME) == ()
