"""The host's git in a repository of the gateway's own: its configuration, and the walls around it.

Git that reads the agent's packs (`local`) has nothing of the operator's and no TCP. Git that contacts the remote has
the operator's configuration, keys and helpers. Landlock limits the writes of both.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from crabpot.backends.host.backend import start_in
from crabpot.errors import HostRefused
from crabpot.runner.core import landlock
from crabpot.runner.socket.gitsettings import MOVES_ALONE, RUNS_NOTHING
from crabpot.wire.calls import RunnerWire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from crabpot.approvals.identity import Identity
    from crabpot.host_commands.git.clock import Clock
    from crabpot.host_commands.git.store import Store
    from crabpot.wire.calls import Source
    from crabpot.wire.in_flight import Sink
    from crabpot.wire.replies import Reply

_START_S = 20.0
_MOST_TEXT = 16 << 20
_OUTPUT = 64 << 20
# Checks that everyday histories fail. Those that catch attacks on a `.git` or on path parsing are never among them.
_TOLERATED = (
    *("badDate", "badDateOverflow", "badEmail", "badName", "badTimezone", "missingEmail", "missingNameBeforeEmail"),
    *("missingSpaceBeforeDate", "missingSpaceBeforeEmail", "multipleAuthors", "zeroPaddedDate", "zeroPaddedFilemode"),
    *("badFilemode", "missingTaggerEntry", "badTagName", "nulInCommit"),
)
# What a configuration may add to a push, and what the gateway's repository does not offer.
PLAIN_PUSH = {
    **{key: value for key, value in MOVES_ALONE.items() if key.startswith("push.")},
    "push.pushOption": "",
    "push.followTags": "false",
}
# Nothing of the operator's configuration starts a program beside the transport, or adds to what was shown.
_ALWAYS = {
    "protocol.allow": "never",
    "protocol.ssh.allow": "always",
    "protocol.https.allow": "always",
    "protocol.file.allow": "always",
    **RUNS_NOTHING,
    **MOVES_ALONE,
    **PLAIN_PUSH,
    "fetch.writeCommitGraph": "false",
    "fetch.fsckObjects": "true",
    "transfer.bundleURI": "false",
    # The server that was shown must not pass the request, and the operator's password, on to another one.
    "http.followRedirects": "false",
    "fetch.uriProtocols": "",
    # Always as packs, which are counted, however small.
    "fetch.unpackLimit": "1",
    # A pack that inflates without end fails at its memory limit, instead of exhausting the machine's.
    "core.bigFileThreshold": "32m",
    "core.packedGitWindowSize": "32m",
    "core.packedGitLimit": "256m",
    "pack.threads": "1",
    **{f"fetch.fsck.{name}": "ignore" for name in _TOLERATED},
}
_LOCAL = {
    "receive.fsckObjects": "true",
    **{f"receive.fsck.{name}": "ignore" for name in _TOLERATED},
    "receive.unpackLimit": "1",
    "receive.shallowUpdate": "true",
    "receive.autogc": "false",
    "uploadpack.hideRefs": "refs/namespaces",
}

# A replacement would show a commit with other parents: what is counted and compared is what will be there.
_ENV = {"GIT_NO_REPLACE_OBJECTS": "1"}

# A helper that would listen for others needs a socket where it may not write, and gives up altogether. Nor does the
# server, which may be the agent's, get the operator's ssh agent, display or ports, whatever the configuration forwards.
_SSH = "ssh -o ControlMaster=no -o ForwardAgent=no -o ForwardX11=no -o ClearAllForwardings=yes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a hostile pack may cost the host."""

    disk: int
    memory: int

    def limits(self) -> dict[str, int]:
        """Return the bounds as resource limits of the kernel."""
        return {"file_size": self.disk, "address_space": self.memory}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """The host's git, ready to run in one store."""

    git: Identity
    wire: RunnerWire
    store: Store
    clock: Clock
    settings: Mapping[str, str]

    async def ask(self, *words: str, fails: bool = False, text: bytes | None = None) -> str:
        """Run git and return its output; HostRefused with git's message if it fails and must not."""
        kept: dict[str, bytearray] = {}

        async def keep(stream: str, data: bytes) -> None:
            kept.setdefault(stream, bytearray()).extend(data)
            if sum(map(len, kept.values())) > _MOST_TEXT:
                raise HostRefused("output_limit", f"git {words[0]} printed more than {_MOST_TEXT} bytes")

        reply = await self.run(*words, sink=keep, source=None if text is None else _once(text))
        if reply.exit_code != 0 and not fails:
            said = kept.get("stderr", bytearray()).decode("utf-8", "replace").strip()
            raise HostRefused("internal", said[-2000:] or f"git {words[0]} failed with {reply.exit_code}")
        return kept.get("stdout", bytearray()).decode("utf-8", "surrogateescape")

    async def run(self, *words: str, sink: Sink, source: Source | None = None) -> Reply:
        """Run git in the store to its end."""
        set_ = [word for key, value in self.settings.items() for word in ("-c", f"{key}={value}")]
        argv = ["git", *set_, f"--git-dir={self.store.path}", *words]
        args = {"argv": argv, "binary": self.git.as_json(), "paced": True}
        reply = await self.wire.call("run", args, timeout_s=self.clock.left_s(), source=source, sink=sink)
        if reply.error is not None:
            raise HostRefused(*reply.error)
        return reply


