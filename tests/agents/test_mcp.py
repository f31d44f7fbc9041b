"""What the model receives of `crabpot mcp --workspace .`, by way of the real Claude Code and Codex, set up as printed."""

from __future__ import annotations

import base64
import getpass
import json
import re
import subprocess
import threading
import tomllib
from typing import TYPE_CHECKING

import pytest

from tests.support.agents import PATIENCE_S, outside_environ
from tests.support.model_server import DONE, Script, Use, scripted

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.program import Program

PICTURE = base64.b64encode(
    base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
).decode()
CONFIG = '{tools: {deny: ["edit"], elevated: {enabled: true, patterns: ["whoami", "ls *"], approvalTimeout: 45}}}'
CALLS = (
    Use("exec", {"command": "pwd; echo hello; echo err >&2; exit 3"}),
    Use("write", {"path": "a.png", "content": PICTURE, "encoding": "base64"}),
    Use("read", {"path": "a.png"}),
    Use("exec", {"command": "echo first; seq 20000; echo last"}),
    Use("read", {"path": "nothing.txt"}),
    Use("exec", {"command": "whoami"}),
    Use("exec", {"command": "ls /"}),
    Use("exec", {"command": "true"}),
)


def claude(crabpot: Program, folder: Path, script: Script) -> str:
    printed = crabpot("mcp", "--workspace", ".", "--print-config", "claude-code", cwd=folder).out
    config = printed.partition("# .mcp.json\n")[2]
    (folder.parent / "mcp.json").write_text(config)
    headless = next(line for line in printed.splitlines() if " claude -p " in line)
    typed = headless.replace("PROMPT", "'do it'")
    return run(
        crabpot, folder, script, ["sh", "-c", f"{typed} --mcp-config {folder.parent}/mcp.json --strict-mcp-config"]
    )


def codex(crabpot: Program, folder: Path, script: Script) -> str:
    printed = crabpot("mcp", "--workspace", ".", "--print-config", "codex", cwd=folder).out
    tomllib.loads(printed)
    home = crabpot.home / ".codex"
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(f"{provider(script.port)}\n{printed}\n")
    return run(crabpot, folder, script, ["codex", "exec", "-m", "gpt-5-codex", "--skip-git-repo-check", "do it"])


def provider(port: int) -> str:
    return (
        'model_provider = "scripted"\n[model_providers.scripted]\nname = "scripted"\n'
        f'base_url = "http://127.0.0.1:{port}/v1"\nenv_key = "OPENAI_API_KEY"\nwire_api = "responses"\n'
    )


def run(crabpot: Program, folder: Path, script: Script, words: list[str]) -> str:
    done = subprocess.run(
        words,
        cwd=folder,
        env=outside_environ(crabpot, script.port),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return done.stdout + done.stderr


def told(result: str) -> str:
    """Return the one text of a result, without Codex's own before it."""
    data = json.loads(result)
    texts = [str(block["text"]) for block in data.get("content") or data["output"]]
    (text,) = [text for text in texts if not re.fullmatch(r"Wall time: [0-9.]+ seconds\nOutput:", text)]
    return text


AGENTS = {"claude": claude, "codex": codex}


def allow_first(crabpot: Program, ended: threading.Event) -> None:
    """Allow the first request that waits, as a person in another terminal; the next one nobody answers."""
    while not ended.wait(0.5):
        waiting = crabpot("approvals", "list", "--json").json
        if waiting:
            crabpot("approvals", "allow", waiting[0]["id"])
            return


@pytest.mark.parametrize("name", AGENTS)
def test_what_the_model_receives(name: str, crabpot: Program, folder: Path) -> None:
    crabpot.configure(CONFIG)
    script = Script(*CALLS)
    ended = threading.Event()
    person = threading.Thread(target=allow_first, args=(crabpot, ended))
    person.start()
    try:
        with scripted(script, None):
            said = AGENTS[name](crabpot, folder, script)
    finally:
        ended.set()
        person.join()
    assert DONE in said, said
    assert len(script.results) == len(CALLS), script.results
    ran, _, pictured, long, absent, allowed, unanswered, _ = script.results
    offered = json.dumps(script.tools)
    assert "exec" in offered
    assert not re.search(r"crabpot__\"?,? ?\"?edit", offered), "a denied tool is not listed"
    # Text, with the streams and the exit code told apart, and no JSON around it.
    assert f"{folder}\\nhello\\n[stderr]\\nerr\\n[exit code 3]" in ran
    assert "exit_code" not in ran
    assert '"image' in pictured, "a picture is a picture"
    assert PICTURE[:40] in pictured
    # Both ends of long output, and where the rest is.
    assert "first\\n1\\n" in long
    assert "last" in long
    assert re.search(r"all of it is in /tmp/stdout-\w+.txt", long)
    assert len(long) < 40_000
    assert "not_found" in absent
    # Allowed by the person, so it ran on the host, as who started the client.
    assert told(allowed) == getpass.getuser()
    assert "approval_timeout" in unanswered
    assert "nobody answered" in unanswered
    # Under review, as --workspace . says: nothing has arrived in the folder.
    assert sorted(path.name for path in folder.iterdir()) == ["sub"]
    print(f"{name}: a call as the agent sees it {script.seconds[-1] * 1000:.0f} ms")
