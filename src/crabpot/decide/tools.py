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