@asynccontextmanager
async def local(git: Identity, store: Store, clock: Clock, bounds: Bounds) -> AsyncIterator[Outside]:
    """Return a git that reads what the agent sends, and has nothing of the operator's."""
    env = {
        "PATH": "/usr/bin:/bin",
        "HOME": store.empty,
        "TMPDIR": store.scratch,
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        **_ENV,
    }
    walls = {
        "writable": [store.path, store.scratch, "/dev/null"],
        "offline": True,
        "limits": bounds.limits(),
    }
    settings = {**_ALWAYS, **_LOCAL, "receive.maxInputSize": str(bounds.disk)}
    async with _confined(git, store, clock, env, walls, settings) as made:
        yield made


@asynccontextmanager
async def as_operator(  # noqa: PLR0913  one program, its owner, and what it may touch
    git: Identity, store: Store, clock: Clock, env: Mapping[str, str], *, path: str | None, bounds: Bounds | None
) -> AsyncIterator[Outside]:
    """Return a git that contacts the remote as the operator; `path` is the remote if that is a folder.

    `bounds` limit what comes from the remote. A push has none: it brings nothing, and hooks of a path may need much.
    """
    given = {**env, "TMPDIR": store.scratch, "GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "", **_ENV}
    writable = [store.path, store.scratch, "/dev/null", *([] if path is None else [path])]
    walls = {"writable": writable, **({} if bounds is None else {"limits": bounds.limits()})}
    async with _confined(git, store, clock, given, walls, _ALWAYS) as made:
        chosen = {"GIT_SSH", "GIT_SSH_COMMAND"} & set(given) or await made.ask("config", "core.sshCommand", fails=True)
        yield made if chosen else replace(made, settings={**_ALWAYS, "core.sshCommand": _SSH})


@asynccontextmanager
async def _confined(  # noqa: PLR0913, PLR0917  one program and all that surrounds it
    git: Identity,
    store: Store,
    clock: Clock,
    env: Mapping[str, str],
    walls: Mapping[str, object],
    settings: Mapping[str, str],
) -> AsyncIterator[Outside]:
    if landlock.version() < landlock.OLDEST:
        raise HostRefused(
            "denied",
            "this kernel has no Landlock (Linux 5.19, in the list of security modules), and git never runs on the host "
            "without it; `crabpot doctor` says more",
        )
    runner = start_in(store.empty, shown=store.empty, output_limit=_OUTPUT, environ=env, within=walls)
    try:
        wire = await RunnerWire.connect(runner.channel, runner.hello, timeout_s=_START_S)
        try:
            yield Outside(git=git, wire=wire, store=store, clock=clock, settings=settings)
        finally:
            wire.lose("its work is done")
    finally:
        await runner.close()


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data
