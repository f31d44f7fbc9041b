"""What a repository's configuration would make git run, or read outside, and how git is kept from it. Pure.

The agent can write that configuration. The container around the runner contains it; this keeps the allow-list true.
"""

from __future__ import annotations

import os
import re

from .gitargs import STRATEGIES
from .gitsettings import MOVES_ALONE, RUNS_NOTHING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .roots import Roots

_NOWHERE = b"/nonexistent/crabpot"

# Not /dev/null: `git config --global` as root would replace it with a file.
ENVIRONMENT: dict[bytes, bytes] = {
    b"GIT_CONFIG_NOSYSTEM": b"1",
    b"GIT_CONFIG_SYSTEM": _NOWHERE,
    b"GIT_CONFIG_GLOBAL": _NOWHERE,
    b"GIT_ATTR_NOSYSTEM": b"1",
    b"GIT_TERMINAL_PROMPT": b"0",
    b"GIT_ASKPASS": b"/bin/false",
    b"SSH_ASKPASS": b"/bin/false",
    b"GIT_EDITOR": b":",
    b"GIT_SEQUENCE_EDITOR": b":",
    b"GIT_PAGER": b"cat",
    b"GIT_SSH_COMMAND": b"/bin/false",
    b"GIT_PROXY_COMMAND": b"/bin/false",
    # Neither ext:: nor any network: only folders are reachable.
    b"GIT_ALLOW_PROTOCOL": b"file",
    b"GIT_NO_LAZY_FETCH": b"1",
    b"GIT_OPTIONAL_LOCKS": b"0",
}

_FIXED: tuple[tuple[str, str], ...] = (
    *RUNS_NOTHING.items(),
    *MOVES_ALONE.items(),
    ("core.sshCommand", "/bin/false"),
    ("core.pager", "cat"),
    ("core.askPass", "/bin/false"),
    ("credential.helper", ""),
    ("commit.gpgSign", "false"),
    ("tag.gpgSign", "false"),
    ("log.showSignature", "false"),
    ("merge.verifySignatures", "false"),
    ("gpg.program", "/bin/false"),
    ("gpg.openpgp.program", "/bin/false"),
    ("gpg.x509.program", "/bin/false"),
    ("gpg.ssh.program", "/bin/false"),
    ("gpg.ssh.defaultKeyCommand", "/bin/false"),
    ("diff.ignoreSubmodules", "dirty"),
    ("diff.submodule", "short"),
    ("status.submoduleSummary", "false"),
    ("receive.denyCurrentBranch", "refuse"),
    ("protocol.ext.allow", "never"),
    ("rebase.instructionFormat", "%s"),
    # The roots may belong to anyone; who started the runner has answered git's ownership check.
    ("safe.directory", "*"),
)
# The other repository's own hooks and helpers: its git starts with a clean environment, so they are set by name.
_THERE = "git " + " ".join(
    "-c %s=%s" % pair
    for pair in (
        *RUNS_NOTHING.items(),
        ("receive.denyCurrentBranch", "refuse"),
        ("receive.autogc", "false"),
        ("safe.directory", "'*'"),
    )
)
UPLOAD_PACK = _THERE + " upload-pack"
RECEIVE_PACK = _THERE + " receive-pack"

# The committer if the repository does not say: there is no other configuration.
_IDENTITY = (("user.name", "agent"), ("user.email", "agent@localhost"))
_MERGE = "git merge-file --marker-size=%L %A %O %B"
# Keys with a name of the agent's choice in the middle, and what replaces them.
_FREE: tuple[tuple[str, str], ...] = (
    (r"filter\..+\.(?:clean|smudge|process)", ""),
    (r"filter\..+\.required", "false"),
    (r"diff\..+\.textconv", "cat"),
    (r"diff\..+\.command", "true"),
    (r"diff\.external", "true"),
    (r"merge\..+\.driver", _MERGE),
    (r"trailer\..+\.(?:cmd|command)", "true"),
    (r"credential\..+\.helper", ""),
    (r"interactive\.difffilter", "cat"),
    (r"uploadpack\.packobjectshook", ""),
    (r"submodule\..+\.update", "none"),
    (r"submodule\..+\.ignore", "dirty"),
    # Asked only if this git lacks a command of that name.
    (r"alias\..+", ""),
    (r"sendpack\..+|browser\..+|man\..+|difftool\..+|mergetool\..+|tar\..+\.command", ""),
)
_FREE_KEYS = tuple((re.compile(pattern), value) for pattern, value in _FREE)
_PATHS = re.compile(
    r"core\.(?:worktree|attributesfile|excludesfile)|commit\.template|mailmap\.file|blame\.ignorerevsfile|"
    r"init\.templatedir|diff\.orderfile|include\.path|gpg\.ssh\..*file"
)
# What it includes changes with the branch, while git runs.
_CHANGING = re.compile(r"includeif\..+")
_ADDRESSES = re.compile(r"remote\..+\.(?:url|pushurl)|branch\..+\.(?:remote|pushremote)|remote\.pushdefault")
_REWRITES = re.compile(r"url\..+\.(?:insteadof|pushinsteadof)|remote\..+\.proxy")
# Of these git uses the first value, or all of them, so nothing said later could override them; and any command
# may fetch what a partial clone lacks.
_PROGRAMS = re.compile(r"remote\..+\.(?:vcs|uploadpack|receivepack)|gc\.recentobjectshook|hook\..+")
# In the state of a cherry-pick or a revert.
_STRATEGY = re.compile(rb"strategy\s*=[ \t]*([^\r\n]*)", re.IGNORECASE)
# Other addresses name no folder, and GIT_ALLOW_PROTOCOL keeps git from all of them.
_SCHEME = re.compile(r"(?!file:)[A-Za-z0-9+.-]+://|[^/]+:[^/]", re.IGNORECASE)
_FILE_URL = re.compile(r"file://[^/]*", re.IGNORECASE)


