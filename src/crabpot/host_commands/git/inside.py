"""The sandbox's own git, over its wire. The agent controls its output, which is bounded and checked by git's rules."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from crabpot.errors import HostRefused
from crabpot.host_commands.git.names import is_id, is_name, is_ref

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from crabpot.host_commands.git.clock import Clock
    from crabpot.wire.calls import RunnerWire, Source
    from crabpot.wire.in_flight import Sink
    from crabpot.wire.replies import Reply

# Absolute paths, so that no shim and no program of the agent is taken for git.
_PLACES = ("/usr/bin/git", "/usr/local/bin/git", "/bin/git")
# LFS would contact a server that is out of reach, and fail the whole checkout.
_ENV = {"GIT_TERMINAL_PROMPT": "0", "GIT_EDITOR": ":", "GIT_OPTIONAL_LOCKS": "0", "GIT_LFS_SKIP_SMUDGE": "1"}
# The other git is on these two descriptors; git's own stdin is empty, and its stdout carries messages.
_WIRED = 'exec "$0" "$@" 3<&0 4>&1 </dev/null >&2'
FD_REMOTE = "fd::3,4"
# All of it is read on the gateway's one loop, before anybody is asked: how much an agent can make git print is limited,
# so that no agent holds up the others.
_MOST_TEXT = 64 << 10
_MOST_CONFIG, _MOST_ENTRIES = 256 << 10, 5000
_LONGEST_TAG, _MOST_TAGGED = 600, 16 << 20
_KEYS = (
    r"^(remote\..*\.(url|pushurl|fetch|promisor|partialclonefilter)|extensions\.(partialclone|objectformat)"
    r"|branch\..*\.(remote|merge|rebase)|pull\.(rebase|ff))$"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """What the agent's repository reports about itself."""

    config: Mapping[str, tuple[str, ...]]
    branch: str | None
    shallow: bool

    def first(self, key: str) -> str | None:
        """Return the first value of a key."""
        return self.config.get(key, (None,))[0]

    def remote_of(self, name: str | None) -> str:
        """Return the remote that git would use if none is named."""
        return name or self.first(f"branch.{self.branch}.remote") or "origin"

    def url_of(self, remote: str, *, pushes: bool) -> str:
        """Return the URL of a named remote, or a URL as it is."""
        pushed = self.first(f"remote.{remote}.pushurl") if pushes else None
        return pushed or self.first(f"remote.{remote}.url") or remote

    def is_named(self, remote: str) -> bool:
        """Return whether a remote of this name is configured."""
        return is_name(remote) and f"remote.{remote}.url" in self.config


