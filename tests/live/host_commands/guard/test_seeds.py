"""The patterns that the product's own documents use, as they are written, in a real guard."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.backends import skip_or_fail

ENGINE = os.environ.get("DOCKER_HOST", "")


async def test_docker_reaches_its_engine_and_says_that_this_hands_over_the_host(machine: Any) -> None:
    if not ENGINE.startswith("unix://"):
        skip_or_fail("docker", "DOCKER_HOST names no local engine")
    socket = ENGINE.removeprefix("unix://")
    machine.around = machine.host.around = replace(machine.around, runtime_sockets=(socket,))
    words = ("docker", "--host", ENGINE, "version", "--format", "{{.Server.Version}}")
    plan = await machine.plan(*words)
    assert any("the whole host" in danger for danger in plan.dangers)
    reply = await machine.run(*words)
    assert (reply.exit_code, reply.stdout.strip() != "") == (0, True), reply
    (machine.workspace / "a.sh").write_text(f"docker --host {ENGINE} version")
    assert (await machine.run("sh", "a.sh")).exit_code != 0, "another program was given the engine too"


async def test_systemctl_and_journalctl_see_what_they_read_of_run_and_nothing_more(
    machine: Any, tmp_path: Path
) -> None:
    for name in ("systemctl", "journalctl", "other"):
        machine.script(name, "#!/bin/sh\nls /run\n")
    made = [Path(path) for path in ("/run/systemd/system", "/run/log/journal")]
    if os.geteuid() != 0 and not all(path.exists() for path in made):
        pytest.skip("this machine has no systemd, and only root can make its folders")
    missing = [path for path in made if not path.exists()]
    kept = [path.parent.exists() for path in missing]
    for path in missing:
        path.mkdir(parents=True)
    try:
        seen = {
            name: (await machine.run(name, "status", "x")).stdout.split()
            for name in ("systemctl", "journalctl", "other")
        }
    finally:
        for path, parent_stays in zip(missing, kept, strict=True):
            shutil.rmtree(path if parent_stays else path.parent)
    assert {"systemd", "log"} <= set(seen["systemctl"]) <= {"systemd", "log", "dbus", "utmp"}
    assert {"log"} <= set(seen["journalctl"]) <= {"log", "systemd", "resolvconf"}
    assert set(seen["other"]) <= {"systemd", "resolvconf"}, "all that may be shown is where names are looked up"


async def test_systemctl_goes_by_the_bus_and_never_by_the_managers_own_socket(machine: Any) -> None:
    machine.script("systemctl", '#!/bin/sh\necho "$SYSTEMCTL_FORCE_BUS"\nls /run/systemd/private\n')
    reply = await machine.run("systemctl", "status", "x")
    assert (reply.exit_code != 0, reply.stdout) == (True, "1\n")


async def test_what_only_reads_is_called_dangerous_by_nobody(machine: Any) -> None:
    for name, rest in (("systemctl", ("status", "x")), ("journalctl", ("-n", "1"))):
        machine.script(name, "#!/bin/sh\n")
        pattern = " ".join((name, *rest[:1], "*")) if name == "systemctl" else f"{name} *"
        assert (await machine.plan(name, *rest, pattern=pattern)).dangers == ()


async def test_brew_writes_its_own_installation_where_there_is_one(machine: Any) -> None:
    prefix = machine.home / ".linuxbrew"
    prefix.mkdir()
    machine.script("brew", f"#!/bin/sh\ntouch {prefix}/installed && touch {machine.home}/elsewhere\n")
    reply = await machine.run("brew", "install", "x")
    assert (prefix / "installed").exists()
    assert reply.exit_code != 0
    assert not (machine.home / "elsewhere").exists()


async def test_git_works_in_its_folder_as_the_documents_say(machine: Any) -> None:
    assert (await machine.run("git", "init", "-q")).exit_code == 0
    (machine.workspace / "f").write_text("x")
    assert (await machine.run("git", "add", "f")).exit_code == 0
    assert (await machine.run("git", "status", "--short")).stdout == "A  f\n"
