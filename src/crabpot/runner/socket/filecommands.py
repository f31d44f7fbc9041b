"""What the file commands of the allow-list may touch: all their paths lie in the roots, links resolved."""

from __future__ import annotations

import os

from ..core.failure import ToolError
from .grammars import CAT, CP, DIFF, LS, MKDIR, MV, RM, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    from .grammars import Parsed
    from .roots import Roots

    Rule = Callable[[list[bytes], bytes, Roots], list[bytes]]

_STANDARD_INPUT = b"-"
_RECURSIVE = {"r", "R", "a", "recursive", "archive"}


def cat(args: list[bytes], folder: bytes, roots: Roots) -> list[bytes]:
    """Check cat, which reads its operands."""
    _all_inside(parse("cat", CAT, args), folder, roots)
    return args


def ls(args: list[bytes], folder: bytes, roots: Roots) -> list[bytes]:
    """Check ls, which lists its operands; -L, which would follow every link it meets, is refused."""
    _all_inside(parse("ls", LS, args), folder, roots)
    return args


def mkdir(args: list[bytes], folder: bytes, roots: Roots) -> list[bytes]:
    """Check mkdir, which makes its operands."""
    _all_inside(parse("mkdir", MKDIR, args), folder, roots)
    return args


def rm(args: list[bytes], folder: bytes, roots: Roots) -> list[bytes]:
    """Check rm, which removes its operands, a link as itself; never a root."""
    for operand in parse("rm", RM, args).operands:
        _check_removable("rm", operand, folder, roots)
    return args


def mv(args: list[bytes], folder: bytes, roots: Roots) -> list[bytes]:
    """Check mv, which renames its sources, a link as itself; the target is resolved."""
    parsed = parse("mv", MV, args)
    _check_suffix(parsed)
    sources, targets = _split(parsed, "t", "target-directory")
    for source in sources:
        _check_removable("mv", source, folder, roots)
    for target in targets:
        roots.resolve(target, folder)
    return args


def cp(args: list[bytes], folder: bytes, roots: Roots) -> list[bytes]:
    """Check cp. It would write through an existing link at the target: those that can be foreseen are resolved.

    Deeper in a tree they cannot, so a recursive copy removes what it replaces.
    """
    parsed = parse("cp", CP, args)
    _check_suffix(parsed)
    sources, targets = _split(parsed, "t", "target-directory")
    for path in (*sources, *targets):
        roots.resolve(path, folder)
    into = not parsed.given & {"T", "no-target-directory"}
    for target in targets:
        if into and os.path.isdir(os.path.join(folder, target)):
            for source in sources:
                name = source.lstrip(b"/") if "parents" in parsed.given else os.path.basename(source.rstrip(b"/"))
                roots.resolve(os.path.join(target, name), folder)
    if parsed.given & _RECURSIVE and not parsed.given & {"l", "s", "link", "symbolic-link"}:
        return [b"--remove-destination", *args]
    return args


def diff(args: list[bytes], folder: bytes, roots: Roots) -> list[bytes]:
    """Check diff; inside folders it would follow links, and is told not to."""
    parsed = parse("diff", DIFF, args)
    _all_inside(parsed, folder, roots)
    operands = (*parsed.operands, *parsed.paths)
    if any(os.path.isdir(os.path.join(folder, path)) for path in operands):
        return [b"--no-dereference", *args]
    return args


def _all_inside(parsed: Parsed, folder: bytes, roots: Roots) -> None:
    for path in (*parsed.operands, *parsed.paths):
        if path != _STANDARD_INPUT:
            roots.resolve(path, folder)


def _check_removable(command: str, path: bytes, folder: bytes, roots: Roots) -> None:
    resolved = roots.resolve(path, folder, follow=False)
    if roots.is_root(resolved):
        shown = path.decode("utf-8", "replace")
        raise ToolError("permission_denied", "%s: %s is a root of this runner, and stays" % (command, shown))


def _check_suffix(parsed: Parsed) -> None:
    for name in ("S", "suffix"):
        if b"/" in parsed.values.get(name, b""):
            raise parsed.refuse(name, "a suffix with a slash names another place")


def _split(parsed: Parsed, *target_options: str) -> tuple[list[bytes], list[bytes]]:
    """Return sources and targets: the last operand, or what -t names."""
    if parsed.given & set(target_options):
        return parsed.operands, parsed.paths
    return parsed.operands[:-1], parsed.operands[-1:]


RULES: dict[str, Rule] = {
    "cat": cat,
    "ls": ls,
    "mkdir": mkdir,
    "rm": rm,
    "mv": mv,
    "cp": cp,
    "diff": diff,
}
