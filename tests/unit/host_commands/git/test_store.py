"""The gateway's own repositories: one for each folder and URL, private, locked, bounded, and gone when unused."""

from __future__ import annotations

import os
import stat
import time
from typing import TYPE_CHECKING

import pytest

from crabpot.errors import HostRefused
from crabpot.host_commands.git import store
from crabpot.host_commands.git.clock import Clock
from tests.support.git import host_git

if TYPE_CHECKING:
    from pathlib import Path

LARGE = 1 << 30


async def made(state: Path, digest: str, *, size: int = 0, largest: int = LARGE) -> None:
    async with store.held(str(state), digest, Clock(limit_s=5), largest=largest) as own:
        if size:
            with open(f"{own.path}/objects/pack/pack-{size}.pack", "wb") as file:
                file.truncate(size)


async def test_git_takes_it_for_a_repository_and_nobody_else_can_look(tmp_path: Path) -> None:
    async with store.held(str(tmp_path), "x", Clock(limit_s=5), largest=LARGE) as own:
        assert host_git("--git-dir", own.path, "rev-parse", "--is-bare-repository") == "true"
        assert os.listdir(own.path + "/objects/pack") == []
        for path in (own.path, own.empty, own.scratch, f"{tmp_path}/git"):
            assert stat.S_IMODE(os.stat(path).st_mode) == 0o700
        assert not os.path.exists(f"{own.path}/hooks")
    assert not os.path.exists(own.scratch)


async def test_folder_and_url_both_tell_one_from_another(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    names = {store.name(str(tmp_path / folder), url) for folder in "ab" for url in ("u", "v")}
    before = store.name(str(tmp_path / "a"), "u")
    (tmp_path / "a").rename(tmp_path / "c")
    (tmp_path / "a").mkdir()
    assert len({*names, store.name(str(tmp_path / "a"), "u")}) == 5
    assert before in names


async def test_one_at_a_time_and_none_waits_longer_than_it_may(tmp_path: Path) -> None:
    async with store.held(str(tmp_path), "x", Clock(limit_s=5), largest=LARGE):
        with pytest.raises(HostRefused, match="time limit"):
            await _late(tmp_path)
    await made(tmp_path, "x")


async def _late(state: Path) -> None:
    async with store.held(str(state), "x", Clock(limit_s=0.1), largest=LARGE):
        pass


async def test_one_that_grew_too_large_begins_anew_and_leftovers_go(tmp_path: Path) -> None:
    await made(tmp_path, "x", size=2_000_000)
    pack = tmp_path / "git" / "x.git" / "objects" / "pack"
    (pack / "tmp_pack_left").write_bytes(b"x")
    await made(tmp_path, "x")
    assert [file.name for file in pack.iterdir()] == ["pack-2000000.pack"]
    await made(tmp_path, "x", largest=1_000_000)
    assert list(pack.iterdir()) == []


async def test_all_that_lies_in_one_is_counted(tmp_path: Path) -> None:
    """Not only packs: a remote with a million refs, or a pack that never ends, fills a disk as well."""
    for name in ("refs/heads/{}", "objects/{}", "objects/pack/{}.idx", "{}"):
        async with store.held(str(tmp_path), "x", Clock(limit_s=5), largest=400_000) as own:
            store.check(own, largest=400_000)
            for number in range(100):
                with open(f"{own.path}/{name.format(number)}", "w", encoding="ascii") as file:
                    file.write("0" * 41)
            with pytest.raises(HostRefused, match=r"sandbox\.limits\.disk"):
                store.check(own, largest=400_000)
        assert not os.path.exists(own.path)


async def test_the_long_unused_the_many_and_the_large_are_removed(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    mine = [store.name(str(root), url) for url in "abc"]
    for digest in (*mine, "other"):
        await made(tmp_path, digest, size=600_000)
    for at, digest in enumerate(mine):
        os.utime(tmp_path / "git" / f"{digest}.lock", (time.time() - 100 + at,) * 2)
    # Of one folder's, the newest that fit; another folder's stay.
    assert store.prune(str(tmp_path), str(root), largest=1_400_000) == [mine[0]]
    # One that is held stays, however old.
    async with store.held(str(tmp_path), mine[1], Clock(limit_s=5), largest=LARGE):
        gone = store.prune(str(tmp_path), str(root), largest=1_400_000, now=time.time() + 31 * 86400)
    assert sorted(gone) == sorted([mine[2], "other"])
    for number in range(102):
        await made(tmp_path, f"many-{number}")
    assert len(store.prune(str(tmp_path), str(root), largest=LARGE)) == 3
