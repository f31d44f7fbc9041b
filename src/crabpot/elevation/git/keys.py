"""Which keys of a repository's own configuration a host's git may obey, and what stands in for each of the others.

Filters, merge drivers, textconv and more have free names, so nothing is listed as dangerous: what is not known to be
harmless is kept out. A value of ours from the environment comes after the repository's own, and the last one counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Fate = Literal["obeyed", "kept out", "refused"]

# Whole sections, and single keys, that name no program, no file outside and no other configuration.
_SAFE_SECTIONS = frozenset(
    "advice apply author blame branch checkout clean color column commit committer extensions feature fetch grep "
    "i18n index log merge notes pack protocol pull push rebase receive rerere stash status tag transfer uploadpack "
    "uploadarchive url user versionsort diff".split()
)
# `core.worktree` too: it is read from the file alone, and where it leads is looked at.
_SAFE_CORE = frozenset(
    "repositoryformatversion filemode bare worktree logallrefupdates ignorecase precomposeunicode symlinks autocrlf "
    "eol safecrlf quotepath abbrev compression loosecompression bigfilethreshold commentchar commentstring whitespace "
    "sparsecheckout "
    "sparsecheckoutcone untrackedcache preloadindex checkstat trustctime splitindex sharedrepository commitgraph "
    "multipackindex deltabasecachelimit packedgitlimit packedgitwindowsize protecthfs protectntfs warnambiguousrefs "
    "fsmonitorhookversion usereplacerefs preferredsymlinkrefs maxtreedepth createobject fsync fsyncmethod "
    "fsyncobjectfiles hidedotfiles longpaths filesreflocktimeout packedrefstimeout checkroundtripencoding".split()
)
_SAFE_PARTS = {
    "remote": frozenset(
        "url pushurl fetch push tagopt prune prunetags mirror skipdefaultupdate skipfetchall promisor "
        "partialclonefilter serveroption followremotehead".split()
    ),
    "submodule": frozenset("url active branch ignore path shallow".split()),
    "gc": frozenset(
        "auto autopacklimit autodetach pruneexpire reflogexpire reflogexpireunreachable packrefs "
        "worktreepruneexpire".split()
    ),
    "lfs": frozenset("repositoryformatversion locksverify access".split()),
    "http": frozenset("postbuffer version lowspeedlimit lowspeedtime maxrequests minsessions".split()),
}

_REFUSED = {
    re.compile(r"include(if\..*)?\.path", re.DOTALL): "it takes in other files, which can change while git runs",
    re.compile(
        r"remote\..*\.(uploadpack|receivepack)", re.DOTALL
    ): "git takes the first value, so that no other can replace it",
    re.compile(
        r"gc\.recentobjectshook|hook\..*", re.DOTALL
    ): "git runs every value of it, so that none replaces another",
}

# In order; the first that matches gives what takes the key's place where the operator has no value of their own.
_PLAIN_DIFF = 'crabpot() { diff -u -- "$2" "$5"; :; }; crabpot'
_NEUTRAL = [
    (re.compile(pattern, re.DOTALL), value)
    for pattern, value in (
        (r"core\.sshcommand", "ssh"),
        (r"core\.pager", "cat"),
        (r"pager\..*", "false"),
        (r"(core|sequence)\.editor", "false"),
        (r"core\.fsmonitor", "false"),
        (r"diff\.external|diff\..*\.command", _PLAIN_DIFF),
        (r"diff\..*\.textconv", "cat"),
        (r"diff\..*\.cachetextconv", "false"),
        (r"filter\..*\.required", "false"),
        (r"merge\..*\.driver", "git merge-file -q --marker-size=%L %A %O %B"),
        (r"merge\..*\.recursive", "text"),
        (r"gpg\.(openpgp\.)?program", "gpg"),
        (r"gpg\.x509\.program", "gpgsm"),
        (r"gpg\.ssh\.program", "ssh-keygen"),
        (r"gpg\.format", "openpgp"),
        (r"ssh\.variant", "auto"),
        (r"submodule\..*\.update", "checkout"),
        (r"submodule\..*\.fetchrecursesubmodules", "false"),
        (r"http\.(.*\.)?sslverify", "true"),
        # send-email has a shell run the command before its arguments: with none, the first of them.
        (r".*(cmd|command)", "false"),
    )
]

# Parts of sections that are safe otherwise.
_UNSAFE = re.compile(
    r"diff\.(external|tool|guitool|orderfile|.*\.(command|textconv|cachetextconv))"
    r"|merge\.(tool|guitool|.*\.(driver|recursive))"
    r"|branch\..*\.mergeoptions|commit\.template|fetch\.bundleuri|blame\.ignorerevsfile"
    # A line break in it begins a step of its own, which may be to run a program.
    r"|rebase\.instructionformat",
    re.DOTALL,
)

# Shown to the person although they are obeyed: they say where things go.
_DESTINATIONS = re.compile(
    r"remote\..*\.(url|pushurl)|url\..*\.(push)?insteadof|remote\.pushdefault|branch\..*\.(push)?remote", re.DOTALL
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What becomes of one key: obeyed, kept out by a neutral value in its place, or the reason to refuse the run."""

    fate: Fate
    neutral: str = ""
    because: str = ""


_OBEYED = Judged(fate="obeyed")


def judge(key: str) -> Judged:
    """Judge a key as git lists it: section and name in lower case, the part between them as it is."""
    for pattern, because in _REFUSED.items():
        if pattern.fullmatch(key):
            return Judged(fate="refused", because=because)
    if _is_safe(key):
        return _OBEYED
    # An empty value is inert where nothing better is known: as a program it cannot be started, as a list of
    # credential helpers or headers it begins anew.
    return Judged(fate="kept out", neutral=next((value for shape, value in _NEUTRAL if shape.fullmatch(key)), ""))


def says_where(key: str) -> bool:
    """Tell whether a key decides where a push or fetch goes."""
    return _DESTINATIONS.fullmatch(key) is not None


def _is_safe(key: str) -> bool:
    if _UNSAFE.fullmatch(key):
        return False
    section, name = key.partition(".")[0], key.rpartition(".")[2]
    if section == "core":
        return key == f"core.{name}" and name in _SAFE_CORE
    return section in _SAFE_SECTIONS or name in _SAFE_PARTS.get(section, ())
