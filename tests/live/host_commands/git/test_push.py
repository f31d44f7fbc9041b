"""Push by the gateway's own repository: what was shown is what the remote gets, and nothing of the agent's runs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from crabpot.errors import HostRefused


async def test_a_push_moves_the_branch_and_shows_what_it_does(any_pot: Any, git: Any) -> None:
    async with any_pot() as pot:
        remote = pot.remote()
        first = await pot.sows(f"&& git remote add origin {remote}")
        prepared = await pot.prepare("push", "-u", "origin", "main")
        assert prepared.lines == (
            f"push to {remote}",
            f"main → refs/heads/main, 1 commit, new here (not seen at the remote before), to {first[:12]}",
        )
        assert prepared.bound == ("push", str(remote), "refs/heads/main", "upstream")
        assert not git("for-each-ref", cwd=remote)
        reply = await prepared.run(timeout_s=60, output_limit=1 << 16)
        assert (reply.exit_code, reply.error) == (0, None)
        assert f"To {remote}\n" in reply.stderr
        assert "main -> main" in reply.stderr
        assert git("rev-parse", "refs/heads/main", cwd=remote) == first
        assert await pot.sh("git rev-parse refs/remotes/origin/main; git config branch.main.merge") == (
            f"{first}\nrefs/heads/main"
        )


async def test_a_second_push_moves_only_new_objects(open_pot: Any, git: Any) -> None:
    async with open_pot() as pot:
        remote = pot.remote()
        await pot.sows(f"&& git remote add origin {remote}")
        await pot.sh("head -c 3000000 /dev/urandom > big && git add big && git commit -qm big")
        await pot.done("push", "origin", "main")
        store = next((pot.state / "git").glob("*.git/objects/pack"))
        before = {file.name for file in store.iterdir()}
        await pot.sh("echo 2 > f && git commit -qam two")
        await pot.sh("echo 3 > f && git commit -qam three")
        prepared = await pot.prepare("push", "origin", "main")
        assert "main → refs/heads/main, 2 commits, fast-forward of what was last seen" in prepared.lines[1]
        new = [file for file in store.iterdir() if file.name not in before and file.suffix == ".pack"]
        assert [file.stat().st_size < 2000 for file in new] == [True]
        assert (await prepared.run(timeout_s=60, output_limit=1 << 16)).success
        assert git("rev-list", "--count", "main", cwd=remote) == "4"


async def test_forcing_and_deleting_are_marked(open_pot: Any, git: Any) -> None:
    async with open_pot() as pot:
        remote = pot.remote()
        await pot.sows(f"&& git remote add origin {remote} && git branch other")
        await pot.done("push", "origin", "main", "other")
        rewritten = await pot.sh("git commit -q --amend -m again && git rev-parse HEAD")
        refused = await pot.prepare("push", "origin", "main")
        assert "NOT a fast-forward of what was last seen" in refused.lines[1]
        assert refused.dangers[0].endswith("is a folder of this machine")
        reply = await refused.run(timeout_s=60, output_limit=1 << 16)
        assert reply.exit_code == 1
        assert "! [rejected]" in reply.stderr
        for words in (["--force", "origin", "main"], ["origin", "+main"]):
            forced = await pot.prepare("push", *words)
            assert "FORCED, NOT a fast-forward" in forced.lines[1]
            assert "FORCES refs/heads/main" in forced.dangers[0]
            assert "+refs/heads/main" in forced.bound
        assert (await forced.run(timeout_s=60, output_limit=1 << 16)).success
        assert git("rev-parse", "main", cwd=remote) == rewritten
        for words in (["--delete", "origin", "other"], ["origin", ":other"]):
            deleting = await pot.prepare("push", *words)
            assert deleting.lines[1].startswith("DELETES refs/heads/other")
            assert deleting.dangers[0] == "DELETES refs/heads/other"
        assert (await deleting.run(timeout_s=60, output_limit=1 << 16)).success
        assert git("for-each-ref", "--format=%(refname)", cwd=remote) == "refs/heads/main"
        assert "origin/other" not in await pot.sh("git branch -r")


async def test_a_lease_forces_only_over_what_the_sandbox_saw(open_pot: Any, git: Any) -> None:
    async with open_pot() as pot:
        remote = pot.remote()
        await pot.sows(f"&& git remote add origin {remote}")
        await pot.done("push", "origin", "main")
        await pot.sh("git commit -q --amend -m again")
        elsewhere = pot.folder / "elsewhere"
        git("clone", "-q", remote, elsewhere)
        git("commit", "-q", "--allow-empty", "-m", "theirs", cwd=elsewhere)
        git("push", "-q", "origin", "main", cwd=elsewhere)
        reply = await pot.git("push", "--force-with-lease", "origin", "main")
        assert (reply.exit_code, "stale info" in reply.stderr) == (1, True)
        await pot.done("fetch", "origin")
        leased = await pot.prepare("push", "--force-with-lease", "origin", "main")
        assert "FORCED with a lease, NOT a fast-forward" in leased.lines[1]
        assert leased.dangers[0].startswith("FORCES refs/heads/main")
        assert "+refs/heads/main" in leased.bound
        assert (await leased.run(timeout_s=60, output_limit=1 << 16)).success
        assert git("log", "-1", "--format=%s", "main", cwd=remote) == "again"


async def test_tags_atomic_and_dry_run(open_pot: Any, git: Any) -> None:
    async with open_pot() as pot:
        remote = pot.remote()
        await pot.sows(f"&& git remote add origin {remote} && git tag v1 && git tag -am note v2")
        await pot.done("push", "--dry-run", "origin", "main")
        assert not git("for-each-ref", cwd=remote)
        await pot.done("push", "--atomic", "--tags", "origin", "main")
        found = git("for-each-ref", "--format=%(refname) %(objecttype)", cwd=remote).splitlines()
        assert found == ["refs/heads/main commit", "refs/tags/v1 commit", "refs/tags/v2 tag"]
        await pot.done("push", "--delete", "origin", "v1")
        assert "v1" not in git("for-each-ref", cwd=remote)


async def test_names_are_resolved_inside_and_a_bare_one_means_the_same_name(open_pot: Any, git: Any) -> None:
    async with open_pot() as pot:
        remote = pot.remote()
        await pot.sows(f"&& git remote add origin {remote} && git commit -q --allow-empty -m two")
        first = await pot.sh("git rev-parse HEAD~1")
        await pot.done("push", "origin", "HEAD")
        await pot.done("push", "origin", "HEAD~1:older")
        await pot.done("push")
        found = git("for-each-ref", "--format=%(refname)", cwd=remote).split()
        assert found == ["refs/heads/main", "refs/heads/older"]
        assert git("rev-parse", "older", cwd=remote) == first
        with pytest.raises(HostRefused, match="does not match any"):
            await pot.prepare("push", "origin", "missing")
        with pytest.raises(HostRefused, match="every branch of the same name"):
            await pot.prepare("push", "origin", ":")


async def test_a_shallow_clone_pushes_and_a_partial_one_is_told_why_not(open_pot: Any, git: Any) -> None:
    async with open_pot() as pot:
        remote = pot.remote()
        await pot.sows(f"&& git remote add origin {remote} && git commit -q --allow-empty -m two")
        await pot.done("push", "origin", "main")
        await pot.done("clone", "--depth", "1", f"file://{remote}", "shallow")
        assert await pot.sh("git -C shallow rev-list --count HEAD") == "1"
        await pot.sh("cd shallow && git -c user.name=n -c user.email=n@x commit -q --allow-empty -m three")
        await pot.done("-C", "shallow", "push", "origin", "main")
        assert git("rev-list", "--count", "main", cwd=remote) == "3"
        await pot.sh("git config remote.origin.promisor true; git config remote.origin.partialclonefilter blob:none")
        with pytest.raises(HostRefused, match="partial clone"):
            await pot.prepare("push", "origin", "main")


async def test_two_pushes_at_once_both_arrive(open_pot: Any, git: Any) -> None:
    async with open_pot() as pot:
        remote = pot.remote()
        await pot.sows(f"&& git remote add origin {remote} && git branch a && git branch b")
        await asyncio.gather(pot.done("push", "origin", "a"), pot.done("push", "origin", "b"))
        assert git("for-each-ref", "--format=%(refname)", cwd=remote).split() == ["refs/heads/a", "refs/heads/b"]


async def test_ssh_is_the_operators_own_and_listens_for_nobody(open_pot: Any) -> None:
    async with open_pot() as pot:
        programs = pot.folder / "programs"
        programs.mkdir()
        (programs / "ssh").write_text('#!/bin/sh\necho "asked: $*" >&2\nexit 255\n')
        (programs / "ssh").chmod(0o755)
        pot.env = {**pot.env, "PATH": f"{programs}:/usr/bin:/bin"}
        reply = await pot.git("ls-remote", "ssh://git@example.com/r.git")
        assert "asked: -o ControlMaster=no -o ForwardAgent=no " in reply.stderr
        assert "git@example.com git-upload-pack '/r.git'" in reply.stderr
        (pot.folder / "own").write_text("[core]\n\tsshCommand = ssh -i mine\n")
        pot.env = {**pot.env, "GIT_CONFIG_GLOBAL": str(pot.folder / "own")}
        assert "asked: -i mine" in (await pot.git("ls-remote", "ssh://git@example.com/r.git")).stderr
