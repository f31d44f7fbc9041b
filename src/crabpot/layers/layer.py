"""One layer: whose it is, over which folder, and the record of it that nothing inside a sandbox can reach."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Literal, get_args

from crabpot.errors import LayerError
from crabpot.frozen import dataclass
from crabpot.spec.spec import COPY, UPPER
from crabpot.state.files import write_whole
from crabpot.state.untrusted import read_regular

if TYPE_CHECKING:
    from typing import Final

Mechanism = Literal["overlay", "copy"]

RECORD: Final = "layer.json"

_VERSION = 1
# A session key has 4096 characters at most and a path as many; JSON may spell each sixfold.
_LARGEST_RECORD = 128 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """What one scope wrote over one folder of the host."""

    name: str
    path: str
    scope_key: str
    session: str
    agent: str
    folder: str
    # What the folder was when the layer began: another one in its place is not what the changes were made to.
    device: int
    inode: int
    mechanism: Mechanism
    created: float
    # Entries of the layer that were born by then were copied from another layer, and entered in its first mount.
    copied_ns: int | None = None

    @property
    def content(self) -> str:
        """Return the folder that holds what the agent wrote. It is hostile."""
        return os.path.join(self.path, UPPER if self.mechanism == "overlay" else COPY)

    def problem_with_folder(self) -> str | None:
        """Return why the folder is not the one that this layer was made over, or None."""
        try:
            found = os.stat(self.folder, follow_symlinks=False)
        except OSError as error:
            return f"{self.folder}: {error.strerror}"
        if (found.st_dev, found.st_ino) != (self.device, self.inode):
            return f"{self.folder} was replaced by another folder since this session began to change it"
        return None


def write(layer: Layer, folder: str | None = None) -> None:
    """Write the record of a layer, whole or not at all, where it lies or into the folder that becomes it."""
    fields = {
        "version": _VERSION,
        "scope_key": layer.scope_key,
        "session": layer.session,
        "agent": layer.agent,
        "folder": layer.folder,
        "device": layer.device,
        "inode": layer.inode,
        "mechanism": layer.mechanism,
        "created": layer.created,
        "copied_ns": layer.copied_ns,
    }
    write_whole(os.path.join(folder or layer.path, RECORD), json.dumps(fields))


def read(path: str) -> Layer | None:
    """Return the layer at a path, or None if there is none; LayerError if its record cannot be read."""
    try:
        fields: dict[str, Any] = json.loads(read_regular(os.path.join(path, RECORD), most=_LARGEST_RECORD))
        return _layer(path, fields)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise LayerError(
            f"the record of the layer {path} cannot be read ({error}); its files are untouched: look at them there, "
            "and remove that folder to begin anew"
        ) from None


def _layer(path: str, fields: dict[str, Any]) -> Layer:
    if fields["version"] != _VERSION:
        raise ValueError(f"version {fields['version']} is not {_VERSION}")
    if fields["mechanism"] not in get_args(Mechanism):
        raise ValueError(f"no mechanism is called {fields['mechanism']!r}")
    copied = fields["copied_ns"]
    return Layer(
        name=os.path.basename(path),
        path=path,
        scope_key=str(fields["scope_key"]),
        session=str(fields["session"]),
        agent=str(fields["agent"]),
        folder=str(fields["folder"]),
        device=int(fields["device"]),
        inode=int(fields["inode"]),
        mechanism=fields["mechanism"],
        created=float(fields["created"]),
        copied_ns=None if copied is None else int(copied),
    )
