"""What a layer was before: the host's files that the agent began from, and each file as it was after each call.

Nobody can ask the kernel for either. So a layer is looked at whenever its sandbox comes to rest, and what differs from
the look before is noted, with the content of files that are not too large.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from crabpot.errors import LayerError
from crabpot.layers import trees
from crabpot.layers.changes import applied
from crabpot.layers.changes.change import git_mode
from crabpot.layers.changes.reading import both, judged
from crabpot.state.files import write_whole
from crabpot.state.untrusted import read_regular

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crabpot.layers.changes.change import Change
    from crabpot.layers.changes.tree import Tree
    from crabpot.layers.layer import Layer

LARGEST_FILE = 1 << 20
MOST_BYTES = 64 << 20
# Of a layer with more changes nothing is noted: each look would take seconds.
MOST_PATHS = 5000
_LONGEST_LOG = 16 << 20
_STATE, _LOG, _CONTENTS = "looked.json", "history.jsonl", "contents"


class Version(NamedTuple):
    """A file or a link at one moment: its mode as git writes it, and what its content is kept as, None if it is not."""

    mode: str
    content: str | None


class Noted(NamedTuple):
    """A path that changed: when, what it was until then, and what it is since; None for nothing."""

    path: str
    changed_ns: int
    before: Version | None
    after: Version | None


def look(layer: Layer) -> None:
    """Note what changed since the last look; call it while the layer is held."""
    if noted := _look(layer):
        _append(layer, noted)


def carry(source: Layer, target: Layer) -> None:
    """Have what takes a layer's place go on with its history; what that begins with is no call's change."""
    with suppress(FileNotFoundError):
        trees.copy(os.path.join(source.path, _CONTENTS), os.path.join(target.path, _CONTENTS))
    with suppress(FileNotFoundError), open(os.path.join(source.path, _LOG), encoding="ascii") as log:
        write_whole(os.path.join(target.path, _LOG), log.read())
    write_whole(os.path.join(target.path, _STATE), json.dumps({**_read(source), "last": {}}))
    with suppress(LayerError, OSError):
        _look(target)


def _look(layer: Layer) -> list[Noted]:
    before = _read(layer)
    with both(layer) as (content, host):
        found = [one for one in judged(layer, content, host, most=MOST_PATHS) if one.kind != "folder"]
        kept = _Contents(layer)
        now: dict[str, Any] = {"bases": dict(_bases(found, host, before["bases"], kept)), "last": {}}
        noted = []
        for one in found:
            mark, known = _mark(one.new), before["last"].get(one.path)
            if known is None or known[0] != mark:
                was = _known(now["bases"].get(one.path)) if known is None else known[1]
                is_ = kept.version(content, one.path, one.new)
                noted.append(Noted(one.path, _changed_ns(content, one.path), was, is_))
                known = [mark, is_]
            now["last"][one.path] = known
    if now != before:
        write_whole(os.path.join(layer.path, _STATE), json.dumps(now))
    return noted


def bases(layer: Layer) -> dict[str, Version | None]:
    """Return what the agent began from, by path; None for nothing. A path that is not there is not known."""
    return {path: None if told is None else Version(*told) for path, (_, told) in _read(layer)["bases"].items()}


def noted(layer: Layer) -> Iterator[Noted]:
    """Yield the changes of a layer, the oldest first."""
    with suppress(OSError, ValueError, TypeError):
        for line in read_regular(os.path.join(layer.path, _LOG), most=2 * _LONGEST_LOG).splitlines():
            for path, changed_ns, *told in json.loads(line):
                before, after = (None if one is None else Version(*one) for one in told)
                yield Noted(str(path), int(changed_ns), before, after)


def content_of(layer: Layer, version: Version) -> bytes | None:
    """Return the content of a version, or None if it is not kept."""
    if version.content is None:
        return None
    try:
        return read_regular(os.path.join(layer.path, _CONTENTS, version.content), most=LARGEST_FILE)
    except OSError:
        return None


def _bases(found: list[Change], host: Tree, before: dict[str, Any], kept: _Contents) -> Iterator[tuple[str, list[Any]]]:
    for one in found:
        stamp = list(applied.stamp(one.old))
        known = before.get(one.path)
        if known is not None and (one.conflict or known[0] == stamp):
            yield one.path, known
        elif not one.conflict:
            # The host has not changed it since the agent first saw it.
            version = kept.version(host, one.path, one.old)
            if list(applied.stamp(host.stat(one.path))) == stamp:
                yield one.path, [stamp, None if version is None else list(version)]


def _known(base: list[Any] | None) -> Any:
    """Return the version of a base; of one that nobody knows, a version whose content is not kept."""
    return Version("100644", None) if base is None else base[1]


class _Contents:
    """The contents that a layer keeps, by digest."""

    def __init__(self, layer: Layer) -> None:
        self._folder = os.path.join(layer.path, _CONTENTS)
        self._size: int | None = None

    def version(self, tree: Tree, path: str, facts: os.stat_result | None) -> Version | None:
        """Return what lies at a path, and keep its content if it is not too large."""
        mode = None if facts is None else git_mode(facts)
        if facts is None or mode is None:
            return None
        with suppress(OSError):
            link = mode == "120000"
            data = os.fsencode(tree.target(path)) if link else tree.read(path, LARGEST_FILE)
            return Version(mode, None if data is None else self._keep(data))
        return Version(mode, None)

    def _keep(self, data: bytes) -> str | None:
        name = hashlib.sha256(data).hexdigest()
        path = os.path.join(self._folder, name)
        if self._size is None:
            os.makedirs(self._folder, 0o700, exist_ok=True)
            with os.scandir(self._folder) as entries:
                self._size = sum(entry.stat().st_size for entry in entries)
        if os.path.exists(path):
            return name
        if self._size + len(data) > MOST_BYTES:
            return None
        self._size += len(data)
        draft = f"{path}.{os.urandom(4).hex()}"
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(data)
        os.rename(draft, path)
        return name


def _mark(facts: os.stat_result | None) -> list[int] | None:
    """Return what tells one state of a file from the next."""
    return None if facts is None else [facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_mode]


def _changed_ns(content: Tree, path: str) -> int:
    """Return when the layer changed at a path; of what is gone without a trace, when its folder did."""
    while (facts := content.stat(path)) is None:
        path = path.rpartition("/")[0]
    return facts.st_ctime_ns


def _append(layer: Layer, noted: list[Noted]) -> None:
    with open(os.path.join(layer.path, _LOG), "a", encoding="ascii") as log:
        if log.tell() < _LONGEST_LOG:
            log.write(json.dumps(noted) + "\n")


def _read(layer: Layer) -> dict[str, Any]:
    """Return what the last look noted; what cannot be read counts as no look."""
    with suppress(OSError, ValueError, AttributeError):
        told: dict[str, Any] = json.loads(read_regular(os.path.join(layer.path, _STATE), most=1 << 30))
        if isinstance(told.get("bases"), dict) and isinstance(told.get("last"), dict):
            return told
    return {"bases": {}, "last": {}}
