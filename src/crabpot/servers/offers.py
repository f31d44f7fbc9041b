"""Which tools of the configured servers are offered, by what an operator approved, and why the others are not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from crabpot.decide.policy import canonical, matches
from crabpot.servers import naming
from crabpot.servers.pins import origin
from crabpot.tools.tool import RESULT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crabpot.servers.pins import Described, Pins
    from crabpot.settings import Settings

_HINTS = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One tool of a server: its own name, the name that agents see, and its words as they were approved."""

    tool: str
    name: str
    described: Described

    def as_json(self) -> dict[str, Any]:
        """Return what a door needs to offer it, in the form of our own tools."""
        title = self.described.get("title") or self.tool
        said = self.described.get("annotations") or {}
        return {
            "name": self.name,
            "title": title,
            "description": self.described.get("description") or "",
            "input_schema": self.described.get("inputSchema") or {"type": "object"},
            "output_schema": RESULT,
            "hints": {"title": title, **_HINTS, **{key: said[key] for key in _HINTS if key in said}},
        }

    def as_prompt(self) -> dict[str, Any]:
        """Return a prompt as it was approved, under the name that agents see."""
        kept = {key: self.described[key] for key in ("title", "description", "arguments") if key in self.described}
        return {"name": self.name, **kept}


@dataclass(frozen=True, slots=True, kw_only=True)
class Offers:
    """The tools of one server: those that are offered, by the name in canonical form, and why each other is not."""

    offered: Mapping[str, Offer]
    # Its prompts, by the name that agents see.
    prompts: Mapping[str, Offer] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    # Why nothing at all is offered, or None.
    because: str | None = None

    def why_not(self, server: str, name: str) -> str:
        """Return why a tool is not offered, and what to do."""
        if self.because is not None:
            return self.because
        known = {canonical(naming.exposed(server, tool)): why for tool, why in self.refused.items()}
        return known.get(name, f"the server {server} has no such tool")


def of(name: str, settings: Settings, pins: Pins) -> Offers:
    """Return what one server offers now."""
    server = settings.mcp.servers[name]
    approve = f"run `crabpot servers approve {name}`"
    pin = pins.find(name)
    if pin is None:
        because = f"nobody has approved the tools of the server {name} yet; {approve}"
        return Offers(offered={}, because=because)
    if pin.origin != origin(server):
        because = f"the server {name} is another one than was approved (its command or url changed); {approve}"
        return Offers(offered={}, because=because)
    source = settings.mcp_sources.get(name, f"mcp.servers.{name}")
    refused = naming.refused(pin.tools, [other for other in settings.mcp.servers if other != name])
    refused |= {
        tool: f"withheld: {how} since the server {name} was approved; {approve}"
        for tool, how in pins.withheld(name).items()
    }
    for tool in pin.tools:
        rule = next((rule for rule in server.tools.deny if _covers(rule, tool)), None)
        if rule is not None:
            refused[tool] = f'deny is absolute ({source}.tools.deny "{rule}")'
        elif tool.startswith(naming.PROMPTS):
            continue
        elif server.tools.allow is not None and not any(_covers(rule, tool) for rule in server.tools.allow):
            refused[tool] = f"not in the server's own allow list ({source}.tools.allow)"
    left = {tool: described for tool, described in pin.tools.items() if tool not in refused}
    tools = [tool for tool in left if not tool.startswith(naming.PROMPTS)]
    prompts = [tool.removeprefix(naming.PROMPTS) for tool in left if tool not in tools] if server.prompts else []
    offered = [Offer(tool=tool, name=naming.exposed(name, tool), described=left[tool]) for tool in tools]
    asked = [
        Offer(tool=tool, name=naming.exposed(name, tool), described=left[f"{naming.PROMPTS}{tool}"]) for tool in prompts
    ]
    return Offers(
        offered={canonical(one.name): one for one in offered},
        prompts={one.name: one for one in asked},
        refused=refused,
    )


def _covers(rule: str, tool: str) -> bool:
    return matches(rule.strip().lower(), tool.lower())
