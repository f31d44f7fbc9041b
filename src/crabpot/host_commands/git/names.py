"""Names in git: object ids, ref names and refspecs, by git's own rules, to which what an agent says is held."""

from __future__ import annotations

import re
from dataclasses import dataclass

from crabpot.errors import HostRefused

_ID = re.compile(r"[0-9a-f]{40}")
# check-ref-format(1): control characters, space, ~ ^ : ? * [ \ and DEL stand in no name.
_ODD = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/[.-]|\.lock(/|$)|^/|/$|\.$|^\.")
_LONGEST = 512
_PUSHED = ("refs/heads/", "refs/tags/")
# A tip of a push within the gateway's own repository, the namespace where tips lie, and what would change what commits
# there mean.
_NOT_FETCHED = ("refs/namespaces/", "refs/tip/", "refs/replace/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Refspec:
    """One word of a push or fetch, taken apart; an empty source deletes, an absent target is the source's name."""

    source: str
    target: str | None
    forced: bool


def is_id(text: str) -> bool:
    """Tell whether this is an object's full id."""
    return _ID.fullmatch(text) is not None


def is_ref(text: str) -> bool:
    """Tell whether this is a full ref name that git accepts, and that fits a line."""
    return text.startswith("refs/") and text.count("/") >= 2 and is_name(text)  # noqa: PLR2004  refs/KIND/NAME


def is_name(text: str) -> bool:
    """Tell whether this could be a branch or tag, whole or short."""
    return (
        0 < len(text) <= _LONGEST and text != "@" and not text.startswith("-") and _ODD.search(text) is None
    ) and text.isprintable()


def refspec(word: str) -> Refspec:
    """Take one refspec word apart; wildcards and exclusions are for configurations."""
    forced = word.startswith("+")
    source, colon, target = word.removeprefix("+").partition(":")
    if not source and not target:
        raise HostRefused("denied", f"{word!r} means every branch of the same name; name the branches")
    if source.startswith("-") or not word.isprintable() or len(word) > 2 * _LONGEST or (target and not is_name(target)):
        raise HostRefused("invalid_arguments", f"{word!r} does not name a branch or tag")
    return Refspec(source=source, target=target if colon else None, forced=forced)


def fetched(word: str) -> str:
    """Give what a fetch refspec asks the remote for: a name, a full ref, or a pattern of refs with one `*`."""
    source = word.removeprefix("+").partition(":")[0]
    if is_id(source):
        raise HostRefused("denied", f"{source} is a commit; fetch a branch or tag by its name")
    if "*" in source:
        stem, _, rest = source.partition("*")
        if not (stem.endswith("/") and is_ref(f"{stem}x") and not rest):
            raise HostRefused("denied", f"{word!r} is no refspec that is fetched; write refs/heads/*:…")
    elif not is_name(source):
        raise HostRefused("invalid_arguments", f"{word!r} does not name a branch or tag of the remote")
    if source.startswith(_NOT_FETCHED):
        raise HostRefused("denied", f"{source} is not fetched: it would change what the gateway's repository means")
    return source


def pushed(target: str) -> str:
    """Give the full name of what a push changes; HostRefused where that is neither a branch nor a tag."""
    if not is_ref(target):
        raise HostRefused("invalid_arguments", f"{target!r} is no ref that git takes")
    if not target.startswith(_PUSHED):
        raise HostRefused("denied", f"{target} is neither a branch nor a tag; push to refs/heads/… or refs/tags/…")
    return target


def shown(text: str) -> str:
    """Write a name or URL of the agent's choice for a person: letters that look like blanks or arrows are spelt out."""
    return text.encode("ascii", "backslashreplace").decode("ascii")
