"""The real OpenClaw on the plugin of integrations/openclaw: `sandbox.backend: "crabpot"`, against a scripted model."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any

from tests.support.agents import PATIENCE_S
from tests.support.model_server import DONE, Script, Use, scripted
from tests.support.program import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.program import Program

AGENTS = os.environ.get("CRABPOT_AGENTS", "")
NODE = f"{AGENTS}/node/bin/node"
PLUGIN = REPOSITORY / "integrations/openclaw"
PATCH = (
    "*** Begin Patch\n*** Add File: patched.txt\n+patched\n*** Update File: b.txt\n@@\n-three\n+four\n*** End Patch\n"
)


def configured(served: Program, folder: Path, port: int, **sandbox: Any) -> None:
    cost = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
    model = {"id": "m", "name": "m", "reasoning": False, "input": ["text"], "cost": cost}
    provider = {
        "baseUrl": f"http://127.0.0.1:{port}/v1",
        "apiKey": "dummy",
        "api": "openai-completions",
        "models": [{**model, "contextWindow": 100_000, "maxTokens": 4000}],
    }
    defaults = {
        "model": {"primary": "scripted/m"},
        "workspace": str(folder),
        "skipBootstrap": True,
        "sandbox": {"mode": "all", "backend": "crabpot", "scope": "session", "workspaceAccess": "rw", **sandbox},
    }
    entry = {"enabled": True, "config": {"command": str(REPOSITORY / "crabpot")}}
    config = {
        "agents": {"defaults": defaults},
        "models": {"providers": {"scripted": provider}},
        "plugins": {"load": {"paths": [str(PLUGIN)]}, "entries": {"crabpot": entry}},
        "tools": {"profile": "coding", "exec": {"applyPatch": {"enabled": True}}},
    }
    (served.home / ".openclaw").mkdir(exist_ok=True)
    (served.home / ".openclaw/openclaw.json").write_text(json.dumps(config))


def turn(served: Program, script: Script, folder: Path, **sandbox: Any) -> tuple[str, list[str]]:
    """Let OpenClaw follow a script; return what it said, and what the model was told of each call."""
    with scripted(script, None):
        configured(served, folder, script.port, **sandbox)
        done = subprocess.run(
            [NODE, f"{AGENTS}/openclaw/node_modules/openclaw/openclaw.mjs", "agent", "--local", "--agent", "main",
             "--message", "do it"],
            cwd=folder,
            env={**served.environ, "PATH": f"{AGENTS}/node/bin:{os.environ['PATH']}"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )  # fmt: skip
    return done.stdout + done.stderr, [str(json.loads(one)["content"]) for one in script.results]


def test_a_session_runs_reads_writes_edits_and_patches_inside(served: Program, folder: Path, place: Path) -> None:
    secret = place / "secret"
    secret.write_text("of the host")
    served.configure(json.dumps({"agents": {"defaults": {"workspace": str(folder), "sandbox": {"workspace": "rw"}}}}))
    script = Script(
        f"pwd; cat {secret}; cat /etc/shadow; echo made > a.txt",
        Use("read", {"path": "a.txt"}),
        Use("write", {"path": "b.txt", "content": "one\ntwo\n"}),
        Use("edit", {"path": "b.txt", "edits": [{"oldText": "two", "newText": "three"}]}),
        Use("apply_patch", {"input": PATCH}),
        Use("read", {"path": "b.txt"}),
        Use("read", {"path": str(secret)}),
        "exit 3",
        Use("read", {"path": "b.txt"}),
        "true",
    )
    said, heard = turn(served, script, folder)
    assert DONE in said, said
    assert heard[0].startswith("/workspace")
    assert "of the host" not in json.dumps(heard)
    assert "No such file" in heard[0]
    assert heard[1] == "made\n"
    assert heard[5] == "one\nfour\n"
    assert "3" in heard[7]
    assert {path.name: path.read_text() for path in folder.iterdir() if path.is_file()} == {
        "a.txt": "made\n",
        "b.txt": "one\nfour\n",
        "patched.txt": "patched\n",
    }
    assert all(path.stat().st_uid != 0 for path in folder.iterdir())
    told = [json.loads(line) for line in served("audit", "tail", "-n", "100", "--json").out.splitlines()]
    assert {one["session"] for one in told if "session" in one} == {"agent:main:main"}
    assert {"exec", "read", "write"} <= {one.get("tool") for one in told}
    print(f"a read {script.seconds[-2] * 1000:.0f} ms, an exec {script.seconds[-1] * 1000:.0f} ms, as OpenClaw sees it")


def test_a_policy_of_crabpots_holds_for_openclaws_own_tools(served: Program, folder: Path) -> None:
    defaults = {"workspace": str(folder), "sandbox": {"workspace": "rw"}}
    served.configure(json.dumps({"agents": {"defaults": defaults}, "tools": {"deny": ["write"]}}))
    _, heard = turn(served, Script(Use("write", {"path": "b.txt", "content": "one"})), folder)
    assert "denied" in heard[0]
    assert not (folder / "b.txt").exists()


def test_it_does_not_go_on_without_a_sandbox(served: Program, folder: Path) -> None:
    served.configure('{agents: {defaults: {sandbox: {mode: "off"}}}}')
    said, heard = turn(served, Script("touch made"), folder)
    assert "placed on the host" in said
    assert heard == []
    assert not (folder / "made").exists()


def test_the_parts_of_the_plugin_hold_against_a_real_gateway(served: Program) -> None:
    done = subprocess.run(
        [NODE, "--test"],
        cwd=PLUGIN,
        env={**served.environ, "CRABPOT": str(REPOSITORY / "crabpot")},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "fail 0" in done.stdout
