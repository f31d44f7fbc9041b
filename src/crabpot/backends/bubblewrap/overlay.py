"""How a folder is put under review on this machine: below an overlay, where the kernel allows one, or as a copy."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

from crabpot.backends.linux import disks
from crabpot.backends.linux import owner as owners
from crabpot.frozen import dataclass
from crabpot.layers import layer as layers
from crabpot.settings import TRUSTED_PATH
from crabpot.state.removal import remove_tree

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from crabpot.backends.bubblewrap.render import Program
    from crabpot.layers.layer import Mechanism
    from crabpot.spec.spec import SandboxSpec, User

# From here on a layer of an overlay may be a mount that shows other owners.
_MAPPED_LAYERS = (5, 19)
_UNSHARE_TIMEOUT_S, _POLL_S = 5.0, 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """The mechanism, why it is that one, and, where files must seem to be another's, whose they are and become."""

    mechanism: Mechanism
    because: str
    shown_as: tuple[User, User] | None = None

    @property
    def how(self) -> str:
        """Return the sentence of the clause."""
        if self.mechanism == "overlay":
            return f"overlay: changes go to a layer, the host's folder is only read{self.because}"
        return f"copy: changes go to a copy of the host's folder ({self.because})"


def judge(spec: SandboxSpec, program: Program, user: User, owner: User | None, kernel: tuple[int, int]) -> Review:
    """Return what is known without trying. `owner` is that of the folder."""
    root = os.geteuid() == 0
    if not program.seals:
        return Review(mechanism="copy", because="this machine lets nothing that bwrap starts mount")
    if root and program.mounting != "attach":
        return Review(mechanism="copy", because="this kernel cannot pass mounts into a sandbox")
    below = None if program.mounting == "attach" else _mounted_below(spec.workspace)
    if below is not None:
        return Review(mechanism="copy", because=f"{below} is a mount inside it, which the kernel puts below no overlay")
    inside = [mount.target for mount in spec.mounts if mount.target.startswith(spec.workspace_at + "/")]
    if inside:
        return Review(mechanism="copy", because=f"{inside[0]} is mounted inside it")
    if owner in (None, user):
        return Review(mechanism="overlay", because="")
    if not root or kernel < _MAPPED_LAYERS:
        return Review(
            mechanism="copy", because="it belongs to another user or group, whose files no overlay can change"
        )
    assert owner is not None
    shown = f"; files of {owner.uid}:{owner.gid} seem to be {user.uid}:{user.gid}'s"
    return Review(mechanism="overlay", because=shown, shown_as=(owner, user))


class Trials:
    """Tries an overlay once over each file system: no rule tells which of them the kernel takes."""

    def __init__(self, home: str) -> None:
        self._home = home
        self._failures: dict[object, str | None] = {}

    async def settle(self, spec: SandboxSpec, judged: Review, tries: Callable[[str], Awaitable[str | None]]) -> Review:
        """Return the mechanism of the layer that a scope has, or what works; `tries` returns why one does not."""
        assert spec.layer is not None
        found = layers.read(spec.layer)
        if found is not None and found.mechanism == "copy":
            return Review(mechanism="copy", because="as this session's layer was made")
        if found is not None or judged.mechanism == "copy":
            return judged
        key = disks.device_of(spec.workspace), judged.shown_as
        if key not in self._failures:
            self._failures[key] = await self._try(tries)
        why = self._failures[key]
        return judged if why is None else Review(mechanism="copy", because=f"no overlay over it: {why}")

    async def _try(self, tries: Callable[[str], Awaitable[str | None]]) -> str | None:
        layer = f"{self._home}/{owners.label(os.urandom(4).hex())}"
        os.mkdir(layer, 0o711 if os.geteuid() == 0 else 0o700)
        try:
            return await tries(layer)
        finally:
            with suppress(OSError):
                remove_tree(layer)


def _mounted_below(folder: str) -> str | None:
    """Return something that is mounted inside a folder."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        points = [line.split(" ", 5)[4].encode("latin-1", "replace").decode("unicode_escape") for line in file]
    return next((point for point in points if point.startswith(folder.rstrip("/") + "/")), None)


@cache
def mapping(owner: User, shown: User) -> int:
    """Return a user namespace for a mount in which the files of one user seem to be another's; OSError if impossible.

    Kept for as long as the gateway lives: every sandbox over such a folder needs the same.
    """
    import shutil  # noqa: PLC0415  slow to import, and only for root's folders
    import subprocess  # noqa: PLC0415

    program = shutil.which("unshare", path=TRUSTED_PATH)
    if program is None:
        raise FileNotFoundError("unshare (util-linux) is not installed")
    # A process holds the namespace open until the descriptor does; it ends with its input.
    with subprocess.Popen([program, "--user", "cat"], stdin=subprocess.PIPE, env={"PATH": TRUSTED_PATH}) as holder:
        own = os.readlink("/proc/self/ns/user")
        deadline = time.monotonic() + _UNSHARE_TIMEOUT_S
        while os.readlink(f"/proc/{holder.pid}/ns/user") == own:
            if holder.poll() is not None or time.monotonic() > deadline:
                raise OSError("no user namespace could be made")
            time.sleep(_POLL_S)
        for name, inside, outside in (("uid_map", owner.uid, shown.uid), ("gid_map", owner.gid, shown.gid)):
            with open(f"/proc/{holder.pid}/{name}", "w", encoding="ascii") as file:
                file.write(f"{inside} {outside} 1")
        return os.open(f"/proc/{holder.pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
