"""Check the arguments of a tool call strictly; errors say what would be right."""

from __future__ import annotations

from .failure import ToolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Mapping

    Check = Callable[[str, Any], Any]


def invalid(message: str) -> ToolError:
    """Return the error for a malformed call."""
    return ToolError("invalid_arguments", message)


def _kind(value: object) -> str:
    names = {
        bool: "true or false",
        int: "a number",
        float: "a number",
        str: "text",
        list: "a list",
        dict: "an object",
    }
    return names.get(type(value), "nothing")


def text(name: str, value: Any) -> str:
    """Check for text that is valid Unicode: a lone surrogate has no bytes to be written as."""
    if type(value) is not str:
        raise invalid(f"{name} must be text, not {_kind(value)}")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise invalid(f"{name} contains a lone surrogate, which is not valid Unicode") from None
    return value


def path(name: str, value: Any) -> str:
    """Check for a path; surrogates U+DC80 to U+DCFF stand for the bytes of a name that is not UTF-8."""
    if type(value) is not str:
        raise invalid(f"{name} must be a path as text, not {_kind(value)}")
    if not value:
        raise invalid(f'{name} is empty; the workspace itself is "."')
    if "\0" in value:
        raise invalid(f"{name} contains a NUL byte, which no path can")
    if not value.isascii():
        try:
            value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise invalid(f"{name} contains a lone surrogate, which is not valid Unicode") from None
    return value


def flag(name: str, value: Any) -> bool:
    """Check for true or false; neither 1 nor "yes" will do."""
    if type(value) is not bool:
        raise invalid(f"{name} must be true or false, not {_kind(value)}")
    return value


def whole(minimum: int, maximum: int = 2**63 - 1) -> Check:
    """Return a check for a whole number within bounds; true does not count as 1."""

    def check(name: str, value: Any) -> int:
        if type(value) is not int:
            raise invalid(f"{name} must be a whole number, not {_kind(value)}")
        if value < minimum:
            raise invalid(f"{name} is {value}; the minimum is {minimum}")
        if value > maximum:
            raise invalid(f"{name} is {value}; the maximum is {maximum}")
        return value

    return check


def choice(*options: str) -> Check:
    """Return a check for one of a few words."""

    def check(name: str, value: Any) -> str:
        if type(value) is not str or value not in options:
            raise invalid(f"{name} must be one of: {', '.join(options)}")
        return value

    return check


def take(tool: str, args: Any, required: Mapping[str, Check], optional: Mapping[str, Check]) -> dict[str, Any]:
    """Return the checked arguments; an optional one that is missing or null is None."""
    if type(args) is not dict:
        raise invalid(f"the arguments of {tool} must be an object, not {_kind(args)}")
    for name in args:
        if name not in required and name not in optional:
            known = ", ".join([*required, *(f"{each}?" for each in optional)])
            raise invalid(f"{tool} has no argument {name!r:.80}; it takes {known}")
    for name in required:
        if args.get(name) is None:
            raise invalid(f"{tool} needs the argument {name}")
    values: dict[str, Any] = dict.fromkeys(optional)
    for name, value in args.items():
        if value is not None:
            values[name] = (required.get(name) or optional[name])(name, value)
    return values
