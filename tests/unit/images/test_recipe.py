"""What goes into an image: groups, further packages and a user, in an order that keeps layers."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crabpot.images import dockerfile, packages
from crabpot.images.recipe import Recipe
from crabpot.settings import Docker, PackageGroup
from crabpot.spec.naming import is_package_name
from crabpot.spec.spec import User

USER = User(uid=1000, gid=1001)


def recipe(*groups: PackageGroup, extra: tuple[str, ...] = (), user: User = USER) -> Recipe:
    return Recipe(groups=groups, extra=extra, user=user)


def test_the_groups_are_those_that_a_configuration_can_choose() -> None:
    assert tuple(packages.GROUPS) == get_args(PackageGroup) == Docker().packages.groups


def test_every_package_of_the_catalogue_has_a_name_that_debian_could_give() -> None:
    assert all(is_package_name(name) for group in packages.GROUPS.values() for name in group.debian)


@pytest.mark.parametrize(
    ("group", "wanted"),
    [
        ("minimal", {"python3", "git", "jq", "ripgrep", "curl", "wget", "openssh-client"}),
        ("dev", {"nodejs", "npm", "python3-pip", "libcap2-bin", "stress-ng"}),
        ("media", {"ffmpeg", "libcairo2-dev", "libpango1.0-dev"}),
        ("docs", {"pandoc"}),
    ],
)
def test_the_image_documents_packages_are_there(group: PackageGroup, wanted: set[str]) -> None:
    assert wanted <= set(packages.GROUPS[group].debian)
    assert "uv" in packages.GROUPS["dev"].python


def test_the_smallest_group_is_always_in() -> None:
    assert recipe().labels["crabpot.image.groups"] == "minimal"
    assert set(packages.GROUPS["minimal"].debian) < set(recipe("docs").debian)


GROUPS = st.lists(st.sampled_from(list(packages.GROUPS)), unique=True)
NAMES = st.lists(st.from_regex(r"[a-z0-9][a-z0-9+.-]{1,20}", fullmatch=True), unique=True, max_size=5)


@given(groups=GROUPS, extra=NAMES, one_more=NAMES.filter(bool))
def test_further_packages_leave_every_layer_before_them_as_it_was(
    groups: list[PackageGroup], extra: list[str], one_more: list[str]
) -> None:
    few = dockerfile.text(recipe(*groups, extra=tuple(extra)))
    many = dockerfile.text(recipe(*groups, extra=(*extra, *(name for name in one_more if name not in extra))))
    assert many.startswith(few[: few.index("\n# pip without")])


@given(groups=GROUPS)
def test_the_order_in_which_groups_are_written_changes_nothing(groups: list[PackageGroup]) -> None:
    assert recipe(*groups).digest == recipe(*reversed(groups)).digest


@pytest.mark.parametrize("changes", [{"extra": ("tmux",)}, {"groups": ("docs",)}, {"user": User(uid=1, gid=2)}])
def test_another_recipe_has_another_name(changes: dict[str, Any]) -> None:
    other = Recipe(**{"groups": (), "extra": (), "user": USER, **changes})
    assert other.digest != recipe().digest


@pytest.mark.parametrize("name", ["", "a", "-rf", "a b", "a;b", "A", "a$(b)", "a/b", "a\nb", "é1"])
def test_what_could_mean_something_to_a_shell_is_no_package(name: str) -> None:
    assert not is_package_name(name)


def test_a_configuration_with_such_a_package_or_an_unknown_group_does_not_load(refused) -> None:
    sandbox = "{agents: {defaults: {sandbox: {docker: {packages: %s}}}}}"
    assert "cannot be the name of a Debian package" in refused(sandbox % '{extra: ["git", "a;b"]}')
    assert 'did you mean "media"' in refused(sandbox % '{groups: ["medai"]}')


def test_a_program_that_hides_its_failure_is_mended_where_it_is_in() -> None:
    assert any("/usr/local/bin/stress" in command for command in recipe("dev").finish)
    assert not any("/usr/local/bin/stress" in command for command in recipe("docs").finish)


def test_the_dockerfile_makes_a_user_that_ssh_finds_and_ends_as_that_user() -> None:
    text = dockerfile.text(recipe(extra=("tmux",)), base="mine:1")
    assert "ARG BASE=mine:1\nFROM ${BASE}\nUSER root\n" in text
    assert "--uid 1000 --gid 1001 --home-dir /workspace agent" in text
    assert "rm -f /usr/lib/python3*/EXTERNALLY-MANAGED" in text
    assert text.rstrip().endswith('USER 1000:1001\nWORKDIR /workspace\nCMD ["sleep", "infinity"]')