@dataclass(slots=True, kw_only=True)
class Inside:
    """Git in one folder of one sandbox."""

    wire: RunnerWire
    cwd: str | None
    clock: Clock
    _git: str | None = field(default=None, init=False)

    def below(self, folder: str) -> Inside:
        """Return the same for a folder of `-C`."""
        if not folder:
            return self
        return Inside(wire=self.wire, cwd=os.path.join(self.cwd or "", folder), clock=self.clock)

    async def repository(self) -> Repository:
        """Read the repository's configuration, and refuse the kinds that cannot be relayed."""
        await self.ask("rev-parse", "--git-dir")
        shallow = (await self.ask("rev-parse", "--is-shallow-repository")).strip() == "true"
        head = (await self.ask("symbolic-ref", "-q", "HEAD", fails=True)).strip()
        config = _pairs(await self.ask("config", "-z", "--get-regexp", _KEYS, fails=True, most=_MOST_CONFIG))
        if "extensions.partialclone" in config or any(key.endswith((".promisor", "filter")) for key in config):
            raise HostRefused(
                "denied",
                "this is a partial clone, whose missing objects git would have to fetch from inside; "
                "clone it whole, or with --depth",
            )
        if config.get("extensions.objectformat", ("sha1",))[-1] != "sha1":
            raise HostRefused("denied", "this repository names objects by SHA-256, which is not supported; use SHA-1")
        branch = head.removeprefix("refs/heads/") if is_ref(head) and head.startswith("refs/heads/") else None
        return Repository(config=config, branch=branch, shallow=shallow)

    async def resolve(self, name: str) -> str | None:
        """Return the id of what a name means in the agent's repository, or None."""
        found = (await self.ask("rev-parse", "--verify", "-q", "--end-of-options", name, fails=True)).strip()
        if found and not is_id(found):
            raise _odd("an object id")
        return found or None

    async def tags(self, *, most: int) -> dict[str, str]:
        """List the tags."""
        limit = f"--count={most + 1}"
        words = ("for-each-ref", limit, "--format=%(objectname) %(refname)", "refs/tags")
        listed = await self.ask(*words, most=min(most * _LONGEST_TAG, _MOST_TAGGED))
        return await asyncio.to_thread(_tags, listed, most)

    async def existing(self, ids: set[str]) -> set[str]:
        """Return which of these objects the repository has."""
        if not ids:
            return set()
        text = "".join(f"{one}\n" for one in sorted(ids))
        said = await self.ask("cat-file", "--batch-check=%(objectname)", text=text, most=2 * len(text) + _MOST_TEXT)
        return await asyncio.to_thread(lambda: ids & set(said.split("\n")))

    async def ask(self, *words: str, fails: bool = False, text: str | None = None, most: int = _MOST_TEXT) -> str:
        """Run git and return its output; HostRefused with its message if it fails and must not, or prints too much."""
        kept = {"stdout": bytearray(), "stderr": bytearray()}

        async def keep(stream: str, data: bytes) -> None:
            if stream in kept:
                kept[stream].extend(data)
            if sum(map(len, kept.values())) > most:
                raise HostRefused("denied", f"git {words[0]} inside the sandbox printed more than {most} bytes")

        reply = await self._call(await self._argv(*words), None if text is None else _once(text), keep)
        printed = kept["stdout"].decode("utf-8", "surrogateescape")
        if reply.exit_code != 0 and not fails:
            said = kept["stderr"].decode("utf-8", "replace").strip()
            raise HostRefused("invalid_arguments", said[-2000:] or f"git {words[0]} failed inside the sandbox")
        return printed

    async def run(self, *words: str, sink: Sink) -> Reply:
        """Run git to its end."""
        return await self._call(await self._argv(*words), None, sink)

    async def restore_fetch_head(self) -> None:
        """Reduce FETCH_HEAD's source to the URL, from which git takes the text of a merge."""
        script = 'file=$("$0" "$@" rev-parse --git-path FETCH_HEAD) && sed -i "s#fd::3,4/##" "$file"'
        await self._call(["/bin/sh", "-c", script, *await self._argv()], None, _drop)

    async def connect(self, *words: str, env: Mapping[str, str], source: Source, sink: Sink) -> Reply:
        """Run git connected to another git: that one's bytes are `source` and stdout, the messages stderr."""
        argv = ["/bin/sh", "-c", _WIRED, *await self._argv("-c", "protocol.fd.allow=always", *words)]
        return await self._call(argv, source, sink, env)

    async def _argv(self, *words: str) -> list[str]:
        if self._git is None:
            self._git = await self._find()
        # The folder may belong to a user other than the sandbox's; whatever git runs for it, it runs inside.
        return [self._git, "-c", "safe.directory=*", "-c", "gc.auto=0", "-c", "maintenance.auto=false", *words]

    async def _find(self) -> str:
        for place in _PLACES:
            reply = await self.wire.call(
                "run", {"argv": [place, "--version"]}, timeout_s=self.clock.left_s(), sink=_drop
            )
            if reply.exit_code == 0:
                return place
            if reply.error is not None and "'run'" in reply.error[1]:
                raise HostRefused("denied", "the socket backend cannot relay git")
        raise HostRefused("not_found", f"the sandbox has no git; looked for {', '.join(_PLACES)}")

    async def _call(
        self, argv: list[str], source: Source | None, sink: Sink, env: Mapping[str, str] | None = None
    ) -> Reply:
        args = {"argv": argv, "env": {**_ENV, **(env or {})}, **({} if self.cwd is None else {"cwd": self.cwd})}
        reply = await self.wire.call("run", args, timeout_s=self.clock.left_s(), source=source, sink=sink)
        if reply.error is not None:
            raise HostRefused(*reply.error)
        return reply


async def _once(text: str) -> AsyncIterator[bytes]:
    yield text.encode("utf-8", "surrogateescape")


async def _drop(_stream: str, _data: bytes) -> None:
    """Discard the output."""


def _pairs(listed: str) -> dict[str, tuple[str, ...]]:
    pairs = [pair.partition("\n") for pair in listed.split("\0") if pair]
    if len(pairs) > _MOST_ENTRIES:
        raise HostRefused(
            "denied",
            f"the repository's configuration has more than {_MOST_ENTRIES} entries for its remotes and branches; "
            "remove what is not needed (git config --edit)",
        )
    found: dict[str, list[str]] = {}
    for key, _, value in pairs:
        found.setdefault(key, []).append(value)
    return {key: tuple(values) for key, values in found.items()}


def _tags(listed: str, most: int) -> dict[str, str]:
    lines = listed.splitlines()
    if len(lines) > most:
        raise HostRefused("denied", f"the repository has more than {most} tags; name the tags to fetch")
    found = {}
    for line in lines:
        object_id, _, name = line.partition(" ")
        if not (is_id(object_id) and is_ref(name) and name.startswith("refs/tags/")):
            raise _odd("a list of tags")
        found[name] = object_id
    return found


def _odd(what: str) -> HostRefused:
    return HostRefused("denied", f"git inside the sandbox printed something that is not {what}")
