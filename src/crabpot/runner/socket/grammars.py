"""The options of the commands that a runner on a socket knows, and the parser that applies them.

Whatever is not in a table is refused: an option that nobody thought about may take a path, or run a program. Long
options must be written in full, since a prefix of `--target-directory` names the same option.
"""

from __future__ import annotations

from ..core.failure import ToolError

_STANDARD_INPUT = b"-"


class Grammar:
    """One command's options.

    `long` lists names: `name` takes no value, `name=` text, `name?` optional text after `=`, `name@` a path.
    `refused` says why letters and names are refused.
    """

    def __init__(self, flags: str, long: str, *, texts: str = "", paths: str = "", refused: dict[str, str]) -> None:
        self.flags = flags
        self.texts = texts
        self.paths = paths
        self.long = {name.rstrip("=?@"): name[-1] if name[-1] in "=?@" else "" for name in long.split()}
        self.refused = refused


class Parsed:
    """A command line as the command itself would read it."""

    def __init__(self, command: str) -> None:
        self.command = command
        self.given: set[str] = set()
        self.values: dict[str, bytes] = {}
        self.paths: list[bytes] = []
        self.operands: list[bytes] = []

    def refuse(self, option: str, why: str) -> ToolError:
        """Return the error for an option."""
        return ToolError("permission_denied", "%s: the option %s is refused: %s" % (self.command, option, why))


def parse(command: str, grammar: Grammar, args: list[bytes]) -> Parsed:
    """Parse `args`, options and operands in any order as GNU programs do; ToolError for a refused option."""
    parsed = Parsed(command)
    rest = list(args)
    while rest:
        arg = rest.pop(0)
        if arg == b"--":
            parsed.operands += rest
            break
        if arg == _STANDARD_INPUT or not arg.startswith(b"-"):
            parsed.operands.append(arg)
        elif arg.startswith(b"--"):
            _long(parsed, grammar, arg, rest)
        else:
            _short(parsed, grammar, arg, rest)
    return parsed


def _long(parsed: Parsed, grammar: Grammar, arg: bytes, rest: list[bytes]) -> None:
    raw, equals, value = arg[2:].partition(b"=")
    name = raw.decode("utf-8", "replace")
    if name in grammar.refused:
        raise parsed.refuse("--" + name, grammar.refused[name])
    kind = grammar.long.get(name)
    if kind is None:
        raise parsed.refuse("--" + name, "this runner does not know it (write it in full)")
    if equals and not kind:
        raise parsed.refuse("--" + name, "it takes no value")
    if kind in ("=", "@") and not equals:
        value = _next(parsed, "--" + name, rest)
    _take(parsed, name, kind, value)


def _short(parsed: Parsed, grammar: Grammar, arg: bytes, rest: list[bytes]) -> None:
    letters = arg[1:].decode("latin-1")
    for at, letter in enumerate(letters):
        if letter in grammar.refused:
            raise parsed.refuse("-" + letter, grammar.refused[letter])
        if letter in grammar.flags:
            parsed.given.add(letter)
            continue
        if letter not in grammar.texts and letter not in grammar.paths:
            raise parsed.refuse("-" + letter, "this runner does not know it")
        value = arg[at + 2 :] or _next(parsed, "-" + letter, rest)
        _take(parsed, letter, "@" if letter in grammar.paths else "=", value)
        return


def _next(parsed: Parsed, option: str, rest: list[bytes]) -> bytes:
    if not rest:
        raise ToolError("invalid_arguments", "%s: the option %s needs a value" % (parsed.command, option))
    return rest.pop(0)


def _take(parsed: Parsed, name: str, kind: str, value: bytes) -> None:
    parsed.given.add(name)
    if kind == "@":
        parsed.paths.append(value)
    if kind:
        parsed.values[name] = value


_FOLLOWS = dict.fromkeys(("L", "dereference"), "it follows links, and so out of the roots")
_PAGES = dict.fromkeys(("l", "paginate"), "it starts another program")
_WHOLE = {"no-preserve-root": "it has no legitimate use here"}

CAT = Grammar(
    "AbeEnstTuv",
    "show-all number-nonblank show-ends number squeeze-blank show-tabs show-nonprinting help version",
    refused={},
)
LS = Grammar(
    "aAbBcCdDfFgGhHiklmnNopqQrRsStuUvxXZ1",
    "all almost-all author escape block-size= ignore-backups color? directory dired classify? file-type format= "
    "full-time group-directories-first no-group human-readable si dereference-command-line "
    "dereference-command-line-symlink-to-dir hide= hyperlink? indicator-style= inode ignore= kibibytes numeric-uid-gid "
    "literal hide-control-chars show-control-chars quote-name quoting-style= reverse recursive size sort= time= "
    "time-style= tabsize= width= context zero help version",
    texts="ITw",
    refused=_FOLLOWS,
)
MKDIR = Grammar("pvZ", "mode= parents verbose context? help version", texts="m", refused={})
CP = Grammar(
    "abdfiHlnPprRsTuvxZ",
    "archive attributes-only backup? copy-contents force interactive link no-clobber no-dereference preserve? "
    "no-preserve= parents recursive reflink? remove-destination sparse= strip-trailing-slashes symbolic-link suffix= "
    "target-directory@ no-target-directory update? verbose one-file-system context? debug help version",
    texts="S",
    paths="t",
    refused=_FOLLOWS,
)
MV = Grammar(
    "bfinTuvZ",
    "backup? force interactive no-clobber no-copy exchange strip-trailing-slashes suffix= target-directory@ "
    "no-target-directory update? verbose context? debug help version",
    texts="S",
    paths="t",
    refused={},
)
RM = Grammar(
    "fiIrRdv",
    "force interactive? one-file-system preserve-root? recursive dir verbose help version",
    refused=_WHOLE,
)
DIFF = Grammar(
    "qscuenyptTrNPiEZbwBadvH0123456789",
    "normal brief report-identical-files context? unified? ed rcs side-by-side width= left-column "
    "suppress-common-lines show-c-function show-function-line= label= expand-tabs initial-tab tabsize= "
    "suppress-blank-empty recursive no-dereference new-file unidirectional-new-file ignore-file-name-case "
    "no-ignore-file-name-case exclude= exclude-from@ starting-file= from-file@ to-file@ ignore-case "
    "ignore-tab-expansion ignore-trailing-space ignore-space-change ignore-all-space ignore-blank-lines "
    "ignore-matching-lines= text strip-trailing-cr ifdef= line-format= old-line-format= new-line-format= "
    "unchanged-line-format= old-group-format= new-group-format= unchanged-group-format= changed-group-format= minimal "
    "horizon-lines= speed-large-files color? palette= help version",
    texts="CUWFLxISD",
    paths="X",
    refused=_PAGES,
)
