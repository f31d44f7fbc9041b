"""The real Codex, outside with its key, whose commands and patches run inside: `--print-config codex-environment`."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from tests.agents.test_mcp import provider
from tests.support.agents import KEY, PATIENCE_S, outside_environ
from tests.support.model_server import DONE, Script, Use, scripted

if TYPE_CHECKING:
    from tests.support.program import Program

BYPASS = "--dangerously-bypass-approvals-and-sandbox"
PATCH = "*** Begin Patch\n*** Add File: patched.txt\n+patched\n*** End Patch\n"


def codex_program() -> Path:
    """Return the folder of the native program, which the npm package starts."""
    packages = Path(os.environ["CRABPOT_AGENTS"]) / "node_modules/@openai"
    return next(path.parent for path in packages.glob("codex-*/vendor/*/**/codex") if path.is_file())


def set_up(lingering: Program, folder: Path) -> None:
    """Let Codex's exec-server run inside, by what `--print-config codex-environment` prints."""
    shown = codex_program()
    sandbox = {
        "workspace": "rw",
        "workspaceAt": "same",
        "programs": [str(shown)],
        "env": {"PATH": f"{shown}:/usr/local/bin:/usr/bin:/bin"},
        "home": "codex",
    }
    lingering.configure(json.dumps({"agents": {"entries": {"codex": {"workspace": str(folder), "sandbox": sandbox}}}}))
    printed = lingering("mcp", "--print-config", "codex-environment", "--session", "agent:codex:main").out
    assert tomllib.loads(printed)["default"] == "pot"
    home = lingering.home / ".codex"
    home.mkdir(exist_ok=True)
    (home / "environments.toml").write_text(printed)


def codex(program: Program, folder: Path, script: Script, how: str = BYPASS) -> str:
    """Let Codex follow a script in a folder with its own tools, and return what it said."""
    with scripted(script, None):
        home = program.home / ".codex"
        home.mkdir(exist_ok=True)
        (home / "config.toml").write_text(provider(script.port))
        done = subprocess.run(
            ["codex", "exec", *how.split(), "-m", "gpt-5.5", "--skip-git-repo-check", "do it"],
            cwd=folder,
            env=outside_environ(program, script.port),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    assert DONE in done.stdout, done.stderr
    return done.stdout


def test_commands_and_patches_run_inside_and_the_key_stays_outside(
    lingering: Program, folder: Path, place: Path
) -> None:
    secret = place / "secret"
    secret.write_text("of the host")
    set_up(lingering, folder)
    script = Script(
        f"pwd; id -u; cat {secret}; env | grep -c {KEY}; echo made > made.txt",
        Use("apply_patch", PATCH),
        "exit 3",
        "true",
    )
    codex(lingering, folder, script)
    ran, patched, failed, _ = script.results
    assert str(folder) in ran, "at its own path"
    assert "of the host" not in ran
    assert "No such file" in ran
    assert KEY in "".join(script.keys)
    assert "patched.txt" in patched
    assert "3" in failed
    assert (folder / "made.txt").read_text() == "made\n"
    assert (folder / "patched.txt").read_text() == "patched\n"
    assert all(path.stat().st_uid != 0 for path in folder.iterdir()), "written inside"
    print(f"a command as Codex sees it: {script.seconds[-1] * 1000:.0f} ms")