def read(listing: bytes) -> list[tuple[str, str]]:
    """Return the keys and values of `git config --list -z`; section and variable names are in lower case."""
    entries = []
    for entry in listing.split(b"\0"):
        if entry:
            key, _, value = entry.decode("utf-8", "surrogateescape").partition("\n")
            section, _, rest = key.partition(".")
            middle, dot, name = rest.rpartition(".")
            entries.append((section.lower() + "." + middle + dot + name.lower(), value))
    return entries


def overrides(entries: list[tuple[str, str]], embedded: list[tuple[str, str]]) -> list[bytes]:
    """Return the `-c` options under which nothing runs that a repository, or one embedded in its worktree, names."""
    pairs = list(_FIXED)
    known = {key for key, _ in entries}
    pairs += [(key, value) for key, value in _IDENTITY if key not in known]
    for key, _ in (*entries, *embedded):
        for pattern, value in _FREE_KEYS:
            if pattern.fullmatch(key):
                pairs.append((key, value))
                if key.startswith("filter."):
                    pairs.append((key.rpartition(".")[0] + ".required", "false"))
    words: list[bytes] = []
    for key, value in dict.fromkeys(pairs):
        words += [b"-c", ("%s=%s" % (key, value)).encode("utf-8", "surrogateescape")]
    return words


def refusal(
    entries: list[tuple[str, str]],
    embedded: list[tuple[str, str]],
    folders: list[bytes],
    roots: Roots,
    *,
    remote: bool,
) -> str | None:
    """Return why this repository is refused: it or its configuration leads outside, or cannot be overridden."""
    for folder in folders:
        if not roots.holds(os.path.realpath(folder)):
            return "the repository is at %s, outside the roots" % folder.decode("utf-8", "replace")
    for key, _ in (*entries, *embedded):
        if "=" in key and any(pattern.fullmatch(key) for pattern, _ in _FREE_KEYS):
            return "%s of the repository's configuration has a name that cannot be overridden" % key
    base = folders[0] if folders else b"/"
    for key, value in entries:
        why = _wrong(key, value, base, roots, remote=remote)
        if why is not None:
            return "%s of the repository's configuration %s" % (key, why)
    return None


def _wrong(key: str, value: str, base: bytes, roots: Roots, *, remote: bool) -> str | None:
    if _CHANGING.fullmatch(key):
        return "brings in another file under a condition"
    if _PATHS.fullmatch(key) and not _leads_inside(value, base, roots):
        return "leads out of the roots, to %s" % value
    if _PROGRAMS.fullmatch(key):
        return "names a program"
    if remote and _REWRITES.fullmatch(key):
        return "sends git elsewhere"
    address = remote and _ADDRESSES.fullmatch(key) and not _SCHEME.match(value)
    if address and not _leads_inside(_FILE_URL.sub("", value), os.path.dirname(base), roots):
        return "leads out of the roots, to %s" % value
    return None


def _leads_inside(path: str, base: bytes, roots: Roots) -> bool:
    if path.startswith("~"):
        return False
    return not path or roots.holds(os.path.realpath(os.path.join(base, path.encode("utf-8", "surrogateescape"))))


def runs_programs(todo: bytes, strategy: bytes, options: bytes) -> bool:
    """Return whether what is under way runs a program: by a step of a rebase, or by a strategy."""
    steps = (line.split()[:1] for line in todo.splitlines())
    strategies = [strategy, *_STRATEGY.findall(options)]
    named = any(name.strip() and name.strip() not in STRATEGIES for name in strategies)
    return named or any(step in ([b"exec"], [b"x"]) for step in steps)
