"""Fetch, pull, clone and ls-remote: what the remote has comes in through the gateway's own repository."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from crabpot.errors import HostRefused

if TYPE_CHECKING:
    from pathlib import Path


def grown(pot: Any, git: Any) -> tuple[Path, Path]:
    """Return a remote with two commits, a branch and a tag, and the operator's clone of it."""
    remote, work = pot.remote(), pot.folder / "operator" / "work"
    git("clone", "-q", remote, work)
    (work / "f").write_text("1\n")
    git("add", "f", cwd=work)
    git("commit", "-qm", "one", cwd=work)
    git("tag", "-am", "note", "v1", cwd=work)
    git("commit", "-q", "--allow-empty", "-m", "two", cwd=work)
    git("branch", "side", cwd=work)
    git("push", "-q", "origin", "main", "side", "v1", cwd=work)
    return remote, work


async def test_a_clone_is_whole_and_its_remote_is_the_url(any_pot: Any, git: Any) -> None:
    async with any_pot() as pot:
        remote, _ = grown(pot, git)
        prepared = await pot.prepare("clone", f"file://{remote}")
        assert prepared.lines == (f"clone from {remote}", "refs/heads/*, into a new folder inside")
        assert (await prepared.run(timeout_s=60, output_limit=1 << 16)).success
        shown = await pot.sh(
            "cd remote && git config remote.origin.url && git branch -a --format='%(refname)' && git tag && cat f"
        )
        assert shown.split() == [
            f"file://{remote}",
            *("refs/heads/main", "refs/remotes/origin/HEAD", "refs/remotes/origin/main", "refs/remotes/origin/side"),
            *("v1", "1"),
        ]
        assert await pot.sh("git -C remote fsck --strict 2>&1") == ""


async def test_options_of_clone(open_pot: Any, git: Any) -> None:
    async with open_pot() as pot:
        remote, _ = grown(pot, git)
        await pot.done("clone", "--depth=1", f"file://{remote}", "one")
        assert await pot.sh("cd one && git rev-list --count HEAD && git branch -r --format='%(refname)'") == (
            "1\nrefs/remotes/origin/HEAD\nrefs/remotes/origin/main"
        )
        await pot.done("clone", "-b", "v1", str(remote), "two")
        assert await pot.sh("cd two && git describe --tags && git rev-list --count origin/main") == "v1\n2"
        await pot.done("clone", "--single-branch", "--branch", "side", str(remote), "three")
        assert (
            await pot.sh("cd three && git branch -a --format='%(refname)'")
            == "refs/heads/side\nrefs/remotes/origin/side"
        )
        reply = await pot.git("clone", "-b", "missing", str(remote), "four")
        assert (reply.exit_code, reply.stderr) == (128, "fatal: couldn't find remote ref missing\n")


async def test_a_fetch_sets_remote_tracking_refs_tags_and_prunes(open_pot: Any, git: Any) -> None:
    async with open_pot() as pot:
        remote, work = grown(pot, git)
        await pot.sows(f"&& git remote add origin {remote}")
        reply = await pot.done("fetch", "origin")
        assert f"From {str(remote).removesuffix('.git')}\n" in reply.stderr
        assert "fatal" not in reply.stderr
        assert "fd::" not in reply.stderr + await pot.sh("cat .git/FETCH_HEAD")
        # From 2.48 on git notes the remote's HEAD as well.
        assert await pot.sh("git for-each-ref --format='%(refname)' refs/remotes refs/tags | grep -v /HEAD") == (
            "refs/remotes/origin/main\nrefs/remotes/origin/side\nrefs/tags/v1"
        )
        git("push", "-q", "--delete", "origin", "side", cwd=work)
        git("commit", "-q", "--allow-empty", "-m", "three", cwd=work)
        git("push", "-q", "origin", "main", cwd=work)
        await pot.done("fetch", "--prune", "origin")
        assert await pot.sh(
            "git branch -r --format='%(refname)' | grep -v /HEAD; git log -1 --format=%s origin/main"
        ) == ("refs/remotes/origin/main\nthree")
        await pot.done("fetch", "origin", "main:refs/heads/copy")
        assert await pot.sh("git log -1 --format=%s copy") == "three"
        await pot.done("fetch", "--tags", "origin", "main")


