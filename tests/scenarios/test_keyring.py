"""A real keyring: gnome-keyring on a session bus of the test's own, asked through libsecret's secret-tool."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.support.backends import need

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.program import Program

MISSING = [name for name in ("dbus-run-session", "gnome-keyring-daemon", "secret-tool") if shutil.which(name) is None]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")

# The daemon puts itself into the background, and ends with the bus.
UNLOCKED = (
    "printf password | gnome-keyring-daemon --unlock --components=secrets >&2 && echo $DBUS_SESSION_BUS_ADDRESS && cat"
)


@pytest.fixture
def unlocked(crabpot: Program) -> Iterator[Program]:
    """A person whose desktop has an unlocked keyring."""
    runtime = crabpot.home / "runtime"
    runtime.mkdir(mode=0o700)
    own = {"XDG_RUNTIME_DIR": str(runtime), "LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", "")}
    with subprocess.Popen(
        ["dbus-run-session", "--", "sh", "-c", UNLOCKED],
        env={**crabpot.environ, **own},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as session:
        assert session.stdin is not None
        assert session.stdout is not None
        address = session.stdout.readline().strip()
        assert address.startswith("unix:"), "the keyring could not be unlocked"
        yield replace(crabpot, more={**crabpot.more, **own, "DBUS_SESSION_BUS_ADDRESS": address})
        session.stdin.close()


def test_a_secret_is_kept_in_the_keyring_given_to_its_host_and_forgotten(unlocked: Program) -> None:
    need("bubblewrap")
    assert unlocked("secrets", "set", "API_KEY", stdin=b"s3cret-value\n").out == "API_KEY: kept in the keyring\n"
    assert unlocked("secrets", "list").out == "API_KEY  (keyring)\n"
    kept = subprocess.run(["grep", "-rl", "s3cret-value", str(unlocked.home)], capture_output=True, check=False)
    assert kept.stdout == b"", "no file has it in plain text"
    source = {"keyring": "crabpot/API_KEY"}
    # A port where nobody listens: the value is read before anything is dialled.
    rule = {"host": "127.0.0.1:9", "header": "Authorization", "valueFrom": source}
    network = {"allow": ["127.0.0.1:9"], "inject": [rule]}
    unlocked.configure(json.dumps({"agents": {"defaults": {"sandbox": {"network": network}}}}))
    asked = unlocked("exec", "--", "curl -sS http://127.0.0.1:9/")
    assert "127.0.0.1:9 cannot be reached" in asked.out, "with the value in hand"
    assert "s3cret-value" not in asked.out + asked.err
    assert unlocked("secrets", "remove", "API_KEY").code == 0
    assert unlocked("secrets", "list").out == "no secrets\n"
    asked = unlocked("exec", "--", "curl -sS http://127.0.0.1:9/")
    assert "its value is unavailable" in asked.out
