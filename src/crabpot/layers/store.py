"""The layers of a state folder: found by scope or by folder, made, held by one at a time, and forgotten."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from crabpot.errors import LayerBusy, LayerError
from crabpot.layers import layer as layers
from crabpot.layers.changes import exchange
from crabpot.layers.layer import Layer
from crabpot.spec.naming import LAYERS, sandbox_name, taken_by_another
from crabpot.spec.spec import COPY, UPPER, WORK
from crabpot.state.ownership import make_own
from crabpot.state.removal import remove_mapped_tree, remove_tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crabpot.layers.layer import Mechanism

_LOCK = "lock"
# Being made or removed: what an interrupted step leaves is found by this ending, which no layer's name has.
_DRAFT, _GONE = ".draft", ".gone"
_ABANDONED_S = 86_400


class LayerStore:
    """The layers that lie under one state folder."""

    def __init__(self, state: str) -> None:
        self._folder = os.path.join(os.path.realpath(state), LAYERS)

    def path_of(self, scope_key: str) -> str:
        """Return where the layer of a scope lies, or would lie."""
        return os.path.join(self._folder, sandbox_name(scope_key))

    def find(self, scope_key: str) -> Layer | None:
        """Return the layer of a scope; LayerError if its record cannot be read, or names another scope."""
        found = layers.read(self.path_of(scope_key))
        if found is not None and found.scope_key != scope_key:
            # A name has 32 bits of its key's digest, so a key can be made to collide.
            raise LayerError(taken_by_another(f"the layer {found.name}"))
        return found

    def find_by_folder(self, path: str) -> Layer | None:
        """Return the layer over a folder that was used last."""
        return next(iter(self.over(path)), None)

    def over(self, path: str) -> list[Layer]:
        """Return the layers over a folder, the one that was used last before the others."""
        wanted = os.path.realpath(path)
        return sorted((layer for layer in self.all() if layer.folder == wanted), key=used, reverse=True)

    def all(self) -> list[Layer]:
        """Return every layer whose record can be read, by name."""
        found = []
        for name in self._names():
            with suppress(LayerError):
                layer = layers.read(os.path.join(self._folder, name))
                if layer is not None:
                    found.append(layer)
        return found

    def make(self, *, scope_key: str, session: str, agent: str, folder: str, mechanism: Mechanism) -> Layer:
        """Make the empty layer of a scope over a folder, whole or not at all; LayerError if there is one."""
        path, draft = self.path_of(scope_key), self.draft(scope_key)
        found = os.stat(folder, follow_symlinks=False)
        layer = Layer(
            name=os.path.basename(path),
            path=path,
            scope_key=scope_key,
            session=session,
            agent=agent,
            folder=folder,
            device=found.st_dev,
            inode=found.st_ino,
            mechanism=mechanism,
            created=time.time(),
        )
        self._fill(draft, layer)
        return self.publish(draft, layer)

    def draft(self, scope_key: str) -> str:
        """Return a path beside the layers where one is made before `publish` gives it its name."""
        make_own(self._folder)
        return f"{self.path_of(scope_key)}.{os.urandom(4).hex()}{_DRAFT}"

    def publish(self, draft: str, layer: Layer) -> Layer:
        """Name a layer that was made beside the others; LayerError if that is taken."""
        try:
            # Not over another: a folder that holds something is never replaced by a rename.
            os.rename(draft, layer.path)
        except OSError:
            with suppress(OSError):
                _remove(draft)
            raise LayerError(f"there is a layer {layer.name} already") from None
        return layer

    def replace(self, layer: Layer, draft: str) -> None:
        """Put a layer that was made beside it in the place of one that nobody uses; LayerBusy if somebody does."""
        with self.hold(layer):
            # In one step: a process killed here leaves the one or the other.
            exchange.swap_paths(draft, layer.path)
            os.rename(draft, f"{layer.path}.{os.urandom(4).hex()}{_GONE}")
        self.sweep()

    def _fill(self, draft: str, layer: Layer) -> None:
        # The user that root drops to must pass through, from inside its sandbox; on the host the folder above is shut.
        os.mkdir(draft, 0o711 if os.geteuid() == 0 else 0o700)
        try:
            for name in (UPPER, WORK) if layer.mechanism == "overlay" else (COPY,):
                os.mkdir(os.path.join(draft, name), 0o700)
            layers.write(layer, draft)
        except BaseException:
            _remove(draft)
            raise

    @contextmanager
    def hold(self, layer: Layer) -> Iterator[None]:
        """Hold a layer alone, as whoever mounts, applies or removes it must; LayerBusy if somebody else does."""
        handle = self.lock(layer)
        try:
            yield
        finally:
            os.close(handle)

    def lock(self, layer: Layer) -> int:
        """Return a descriptor that holds a layer alone until it is closed; LayerBusy, or LayerError if it is gone.

        A second mount of the same upper folder succeeds silently, and what it then holds is undefined.
        """
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            handle = os.open(os.path.join(layer.path, _LOCK), flags, 0o600)
        except OSError as error:
            raise LayerError(f"the layer {layer.name} is gone, or was tampered with: {error.strerror}") from None
        try:
            _lock(handle, layer)
        except BaseException:
            os.close(handle)
            raise
        return handle

    def forget(self, layer: Layer) -> None:
        """Remove a layer and all in it; LayerBusy while somebody holds it."""
        with self.hold(layer):
            gone = f"{layer.path}.{os.urandom(4).hex()}{_GONE}"
            os.rename(layer.path, gone)
        self.sweep()

    def sweep(self) -> None:
        """Remove what interrupted steps left; what cannot be removed now is left to the next time."""
        for name in (*self._names(_GONE), *self._names(_DRAFT)):
            path = os.path.join(self._folder, name)
            with suppress(OSError):
                if name.endswith(_GONE) or time.time() - os.stat(path).st_mtime > _ABANDONED_S:
                    _remove(path)

    def _names(self, ending: str = "") -> list[str]:
        try:
            found = sorted(os.listdir(self._folder))
        except FileNotFoundError:
            return []
        if ending:
            return [name for name in found if name.endswith(ending)]
        return [name for name in found if not name.endswith((_DRAFT, _GONE))]


def used(layer: Layer) -> float:
    """Return when a layer was last held."""
    try:
        return os.stat(os.path.join(layer.path, _LOCK)).st_mtime
    except OSError:
        return layer.created


def _lock(handle: int, layer: Layer) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise LayerBusy(
            f"the layer of {layer.session} is in use: its sandbox lives, or its changes are being applied; try again "
            "when that ended, or end the sandbox with `crabpot sandboxes stop`"
        ) from None
    # One that was removed before it was locked protects nothing.
    if not _is_still(handle, layer):
        raise LayerError(f"the layer {layer.name} is gone")
    os.utime(handle)


def _is_still(handle: int, layer: Layer) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(os.path.join(layer.path, _LOCK), follow_symlinks=False))
    except OSError:
        return False


def _remove(folder: str) -> None:
    try:
        remove_tree(folder)
    except PermissionError:
        # A rootless engine's containers leave files of subordinate ids.
        remove_mapped_tree(folder)
