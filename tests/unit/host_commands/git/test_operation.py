"""The words of a git command: what is carried out, and what is refused by name."""

from __future__ import annotations

import pytest

from crabpot.errors import HostRefused
from crabpot.host_commands.git.operation import Operation, read


def of(text: str) -> Operation:
    found = read(text.split())
    assert found is not None
    return found


@pytest.mark.parametrize(
    "text", ["git", "git status", "git commit -am push", "git -c a=b status", "git --version", "git remote update"]
)
def test_other_commands_are_none_of_this(text: str) -> None:
    assert read(text.split()) is None


@pytest.mark.parametrize("before", ["--attr-source=x", "-c a=b", "--git-dir=x", "--exec-path=x"])
def test_only_a_folder_is_supported_before_the_command(before: str) -> None:
    assert of("git -C evil push o").folder == "evil"
    with pytest.raises(HostRefused, match=r"before the command, where only -C is supported"):
        read(f"git {before} -C evil push o".split())


def test_the_words_become_an_operation() -> None:
    assert of("git push") == Operation(kind="push")
    assert of("git push -fu origin main") == Operation(
        kind="push", force=True, upstream=True, remote="origin", names=("main",)
    )
    assert of("git push --set-upstream --force --tags --atomic -n -q o a:b") == Operation(
        kind="push", upstream=True, force=True, tags=True, atomic=True, dry_run=True, remote="o", names=("a:b",)
    )
    assert of("git push o -d x") == Operation(kind="push", delete=True, remote="o", names=("x",))
    assert of("git push --force-with-lease o") == Operation(kind="push", lease=True, remote="o")
    assert of("git -C sub -C deep fetch -pt --depth 3 o").folder == "sub/deep"
    assert of("git fetch -pt --depth=3 o") == Operation(kind="fetch", prune=True, tags=True, depth="3", remote="o")
    assert of("git pull --rebase=false --all") == Operation(kind="pull", rebase=False, every=True)
    assert of("git pull -r o main --progress") == Operation(kind="pull", rebase=True, remote="o", names=("main",))
    assert of("git clone -bmain --single-branch --depth 1 -- u d") == Operation(
        kind="clone", branch="main", single_branch=True, depth="1", remote="u", names=("d",)
    )
    assert of("git ls-remote -ht --refs o a*") == Operation(
        kind="ls-remote", heads=True, tags=True, refs_only=True, remote="o", names=("a*",)
    )
    assert of("git push -- --mirror") == Operation(kind="push", remote="--mirror")


@pytest.mark.parametrize(
    ("text", "option"),
    [
        ("git push --mirror", "--mirror"),
        ("git push --all o", "--all"),
        ("git push --receive-pack=x o", "--receive-pack"),
        ("git push --exec x", "--exec"),
        ("git push -o x", "-o"),
        ("git push -fo x", "-o"),
        ("git push --push-option=x", "--push-option"),
        ("git push --signed", "--signed"),
        ("git push --follow-tags", "--follow-tags"),
        ("git push --recurse-submodules=on-demand", "--recurse-submodules"),
        ("git push --force-with-lease=main", "--force-with-lease=main"),
        ("git push --forc", "--forc"),
        ("git push --repo=x", "--repo"),
        ("git fetch --upload-pack x", "--upload-pack"),
        ("git fetch --unshallow", "--unshallow"),
        ("git fetch --filter=blob:none", "--filter"),
        ("git fetch --ff-only", "--ff-only"),
        ("git fetch --recurse-submodules", "--recurse-submodules"),
        ("git pull --strategy=x", "--strategy"),
        ("git pull -s x", "-s"),
        ("git pull --rebase=interactive", "--rebase=interactive"),
        ("git clone -c a=b u", "-c"),
        ("git clone -u x u", "-u"),
        ("git clone --template=x u", "--template"),
        ("git clone --recursive u", "--recursive"),
        ("git clone --reference /x u", "--reference"),
        ("git clone --bare u", "--bare"),
        ("git clone --mirror u", "--mirror"),
        ("git ls-remote --upload-pack=x u", "--upload-pack"),
        ("git ls-remote --get-url", "--get-url"),
        ("git -c core.sshCommand=x push", "-c"),
        ("git --git-dir /x push", "--git-dir"),
        ("git --git-dir=/x fetch", "--git-dir=/x"),
        ("git --exec-path=x push", "--exec-path=x"),
        ("git -p push", "-p"),
    ],
)
def test_every_other_option_is_refused_by_name(text: str, option: str) -> None:
    with pytest.raises(HostRefused) as refused:
        read(text.split())
    assert refused.value.code == "denied"
    assert f": {option} " in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "git fetch --depth 0 o",
        "git fetch --depth -1",
        "git fetch --depth",
        "git clone",
        "git clone a b c",
        "git push -d o",
        "git push -df o x",
        "git fetch --all o",
        "git pull --rebase --ff-only",
        "git clone --depth 99999999999999999999999 u",
    ],
)
def test_what_contradicts_itself_is_refused(text: str) -> None:
    with pytest.raises(HostRefused) as refused:
        read(text.split())
    assert refused.value.code == "invalid_arguments"
