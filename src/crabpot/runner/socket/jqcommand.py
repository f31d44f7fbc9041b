"""What jq may read when a client of the socket runs it: its files lie in the roots, and its program loads no module."""

from __future__ import annotations

import os
import re

from ..core.failure import ToolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .roots import Roots

_FLAGS = "nRscCMaSrjehV"
_LONG = (
    "null-input raw-input slurp compact-output color-output monochrome-output ascii-output sort-keys raw-output "
    "raw-output0 join-output exit-status help version tab unbuffered stream stream-errors seq build-configuration"
).split()
_NAMED_TEXT = ("arg", "argjson")
_NAMED_FILE = ("slurpfile", "rawfile", "argfile")
_LARGEST_PROGRAM = 1 << 20

# They read files by any path, and are keywords at the beginning only: elsewhere they are names like any other. Any
# line counts, since versions of jq differ about where a comment before them ends.
_LOADS = re.compile(r"^\s*(?:(?:import|include)\s*(?:[\"#]|$)|module\b\s*[^\s:,}])", re.MULTILINE)


def jq(args: list[bytes], folder: bytes, roots: Roots) -> list[bytes]:
    """Check jq's arguments: the first operand is the program (or its file), the others are files or text."""
    operands, from_file = _read(args, folder, roots)
    for index, (operand, is_value) in enumerate(operands):
        if index == 0 and not from_file:
            _check_program(operand)
        elif not is_value:
            path = roots.resolve(operand, folder)
            if from_file:
                _check_program_file(path)
    return args


def _read(args: list[bytes], folder: bytes, roots: Roots) -> tuple[list[tuple[bytes, bool]], bool]:
    """Return the operands, each with whether it is just text, and whether the program is in a file."""
    operands: list[tuple[bytes, bool]] = []
    from_file = values = done = False
    rest = list(args)
    while rest:
        arg = rest.pop(0)
        if done or not _is_option(arg):
            operands.append((arg, values and bool(operands)))
        elif arg == b"--":
            done = True
        elif not arg.startswith(b"--"):
            from_file = _letters(arg[1:].decode("latin-1")) or from_file
        elif arg in (b"--args", b"--jsonargs"):
            values = True
        elif arg == b"--from-file":
            from_file = True
        else:
            _named(arg[2:].decode("utf-8", "replace"), rest, folder, roots)
    return operands, from_file


def _is_option(arg: bytes) -> bool:
    return arg.startswith(b"-") and (arg[1:2] == b"-" or arg[1:2].isalpha())


def _letters(letters: str) -> bool:
    """Return whether `f`, the program is in a file, is among the letters of an argument such as `-rf`."""
    for letter in letters:
        if letter not in _FLAGS and letter != "f":
            raise _refused("-" + letter)
    return "f" in letters


def _named(name: str, rest: list[bytes], folder: bytes, roots: Roots) -> None:
    """Take a long option and its values off `rest`."""
    takes = 2 if name in (*_NAMED_TEXT, *_NAMED_FILE) else 1 if name == "indent" else 0
    if not takes and name not in _LONG:
        raise _refused("--" + name)
    if len(rest) < takes:
        raise ToolError("invalid_arguments", "jq: the option --%s needs %d more arguments" % (name, takes))
    if name in _NAMED_FILE:
        roots.resolve(rest[1], folder)
    del rest[:takes]


def _refused(option: str) -> ToolError:
    return ToolError("permission_denied", "jq: this runner does not allow the option %s" % option)


def _check_program(program: bytes) -> None:
    text = program.decode("utf-8", "replace").replace("\r", "\n")
    if _LOADS.search(text):
        raise ToolError("permission_denied", "jq: a program that loads modules is refused: it could read any file")


def _check_program_file(path: bytes) -> None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        with os.fdopen(fd, "rb") as file:
            program = file.read(_LARGEST_PROGRAM) or b""
    except OSError:
        return  # jq reports it itself.
    _check_program(program)
