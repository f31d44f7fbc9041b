"""Change several files together: everything is written beside its target first, then moved there, or all is undone."""

from __future__ import annotations

import posix

from ..core.failure import ToolError
from .atomic import Replacement, temporary_name
from .context import failed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    from .target import Target


class Staging:
    """The new state of some files. Until commit() only hidden files beside the old ones are visible."""

    def __init__(self) -> None:
        self._replacements: list[Replacement] = []
        self._removals: list[Target] = []
        self._undo: list[Callable[[], None]] = []
        self._backups: list[tuple[Target, bytes]] = []

    def put(self, target: Target, content: bytes, like: posix.stat_result | None) -> None:
        """Write this content, with the mode of `like`; a full disk or a forbidden folder already fails here."""
        replacement = Replacement(target, like)
        self._replacements.append(replacement)
        replacement.write(content)
        replacement.seal()

    def remove(self, target: Target) -> None:
        """Plan the removal of the file."""
        self._removals.append(target)

    def commit(self) -> None:
        """Apply all of it or, after any failure, nothing: what was done is undone in reverse order."""
        for target in [*(each.target for each in self._replacements), *self._removals]:
            target.check_unchanged()
        try:
            for target in self._removals:
                self._set_aside(target)
            for replacement in self._replacements:
                self._publish(replacement)
        except (ToolError, OSError):
            self._roll_back()
            raise

    def close(self) -> None:
        """Remove what was only needed on the way; call it in any case."""
        for replacement in self._replacements:
            replacement.abort()
        for target, backup in self._backups:
            _quietly_unlink(target, backup)

    def _roll_back(self) -> None:
        stuck = []
        for undo in reversed(self._undo):
            try:
                undo()
            except OSError as error:
                stuck.append(str(error))
        # Where an old file could not be put back, its hidden name is all that is left of it.
        self._backups.clear()
        if stuck:
            raise ToolError("internal", "the patch failed and could not be undone: " + "; ".join(stuck))

    def _set_aside(self, target: Target) -> None:
        backup = temporary_name()
        try:
            _rename(target, target.name, backup)
        except OSError as error:
            raise failed(error, target.place) from None
        self._backups.append((target, backup))
        self._undo.append(lambda: _rename(target, backup, target.name))

    def _publish(self, replacement: Replacement) -> None:
        target = replacement.target
        if target.previous is None:
            replacement.publish_new()
            self._undo.append(lambda: _quietly_unlink(target, target.name))
            return
        backup = temporary_name()
        try:
            # A second name for the old file: its place is never empty, and undoing needs no disk space.
            posix.link(target.name, backup, src_dir_fd=target.folder, dst_dir_fd=target.folder, follow_symlinks=False)
        except OSError:
            self._set_aside(target)
        else:
            self._backups.append((target, backup))
            self._undo.append(lambda: _restore(target, backup))
        replacement.publish()


def _rename(target: Target, old: bytes, new: bytes) -> None:
    posix.rename(old, new, src_dir_fd=target.folder, dst_dir_fd=target.folder)


def _restore(target: Target, backup: bytes) -> None:
    _rename(target, backup, target.name)
    # A rename between two names of one file does nothing: that is the case if the new version never came into place.
    _quietly_unlink(target, backup)


def _quietly_unlink(target: Target, name: bytes) -> None:
    try:
        posix.unlink(name, dir_fd=target.folder)
    except OSError:
        pass  # Gone already, with its folder or removed by somebody else.
