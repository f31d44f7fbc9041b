"""The arguments of bubblewrap and the seal, with something left out or added: each function removes one wall."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

from crabpot.backends.bubblewrap import seal

Argv = list[str]
Op = tuple[str, ...]


class Scene(NamedTuple):
    """What lies on the host for the time of an attack, and may be changed by one that works."""

    bait: str
    state: str


Edit = Callable[[Argv, Scene], Argv]

_VALUES = {
    **dict.fromkeys(("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net"), 0),
    **dict.fromkeys(("--new-session", "--die-with-parent", "--as-pid-1", "--clearenv"), 0),
    **dict.fromkeys(("--hostname", "--info-fd", "--chdir", "--dir", "--proc", "--remount-ro", "--tmpfs"), 1),
    **dict.fromkeys(("--cap-drop", "--cap-add", "--perms", "--size"), 1),
    **dict.fromkeys(("--setenv", "--ro-bind", "--bind", "--dev-bind", "--symlink", "--file"), 2),
    **dict.fromkeys(("--ro-bind-fd", "--bind-fd"), 2),
}
_SETS_NEXT = ("--perms", "--size")


def ops(argv: Argv) -> tuple[list[Op], Argv]:
    """Take arguments apart: operations, each with the permissions that it is given, and what follows `--`."""
    end = argv.index("--")
    found: list[Op] = []
    at, before = 0, []
    while at < end:
        size = 1 + _VALUES[argv[at]]
        words = argv[at : at + size]
        at += size
        if words[0] in _SETS_NEXT:
            before += words
            continue
        found.append((*before, *words))
        before = []
    return found, argv[end:]


def kept(argv: Argv, keep: Callable[[str, str], bool]) -> Argv:
    """Keep the operations that `keep` says of, by their name and their last value."""
    found, rest = ops(argv)
    return [word for op in found if keep(_name(op), op[-1]) for word in op] + rest


def _name(op: Op) -> str:
    return next(word for word in op if word.startswith("--") and word not in _SETS_NEXT)


def drop(argv: Argv, *names: str) -> Argv:
    """Leave operations out."""
    return kept(argv, lambda name, _target: name not in names)


def unordered(argv: Argv, *orders: str) -> Argv:
    """Leave orders for the seal out."""
    assert set(orders) <= set(seal._ORDERS), "an order of another name would leave its wall standing"
    found, rest = ops(argv)
    gone = tuple(f"{name}=" for name in orders)
    return [word for op in found for word in op] + [word for word in rest if not word.startswith(gone)]


def before_the_end(argv: Argv, *more: str) -> Argv:
    """Tell more, before the root is made read-only."""
    at = argv.index("--remount-ro") if "--remount-ro" in argv else argv.index("--cap-drop")
    return [*argv[:at], *more, *argv[at:]]


def chained(*edits: Edit) -> Edit:
    """One after the other."""

    def edit(argv: Argv, scene: Scene) -> Argv:
        for one in edits:
            argv = one(argv, scene)
        return argv

    return edit


def without(*names: str) -> Edit:
    """Leave operations out, wherever."""
    return lambda argv, _scene: drop(argv, *names)


def without_orders(*names: str) -> Edit:
    """Leave orders out, wherever."""
    return lambda argv, _scene: unordered(argv, *names)


no_filter = without_orders("filter")
no_masks = without_orders("mask-file", "mask-folder", "lock")


def capabilities_kept(argv: Argv, _scene: Scene) -> Argv:
    """Over the sandbox's own namespaces, or over the host where it is in none."""
    at = argv.index("--cap-drop")
    edited = drop(argv, "--cap-add", "--cap-drop")
    return unordered([*edited[:at], "--cap-add", "ALL", *edited[at:]], "drop")


def shared_pids(argv: Argv, scene: Scene) -> Argv:
    """Nobody may mount /proc anew for a namespace that is not his, so it is the host's own."""
    edited = drop(argv, "--unshare-pid", "--as-pid-1", "--proc")
    return no_masks(before_the_end(edited, "--bind", "/proc", "/proc"), scene)


def hosts_folders(argv: Argv, scene: Scene) -> Argv:
    """Read-only, but for the bait: an attack that works must do no harm."""
    tops = ("/var", "/run", "/home", "/root", "/srv", "/boot", "/opt", "/mnt", "/media")
    edited = [word for path in tops if os.path.isdir(path) for word in ("--ro-bind", path, path)]
    # The private one would cover the bait.
    shown = [word for word in argv if not word.endswith(":/var/tmp")]
    return before_the_end(shown, *edited, *(word for path in scene for word in ("--bind", path, path)))


def hosts_etc(argv: Argv, _scene: Scene) -> Argv:
    """In the place of the small one."""
    edited = kept(argv, lambda _name, target: target != "/etc" and not target.startswith("/etc/"))
    return before_the_end(edited, "--ro-bind", "/etc", "/etc")


def hosts_devices(argv: Argv, _scene: Scene) -> Argv:
    """All of them, with the terminals and the shared memory of the host."""
    edited = kept(argv, lambda _name, target: target != "/dev" and not target.startswith("/dev/"))
    end = edited.index("--")
    orders = [word for word in edited[end:] if not word.endswith(":/dev/shm")]
    return unordered([*before_the_end(edited[:end], "--dev-bind", "/dev", "/dev"), *orders], "terminals", "lock-device")


def plain_tmp(argv: Argv, _scene: Scene) -> Argv:
    """As bubblewrap makes one by itself: programs in it run, and it has no size."""
    places = ("/tmp", "/var/tmp", "/dev/shm")
    edited = before_the_end(argv, *(word for place in places for word in ("--perms", "1777", "--tmpfs", place)))
    return unordered(edited, "tmpfs")


def privileged(argv: Argv, scene: Scene) -> Argv:
    """As `docker run --privileged` with the host's folders: real root, in no user namespace."""
    edited = before_the_end(drop(argv, "--unshare-user"), "--bind", "/sys", "/sys")
    return chained(capabilities_kept, no_filter, no_masks, hosts_folders, hosts_etc, hosts_devices)(edited, scene)
