"""The real Claude Code, Codex and OpenCode in the pot, against a scripted model, with their key outside.

Not among the other tests: `make test-agents` installs the agents from npm first.
"""

from __future__ import annotations

import json
import os
import shutil
import ssl
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from crabpot.presets import preset
from tests.support.model_server import DONE, Script, scripted
from tests.support.program import Program
from tests.support.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Iterator

AGENTS = os.environ.get("CRABPOT_AGENTS", "")
KEY = "sk-real-and-never-inside"
HEADLESS = {
    "claude": ("-p", "do it", "--allowedTools", "Bash"),
    "codex": ("exec", "-m", "gpt-5-codex", "--skip-git-repo-check", "do it"),
    "opencode": ("run", "-m", "anthropic/claude-sonnet-4-5", "do it"),
}
# As a pattern that does not match itself. What is under /usr is the system's own.
SEARCH = (
    f"grep -rsl --exclude-dir=usr --exclude-dir=sys --exclude-dir=proc --exclude-dir=dev '[s]{KEY[1:]}' / | head -3;"
    f" cat /proc/*/environ | tr '\\0' '\\n' | grep -c '[s]{KEY[1:]}'"
)


@pytest.fixture
def place() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="crabpot-agents-", dir="/var/tmp"))
    yield made
    shutil.rmtree(made)


@pytest.fixture
def project(place: Path) -> Path:
    folder = place / "project"
    folder.mkdir()
    (folder / "README.md").write_text("hello\n")
    # In a file: some agents ask before a command that names folders elsewhere.
    (folder / "search.sh").write_text(SEARCH)
    if os.geteuid() == 0:
        for path in (folder, *folder.iterdir()):
            os.chown(path, 61234, 61234)
    return folder


@pytest.fixture
def crabpot(place: Path) -> Program:
    (place / "home").mkdir()
    return Program(home=place / "home")


def _context(place: Path) -> ssl.SSLContext:
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
         "-subj", "/CN=scripted", "-addext", "subjectAltName=IP:127.0.0.1",
         "-keyout", str(place / "key.pem"), "-out", str(place / "cert.pem")],
        check=True, capture_output=True,
    )  # fmt: skip
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(place / "cert.pem", place / "key.pem")
    return made


def _preset(crabpot: Program, name: str, port: int) -> None:
    """Write our own preset again, with the scripted model in its provider's place."""
    found = Path(preset.__file__).parent / f"data/{name}.json5"
    text = found.read_text()
    for host in ("api.anthropic.com", "api.openai.com"):
        text = text.replace(f'"{host}"', f'"127.0.0.1:{port}"').replace(f"http://{host}", f"http://127.0.0.1:{port}")
    folder = crabpot.home / ".config/crabpot/presets"
    folder.mkdir(parents=True)
    (folder / f"{name}.json5").write_text(text)


def _environ(place: Path) -> dict[str, str]:
    assert AGENTS, "set CRABPOT_AGENTS to the folder that npm installed the agents in; see make test-agents"
    path = f"{AGENTS}/node_modules/.bin:{os.environ['PATH']}"
    keys = {"ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": KEY}
    return {"PATH": path, "SSL_CERT_FILE": str(place / "cert.pem"), **keys}


@pytest.mark.parametrize("name", HEADLESS)
def test_headless_it_edits_is_refused_a_host_and_never_sees_its_key(
    name: str, crabpot: Program, project: Path, place: Path
) -> None:
    script = Script("echo made > made.txt; curl -sS -m 9 http://evil.example/; pwd", "sh search.sh; echo searched")
    with scripted(script, _context(place)):
        _preset(crabpot, name, script.port)
        at = replace(crabpot, more=_environ(place))
        done = at("run", "--in", str(project), "--", name, *HEADLESS[name])
    assert done.code == 0, done.err
    assert DONE in done.out
    assert any(KEY in key for key in script.keys), "the server got the real key"
    heard = json.dumps(script.results)
    assert KEY not in heard + done.out + done.err
    assert "evil.example:80 was refused" in heard
    assert "searched" in heard
    assert str(project) in heard, "the folder is at its own path"
    assert "refused: evil.example:80" in done.err
    assert "+ made.txt" in done.err
    assert sorted(path.name for path in project.iterdir()) == ["README.md", "search.sh"], "the folder is as it was"
    session = done.err.split("--session ")[1].split()[0]
    assert crabpot("changes", "apply", "--session", session).code == 0
    assert (project / "made.txt").read_text() == "made\n"


def test_claude_at_a_terminal_edits_and_one_key_applies_it(crabpot: Program, project: Path, place: Path) -> None:
    script = Script("echo made > made.txt")
    with scripted(script, _context(place)):
        _preset(crabpot, "claude", script.port)
        words = ("run", "--in", str(project), "--", "claude", "--allowedTools", "Bash", "--", "do it")
        person = Terminal(replace(crabpot, more=_environ(place)), *words, rows=40, cols=120)
        try:
            person.wait_for("trust", 60)
            person.type("\r")
            person.wait_for("over", 90)
            person.type("/exit\r")
            person.wait_for("[k]eep", 60)
            person.type("a")
            assert person.end() == 0, person.seen[-2000:]
        finally:
            person.close()
    assert (project / "made.txt").read_text() == "made\n"
    assert KEY not in person.seen
