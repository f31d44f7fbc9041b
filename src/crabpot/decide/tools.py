"""The names of tools, groups, profiles and aliases: data, by which only `policy` decides."""

from __future__ import annotations

GROUPS: dict[str, tuple[str, ...]] = {
    "group:fs": ("read", "write", "edit", "apply_patch", "grep", "glob", "ls"),
    "group:runtime": ("exec", "process"),
    "group:automation": ("cron", "gateway", "sessions_spawn", "sessions_send"),
    "group:browser": ("browser",),
    "group:network": ("web_fetch", "web_search"),
    "group:media": ("image", "tts"),
    "group:messaging": ("message",),
}

TOOLS: tuple[str, ...] = tuple(tool for tools in GROUPS.values() for tool in tools)

# The tools that Crabpot itself runs, where the session is placed; the others belong to the embedding program.
BUILT_IN = frozenset(GROUPS["group:fs"] + GROUPS["group:runtime"])

# What programs do to files beyond the tools, through the Python API and the doors that are built on it. No agent is
# offered these names, and no rule can name them: each is allowed where the tool is that has the same effect.
OPERATIONS: dict[str, str] = {
    "fs.stat": "ls",
    "fs.ls": "ls",
    "fs.realpath": "ls",
    "fs.mkdir": "write",
    "fs.remove": "apply_patch",
    "fs.move": "apply_patch",
}

# A profile is a list of rules as in `allow`; "*" is every tool, those of extra and of MCP servers too.
PROFILES: dict[str, tuple[str, ...]] = {
    "full": ("*",),
    "coding": ("group:fs", "group:runtime", "browser"),
    "messaging": ("message", "web_search", "web_fetch"),
    "minimal": ("web_search",),
}

ALIASES: dict[str, str] = {"bash": "exec", "apply-patch": "apply_patch"}

# Denying the first also denies the second, which has the same effect.
IMPLIED_DENIALS: dict[str, tuple[str, ...]] = {"write": ("apply_patch",)}
