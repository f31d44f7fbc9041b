"""Check object ids, ref names and refspecs, which come from an agent, by git's own rules."""

from __future__ import annotations

import re
from dataclasses import dataclass

from crabpot.errors import HostRefused

_ID = re.compile(r"[0-9a-f]{40}")
# check-ref-format(1): no name contains control characters, space, ~ ^ : ? * [ \ or DEL.
_ODD = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/[.-]|\.lock(/|$)|^/|/$|\.$|^\.")
_LONGEST = 512
_PUSHED = ("refs/heads/", "refs/tags/")
# In the gateway's repository: a tip of a push, the namespace of tips, and refs that would change what commits mean.
_NOT_FETCHED = ("refs/namespaces/", "refs/tip/", "refs/replace/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Refspec:
    """A parsed refspec of a push or fetch; an empty source deletes, an absent target is the source's name."""

    source: str
    target: str | None
    forced: bool


def is_id(text: str) -> bool:
    """Return whether this is an object's full id."""
    return _ID.fullmatch(text) is not None


def is_ref(text: str) -> bool:
    """Return whether this is a full ref name that git accepts, and that fits a line."""
    return text.startswith("refs/") and text.count("/") >= 2 and is_name(text)  # noqa: PLR2004  refs/KIND/NAME


def is_name(text: str) -> bool:
    """Return whether this could be a branch or tag, as a full or short name."""
    return (
        0 < len(text) <= _LONGEST and text != "@" and not text.startswith("-") and _ODD.search(text) is None
    ) and text.isprintable()


def refspec(word: str) -> Refspec:
    """Parse a refspec on a command line; wildcards and exclusions belong in configurations."""
    forced = word.startswith("+")
    source, colon, target = word.removeprefix("+").partition(":")
    if not source and not target:
        raise HostRefused("denied", f"{word!r} means every branch of the same name; name the branches")
    if source.startswith("-") or not word.isprintable() or len(word) > 2 * _LONGEST or (target and not is_name(target)):
        raise HostRefused("invalid_arguments", f"{word!r} does not name a branch or tag")
    return Refspec(source=source, target=target if colon else None, forced=forced)


def fetched(word: str) -> str:
    """Return what a fetch refspec asks the remote for: a name, a full ref, or a pattern of refs with one `*`."""
    source = word.removeprefix("+").partition(":")[0]
    if is_id(source):
        raise HostRefused("denied", f"{source} is a commit; fetch a branch or tag by its name")
    if "*" in source:
        stem, _, rest = source.partition("*")
        if not (stem.endswith("/") and is_ref(f"{stem}x") and not rest):
            raise HostRefused("denied", f"{word!r} is not a refspec that can be fetched; write refs/heads/*:…")
    elif not is_name(source):
        raise HostRefused("invalid_arguments", f"{word!r} does not name a branch or tag of the remote")
    if source.startswith(_NOT_FETCHED):
        raise HostRefused("denied", f"{source} is not fetched: it would change what the gateway's repository means")
    return source


def pushed(target: str) -> str:
    """Return the full name of the ref that a push changes; HostRefused if that is neither a branch nor a tag."""
    if not is_ref(target):
        raise HostRefused("invalid_arguments", f"{target!r} is not a valid ref name")
    if not target.startswith(_PUSHED):
        raise HostRefused("denied", f"{target} is neither a branch nor a tag; push to refs/heads/… or refs/tags/…")
    return target


def shown(text: str) -> str:
    """Return an agent's name or URL for a person to read: characters that look like blanks or arrows are escaped."""
    return text.encode("ascii", "backslashreplace").decode("ascii")
