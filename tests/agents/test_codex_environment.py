"""The real Codex, outside with its key, whose commands and patches run inside: `--print-config codex-environment`."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.agents import KEY, outside_environ
from tests.support.model_server import DONE, Script, Use, scripted

if TYPE_CHECKING:
    from tests.support.program import Program

PATCH = "*** Begin Patch\n*** Add File: patched.txt\n+patched\n*** End Patch\n"


def codex_program() -> Path:
    """Return the folder of the native program, which the npm package starts."""
    packages = Path(os.environ["CRABPOT_AGENTS"]) / "node_modules/@openai"
    return next(path.parent for path in packages.glob("codex-*/vendor/*/**/codex") if path.is_file())


def test_commands_and_patches_run_inside_and_the_key_stays_outside(
    lingering: Program, folder: Path, place: Path
) -> None:
    secret = place / "secret"
    secret.write_text("of the host")
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
    home.mkdir()
    (home / "environments.toml").write_text(printed)
    script = Script(
        f"pwd; id -u; cat {secret}; env | grep -c {KEY}; echo made > made.txt",
        Use("apply_patch", PATCH),
        "exit 3",
        "true",
    )
    with scripted(script, None):
        (home / "config.toml").write_text(
            'model_provider = "scripted"\n[model_providers.scripted]\nname = "scripted"\n'
            f'base_url = "http://127.0.0.1:{script.port}/v1"\nenv_key = "OPENAI_API_KEY"\nwire_api = "responses"\n'
        )
        done = subprocess.run(
            ["codex", "exec", "--dangerously-bypass-approvals-and-sandbox", "-m", "gpt-5.5",
             "--skip-git-repo-check", "do it"],
            cwd=folder,
            env=outside_environ(lingering, script.port),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )  # fmt: skip
    assert DONE in done.stdout, done.stderr
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
