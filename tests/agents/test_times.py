"""What a call takes as the real agents see it: their own shell, their own sandbox, and ours, in turns of one run.

The table is printed (pytest -s); docs/agents.md has one. That each way confines, or does not, is seen in every run.
"""

from __future__ import annotations

import shutil
import statistics
from typing import TYPE_CHECKING, Any

from tests.agents import test_codex_environment as environment
from tests.agents import test_mcp, test_openclaw, test_prefix
from tests.support.model_server import DONE, Script, Use, scripted

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.program import Program

    Way = Callable[[Script], object]

ROUNDS, CALLS = 2, 6
OWN, OWN_SANDBOX = "its own shell", "its own sandbox"


def measured(agent: str, ways: dict[str, Way], outside: Path, shell: Callable[[str], Any]) -> dict[str, float]:
    """Let an agent make the same calls in each way, in turns; return medians, in milliseconds."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            script = Script(shell(f"touch {outside}"), *[shell("true")] * CALLS)
            way(script)
            assert outside.exists() is (name == OWN), f"{name}: {script.results[0]}"
            outside.unlink(missing_ok=True)
            # The first two open what is kept.
            taken[name] += script.seconds[-CALLS + 1 :]
    return told(agent, taken)


def told(agent: str, taken: dict[str, list[float]]) -> dict[str, float]:
    """Print medians, and their ratios to the first."""
    medians = {name: statistics.median(values) * 1000 for name, values in taken.items()}
    first = next(iter(medians.values()))
    for name, value in medians.items():
        print(f"| {agent} | {name} | {value:.0f} ms | {value / first:.2f} × |")
    return medians


def by_tool(command: str) -> Use:
    return Use("exec", {"command": command})


def test_claude_code(crabpot: Program, lingering: Program, folder: Path, place: Path) -> None:
    prefix = lingering("prefix", "claude", "--workspace", str(folder)).out.strip().partition("=")[2]
    sandboxed = ("--settings", '{"sandbox": {"enabled": true, "allowUnsandboxedCommands": false}}')

    def mcp(script: Script) -> None:
        script.steps = tuple(by_tool(step) for step in script.steps if isinstance(step, str))
        with scripted(script, None):
            assert DONE in test_mcp.claude(crabpot, folder, script)

    ways: dict[str, Way] = {
        OWN: lambda script: test_prefix.claude(crabpot, script, folder),
        OWN_SANDBOX: lambda script: test_prefix.claude(crabpot, script, folder, *sandboxed),
        "crabpot prefix": lambda script: test_prefix.claude(lingering, script, folder, CLAUDE_CODE_SHELL_PREFIX=prefix),
        "crabpot mcp": mcp,
    }
    medians = measured("Claude Code", ways, place / "outside", str)
    assert medians["crabpot mcp"] <= 2 * medians[OWN]
    assert medians["crabpot prefix"] <= medians[OWN_SANDBOX]


def test_codex(crabpot: Program, lingering: Program, folder: Path, place: Path) -> None:
    environments = lingering.home / ".codex/environments.toml"

    def inside(script: Script) -> None:
        environment.set_up(lingering, folder)
        try:
            environment.codex(lingering, folder, script)
        finally:
            environments.unlink()

    def mcp(script: Script) -> None:
        script.steps = tuple(by_tool(step) for step in script.steps if isinstance(step, str))
        with scripted(script, None):
            assert DONE in test_mcp.codex(crabpot, folder, script)

    ways: dict[str, Way] = {
        OWN: lambda script: environment.codex(crabpot, folder, script),
        OWN_SANDBOX: lambda script: environment.codex(crabpot, folder, script, "--sandbox workspace-write"),
        "codex-environment": inside,
        "crabpot mcp": mcp,
    }
    medians = measured("Codex", ways, place / "outside", str)
    assert medians["codex-environment"] <= medians[OWN_SANDBOX]
    assert medians["crabpot mcp"] <= medians[OWN_SANDBOX]


def test_openclaws(served: Program, folder: Path) -> None:
    defaults = f'{{agents: {{defaults: {{workspace: "{folder}", sandbox: {{workspace: "rw"}}}}}}}}'
    served.configure(defaults)
    (folder / "a.txt").write_text("a")
    taken: dict[str, dict[str, list[float]]] = {"exec": {}, "read": {}}
    for _ in range(ROUNDS):
        for name, mode in ((OWN, "off"), ("the plugin", "all")):
            pair = (Use("read", {"path": "a.txt"}), by_tool("true"))
            script = Script(*pair * 4)
            # Without the turns of the run before.
            shutil.rmtree(served.home / ".openclaw", ignore_errors=True)
            said, heard = test_openclaw.turn(served, script, folder, mode=mode)
            assert DONE in said, said
            assert heard[0] == "a"
            for number, tool in enumerate(("read", "exec")):
                taken[tool].setdefault(name, []).extend(script.seconds[2 + number :: 2])
    execs, reads = (told(f"OpenClaw, {tool}", taken[tool]) for tool in ("exec", "read"))
    assert execs["the plugin"] <= 2 * execs[OWN]
    assert reads["the plugin"] <= 3 * reads[OWN]