async def test_a_pull_joins_inside_and_runs_the_hooks_there(open_pot: Any, git: Any) -> None:
    async with open_pot() as pot:
        remote, work = grown(pot, git)
        await pot.done("clone", str(remote), "r")
        await pot.sh(
            "cd r && git config user.name n && git config user.email n@x && echo 'hostname > /workspace/ran' > .git/hooks/post-merge && chmod +x .git/hooks/post-merge"
        )
        git("commit", "-q", "--allow-empty", "-m", "three", cwd=work)
        git("push", "-q", "origin", "main", cwd=work)
        await pot.done("pull", cwd="r")
        assert await pot.sh("git -C r log -1 --format=%s; test -e ran && echo ran") == "three\nran"
        await pot.sh("cd r && git commit -q --allow-empty -m mine")
        (work / "g").write_text("g")
        git("add", "g", cwd=work)
        git("commit", "-qm", "four", cwd=work)
        git("push", "-q", "origin", "main", cwd=work)
        reply = await pot.git("pull", "origin", "main", cwd="r")
        assert (reply.exit_code, "--rebase" in reply.stderr) == (128, True)
        await pot.done("pull", "--rebase", "origin", "main", cwd="r")
        assert await pot.sh("git -C r log -2 --format=%s") == "mine\nfour"
        git("commit", "-q", "--allow-empty", "-m", "five", cwd=work)
        git("push", "-q", "origin", "main", cwd=work)
        await pot.done("pull", "--rebase=false", "origin", "main", cwd="r")
        assert (
            await pot.sh("git -C r log -1 --format=%s")
            == f"Merge branch 'main' of file://{str(remote).removesuffix('.git')}"
        )
        reply = await pot.git("pull", "--ff-only", "origin", "side", cwd="r")
        assert reply.success


async def test_a_shallow_fetch_and_a_whole_one_share_a_repository(open_pot: Any, git: Any) -> None:
    async with open_pot() as pot:
        remote, _ = grown(pot, git)
        await pot.done("clone", "--depth", "1", str(remote), "shallow")
        await pot.done("clone", str(remote), "whole")
        assert await pot.sh("git -C shallow rev-list --count HEAD; git -C whole rev-list --count HEAD") == "1\n2"
        assert await pot.sh("git -C whole rev-parse --is-shallow-repository") == "false"
        await pot.done("fetch", "--depth=2", "origin", cwd="shallow")
        assert await pot.sh("git -C shallow rev-list --count origin/main") == "2"


async def test_all_remotes_are_asked(open_pot: Any, git: Any) -> None:
    async with open_pot() as pot:
        remote, _ = grown(pot, git)
        other = pot.remote("other.git")
        git("push", "-q", other, "main:elsewhere", cwd=remote)
        await pot.sows(f"&& git remote add origin {remote} && git remote add two {other}")
        await pot.done("fetch", "--all")
        assert "refs/remotes/two/elsewhere" in await pot.sh("git branch -r --format='%(refname)'")
        assert "refs/remotes/origin/side" in await pot.sh("git branch -r --format='%(refname)'")


async def test_ls_remote_lists_what_the_remote_has(open_pot: Any, git: Any) -> None:
    async with open_pot() as pot:
        remote, _ = grown(pot, git)
        await pot.sows(f"&& git remote add origin {remote}")
        assert (await pot.done("ls-remote", "--heads", "origin", "side")).stdout.endswith("\trefs/heads/side\n")
        shown = (await pot.done("ls-remote", "--tags", "--refs", str(remote))).stdout
        assert [line.split("\t")[1] for line in shown.splitlines()] == ["refs/tags/v1"]


async def test_submodules_are_left_to_commands_of_their_own(open_pot: Any, git: Any) -> None:
    async with open_pot() as pot:
        remote, work = grown(pot, git)
        part = pot.remote("part.git")
        git("push", "-q", part, "main", cwd=work)
        git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", part, "part", cwd=work)
        git("commit", "-qm", "part", cwd=work)
        git("push", "-q", "origin", "main", cwd=work)
        await pot.done("clone", str(remote), "r")
        assert await pot.sh("ls r/part") == ""
        await pot.done("clone", str(part), "r/part")
        for folder, name in ((work / "part", "HEAD:main"), (work, "main")):
            git("commit", "-q", "--allow-empty", "-m", "later", cwd=folder)
            if folder == work:
                git("commit", "-qam", "moved", cwd=folder)
            git("push", "-q", "origin", name, cwd=folder)
        reply = await pot.done("pull", cwd="r")
        assert "part" not in reply.stderr
        await pot.done("-C", "part", "fetch", cwd="r")


async def test_what_is_missing_is_told_as_git_tells_it(open_pot: Any, git: Any) -> None:
    async with open_pot() as pot:
        remote, _ = grown(pot, git)
        await pot.sows(f"&& git remote add origin {remote}")
        reply = await pot.git("fetch", "origin", "missing")
        assert (reply.exit_code, reply.stderr) == (128, "fatal: couldn't find remote ref missing\n")
        with pytest.raises(HostRefused, match="no tracking information"):
            await pot.prepare("pull")
        await pot.sh("git config branch.main.remote elsewhere; git config branch.main.merge refs/heads/main")
        with pytest.raises(HostRefused, match="git pull origin BRANCH"):
            await pot.prepare("pull", "origin")
        with pytest.raises(HostRefused, match="not a git repository"):
            await pot.prepare("fetch", cwd="/tmp")
