"""The forms of questions that a server asks a person: what they want, and whether an answer fits. Pure.

A form is flat: text, numbers, yes or no, and choices. Whatever else its schema says is not looked at, least of all a
pattern.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_TYPES: dict[str, tuple[type, ...]] = {"string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,)}
_MOST_FIELDS, _LONGEST_TEXT = 32, 4096


def fields(form: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the name of each field, and what it wants in words."""
    needed = form.get("required") or ()
    for name, said in list(_properties(form).items())[:_MOST_FIELDS]:
        options = choices(said)
        wants = " or ".join(options) if options else str(said.get("type"))
        more = " · ".join(str(said[key]) for key in ("title", "description") if said.get(key))
        yield name, f"{wants}{'' if name in needed else ', may be left out'}{f': {more}' if more else ''}"


def choices(said: Mapping[str, Any]) -> list[str]:
    """Return the values among which a field lets choose; none where it is free."""
    listed = said.get("enum")
    if not isinstance(listed, list):
        titled = said.get("oneOf") or said.get("anyOf") or []
        listed = [one.get("const") for one in titled if isinstance(one, dict)] if isinstance(titled, list) else []
    return [one for one in listed if isinstance(one, str)]


def problem(form: Mapping[str, Any], content: Mapping[str, Any]) -> str | None:
    """Return why an answer does not fit its form, or None."""
    known = _properties(form)
    if len(known) > _MOST_FIELDS:
        return f"the form has more than {_MOST_FIELDS} fields; it can only be denied"
    unknown = next((name for name in content if name not in known), None)
    if unknown is not None:
        return f"the form has no field {unknown!r}; it has: {', '.join(known) or 'none'}"
    missing = [name for name in form.get("required") or () if name in known and name not in content]
    if missing:
        return f"the form needs: {', '.join(missing)}"
    wrong = (_problem_with(name, known[name], value) for name, value in content.items())
    return next((one for one in wrong if one is not None), None)


def _problem_with(name: str, said: Mapping[str, Any], value: Any) -> str | None:
    if said.get("type") == "array":
        options = choices(said.get("items") or {})
        fits = isinstance(value, list) and all(one in options for one in value)
        return None if fits else f"{name} is a list of: {', '.join(options)}"
    wanted = _TYPES.get(str(said.get("type")))
    if wanted is None:
        return f"{name} is of a kind that no form has; it can only be left out or denied"
    if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted):
        return f"{name} must be of the type {said['type']}"
    if isinstance(value, str) and len(value) > _LONGEST_TEXT:
        return f"{name} has more than {_LONGEST_TEXT} characters"
    options = choices(said)
    return f"{name} is one of: {', '.join(options)}" if options and value not in options else None


def _properties(form: Mapping[str, Any]) -> dict[str, Any]:
    said = form.get("properties")
    return {name: one for name, one in said.items() if isinstance(one, dict)} if isinstance(said, dict) else {}
