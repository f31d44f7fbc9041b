"""The rules of .gitignore files, read as ripgrep reads them: the last rule that matches a path decides."""

from __future__ import annotations

from .wildcard import translate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from re import Pattern

# Rules are about bytes (`?` is one byte): paths and rules are both decoded as Latin-1, which maps byte to character.
SIZE_LIMIT = 1 << 20
_MAX_RULES = 10_000
_BLANK = " \t\r\n\v\f"


class _Rule:
    __slots__ = ("by_name", "expression", "folders_only", "negated", "regex")

    def __init__(self, expression: str, *, by_name: bool, negated: bool, folders_only: bool) -> None:
        import re  # noqa: PLC0415  # only a search needs it

        self.expression = expression
        self.by_name = by_name
        self.negated = negated
        self.folders_only = folders_only
        self.regex: Pattern[str] = re.compile(expression, re.DOTALL)


class IgnoreRules:
    """One .gitignore file."""

    __slots__ = ("_names", "_paths", "_rules")

    def __init__(self, data: bytes) -> None:
        lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n") if data else []
        self._rules: list[_Rule] = []
        for line in lines[:_MAX_RULES]:
            if not _is_utf8(line):
                break  # ripgrep reads no further either
            rule = _parse(line.decode("latin-1"))
            if rule is not None:
                self._rules.append(rule)
        # Most paths match no rule at all: one search for all of them together says so.
        self._names = _together([rule for rule in self._rules if rule.by_name])
        self._paths = _together([rule for rule in self._rules if not rule.by_name])

    def verdict(self, path: str, name: str, *, folder: bool) -> bool | None:
        """Return True: ignored, False: brought back by `!`, None: no rule applies. `path` starts at the rule file."""
        by_name = self._names is not None and self._names.fullmatch(name)
        by_path = self._paths is not None and self._paths.fullmatch(path)
        if not by_name and not by_path:
            return None
        for rule in reversed(self._rules):
            if rule.folders_only and not folder:
                continue
            if rule.regex.fullmatch(name if rule.by_name else path):
                return not rule.negated
        return None


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _together(rules: list[_Rule]) -> Pattern[str] | None:
    import re  # noqa: PLC0415

    return re.compile("|".join(f"(?:{rule.expression})" for rule in rules), re.DOTALL) if rules else None


def _parse(line: str) -> _Rule | None:
    if not line.endswith("\\ "):
        line = line.rstrip(_BLANK)
    if not line or line.startswith("#"):
        return None
    negated = line.startswith("!")
    if line.startswith(("!", "\\!", "\\#")):
        line = line[1:]
    anchored = line.startswith("/")
    folders_only = line[1:].endswith("/") if anchored else line.endswith("/")
    line = line[1:] if anchored else line
    if folders_only:
        line = line[:-1].removesuffix("\\")
    return _rule(line, anchored=anchored or "/" in line, negated=negated, folders_only=folders_only)


def _rule(line: str, *, anchored: bool, negated: bool, folders_only: bool) -> _Rule | None:
    by_name = not anchored and line != "**"
    if by_name and "[" in line:
        # ripgrep lets [!x] match a slash, so such a rule looks at more than the name.
        by_name, line = False, "**/" + line
    if line.endswith("/**"):
        line += "/*"  # what is inside the folder, and not the folder itself
    expression = translate(line)
    if expression is None:
        return None
    return _Rule(expression, by_name=by_name, negated=negated, folders_only=folders_only)
