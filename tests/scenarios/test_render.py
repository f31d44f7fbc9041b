"""`crabpot render`: what is printed is right, and works when it is pasted."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess

import pytest

from tests.support.ordinary_user import UID, engine_environ, engine_groups, interpreter, readable_source

# What the two spellings must agree in, as the engine understood them.
SAME = (
    *("CapDrop", "ReadonlyRootfs", "Tmpfs", "IpcMode", "ShmSize", "Init", "NetworkMode", "PortBindings"),
    *("Memory", "MemorySwap", "MemoryReservation", "NanoCpus", "PidsLimit", "LogConfig", "RestartPolicy", "Privileged"),
)
BASELINE = (
    "User={{.Config.User}} ReadOnly={{.HostConfig.ReadonlyRootfs}} "
    "CapDrop={{.HostConfig.CapDrop}} PidsLimit={{.HostConfig.PidsLimit}}"
)


def test_the_pasted_command_passes_the_guides_baseline_check(crabpot, docker, seeds):
    guide = (seeds / "runtime-hardening.md").read_text()
    assert f"--format '{BASELINE}'" in guide
    name = docker.name()
    rendered = crabpot("render", "docker-run", "--name", name)
    assert (rendered.code, rendered.err) == (0, "")
    started = docker.paste(rendered.out)
    assert started.returncode == 0, started.stderr
    expected = "User=1000:1000 ReadOnly=true CapDrop=[ALL] PidsLimit=100"
    assert expected in guide
    assert docker("inspect", name, "--format", BASELINE).stdout.strip() == expected
    assert docker.inspect(name)["State"]["Running"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_an_ordinary_user_renders_and_pastes(docker):
    name = docker.name()
    with readable_source() as (environ, home):
        line = (
            f"{interpreter()} -m crabpot render docker-run --name {name} | sh && {interpreter()} -m crabpot image list"
        )
        done = subprocess.run(
            ["sh", "-ec", line],
            env={**environ, **engine_environ(), "PATH": os.environ["PATH"]},
            cwd=home,
            user=UID,
            group=UID,
            extra_groups=engine_groups(),
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert "crabpot-sandbox:latest" in done.stdout
    assert docker("inspect", name, "--format", BASELINE).stdout.startswith("User=1000:1000 ReadOnly=true")


def test_the_pasted_command_has_what_it_says(crabpot, docker, tmp_path):
    logs, config = tmp_path / "logs", tmp_path / "config"
    for folder in (logs, config):
        folder.mkdir()
        folder.chmod(0o777)
    name = docker.name()
    rendered = crabpot(
        *("render", "docker-run", "--name", name, "--image", "crabpot-sandbox:latest", "--command", "sleep 600"),
        *("--volume", f"{logs}:/app/logs:rw,nosuid,nodev", "--volume", f"{config}:/app/config", "--health", "true"),
        *("--port", "18789:80"),
    )
    assert rendered.code == 0, rendered.err
    assert "bridge" in rendered.err
    started = docker.paste(rendered.out, shell="bash")
    assert started.returncode == 0, started.stderr
    seen = docker.inspect(name)
    host = seen["HostConfig"]
    assert host["PortBindings"] == {"80/tcp": [{"HostIp": "127.0.0.1", "HostPort": "18789"}]}
    assert host["CapAdd"] in (["NET_BIND_SERVICE"], ["CAP_NET_BIND_SERVICE"])
    assert host["Memory"] == host["MemorySwap"] == 2 * 1024**3
    assert host["MemoryReservation"] == 1024**3
    assert host["NanoCpus"] == 2 * 10**9
    assert host["LogConfig"] == {"Type": "json-file", "Config": {"max-size": "10m", "max-file": "3"}}
    assert host["RestartPolicy"]["Name"] == "unless-stopped"
    assert seen["Config"]["Healthcheck"]["Test"] == ["CMD-SHELL", "true"]
    assert "no-new-privileges" in host["SecurityOpt"]
    assert any(option.startswith('seccomp={"archMap"') for option in host["SecurityOpt"])
    assert docker("exec", name, "touch", "/app/logs/written").returncode == 0
    assert (logs / "written").stat().st_uid == 1000
    refused = docker("exec", name, "touch", "/app/config/written")
    assert "Read-only file system" in refused.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can plant such files")
def test_setuid_files_and_devices_of_a_volume_are_worth_nothing(crabpot, docker, tmp_path):
    """What nosuid and nodev mean holds by no-new-privileges and the engine's list of devices."""
    logs = tmp_path / "logs"
    logs.mkdir()
    shutil.copy("/usr/bin/id", logs / "id")
    os.chmod(logs / "id", 0o6755)
    disk = os.stat("/").st_dev
    os.mknod(logs / "disk", 0o666 | stat.S_IFBLK, disk)
    name = docker.name()
    rendered = crabpot("render", "docker-run", "--name", name, "--volume", f"{logs}:/app/logs:rw,nosuid,nodev")
    assert docker.paste(rendered.out).returncode == 0
    assert docker("exec", name, "/app/logs/id", "-u").stdout.strip() == "1000"
    read = docker("exec", name, "head", "-c", "1", "/app/logs/disk")
    assert "Operation not permitted" in read.stderr


@pytest.mark.parametrize("program", [("docker-compose",), ("docker", "compose")], ids="-".join)
def test_compose_takes_the_file_and_makes_the_same_container(crabpot, docker, tmp_path, program):
    environ = {"PATH": os.environ["PATH"], "DOCKER_HOST": docker.host, "HOME": os.environ["HOME"]}

    def run(*arguments):
        return subprocess.run(
            [*program, "--file", f"{file}", *arguments], env=environ, capture_output=True, text=True, check=False
        )

    if shutil.which(program[0]) is None or subprocess.run([*program, "version"], check=False).returncode != 0:
        pytest.skip(f"{' '.join(program)} is not here")
    config = tmp_path / "config"
    config.mkdir()
    folder = tmp_path / f"crabpot-test-{os.urandom(4).hex()}"
    folder.mkdir()
    file = folder / "docker-compose.yml"
    wanted = (
        "--volume",
        f"{config}:/app/config:ro,nosuid,nodev",
        "--volume",
        f"{config}:/app/skills",
        "--port",
        "1023",
    )
    both = {}
    pasted, composed = docker.name(), docker.name()
    rendered = crabpot("render", "docker-run", "--name", pasted, *wanted)
    # A port of the host can be had once.
    assert docker.paste(rendered.out.replace("run --detach", "create")).returncode == 0
    file.write_text(crabpot("render", "compose", "--name", composed, *wanted).out)
    checked = run("config", "--quiet")
    assert checked.returncode == 0, checked.stderr
    started = run("up", "--detach")
    try:
        assert started.returncode == 0, started.stderr
        assert docker("inspect", composed, "--format", BASELINE).stdout.startswith("User=1000:1000 ReadOnly=true")
        flags = docker("exec", composed, "grep", " /app/config ", "/proc/self/mountinfo").stdout
        assert "ro,nosuid,nodev" in flags
        assert "Read-only" in docker("exec", composed, "touch", "/app/config/x").stderr
        for name in (pasted, composed):
            seen = docker.inspect(name)
            host = seen["HostConfig"]
            both[name] = {key: host[key] for key in SAME} | {key: seen["Config"][key] for key in ("User", "Cmd", "Env")}
            both[name]["added"] = [one.removeprefix("CAP_") for one in host["CapAdd"]]
            both[name]["health"] = seen["Config"]["Healthcheck"]
            both[name]["ulimits"] = sorted(host["Ulimits"], key=str)
            both[name]["seccomp"] = [json.loads(one[8:]) for one in host["SecurityOpt"] if one.startswith("seccomp=")]
    finally:
        run("down", "--volumes")
    assert both[pasted] == both[composed]


def test_the_seccomp_profile_is_the_live_sandboxs_own(crabpot, docker, tmp_path):
    from crabpot.backends.docker import profile

    printed = crabpot("render", "seccomp")
    assert json.loads(printed.out) == json.loads(profile.read("default"))
    file = tmp_path / "seccomp.json"
    file.write_text(printed.out)
    name = docker.name()
    rendered = crabpot("render", "docker-run", "--name", name, "--seccomp", str(file))
    assert f"--security-opt seccomp={file} " in rendered.out
    assert docker.paste(rendered.out).returncode == 0
    assert "Operation not permitted" in docker("exec", name, "unshare", "--user", "true").stderr


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--port", "0.0.0.0:80:80"], "127.0.0.1 only"),
        (["--volume", "/:/host"], "the whole host"),
        (["--volume", "/var/run/docker.sock:/x"], "refused"),
        (["--image", "--privileged"], "expected one argument"),
        (["--image=--privileged"], "option"),
        (["--name", "a b"], "name"),
        (["--seccomp", "Unconfined"], "wall"),
        (["--command", "echo 'a"], "quotation"),
        (["--health", "a\x1b[2J"], "U+001B"),
    ],
)
def test_what_would_open_the_container_is_refused(crabpot, arguments, why):
    ended = crabpot("render", "docker-run", *arguments)
    assert ended.code in (1, 2)
    assert ended.out == ""
    assert why in ended.err
    assert "\x1b" not in ended.err


def test_the_configuration_counts(crabpot):
    crabpot.workspace.mkdir()
    crabpot.workspace.chmod(0o777)
    crabpot.configure(
        '{agents: {entries: {ops: {sandbox: {user: "2000:2000", workspace: "rw", network: "lab", env: {A: "b"},'
        ' limits: {pids: 50, memory: "512m"}, docker: {image: "mine:1"}}}}}}'
    )
    ended = crabpot("render", "docker-run", "--session", "agent:ops:main")
    assert ended.code == 0, ended.err
    for piece in (
        "--user 2000:2000 ",
        "--network lab ",
        "--env A=b ",
        "--pids-limit 50 ",
        "--memory 512m ",
        f"source={crabpot.workspace}",
        "target=/workspace",
        "mine:1 \\\n  sleep infinity",
    ):
        assert piece in ended.out
    assert "--user 1000:1000 " in crabpot("render", "docker-run").out


def test_a_configured_setting_that_only_a_gateway_can_keep_is_refused(crabpot):
    crabpot.configure('{agents: {defaults: {sandbox: {network: "internet"}}}}')
    ended = crabpot("render", "docker-run")
    assert ended.code == 1
    assert "gateway" in ended.said()


@pytest.fixture
def guarded(crabpot, docker):
    """A container as rendered, by its name. Of less memory, so that a busy machine fills it in the guide's five seconds."""
    crabpot.configure('{agents: {defaults: {sandbox: {limits: {memory: "256m"}}}}}')
    name = docker.name()
    started = docker.paste(crabpot("render", "docker-run", "--name", name).out)
    assert started.returncode == 0, started.stderr
    return name


def script_of_the_guide(seeds, name):
    """Take the security tests out of the guide; two things are changed, and no more: the name, and bash for `{1..150}`."""
    guide = (seeds / "runtime-hardening.md").read_text()
    (script,) = re.findall(r"```bash\n(#!/bin/bash\n# test_sandbox_security\.sh\n.*?)```", guide, re.DOTALL)
    adapted = script.replace("sh -c 'for i in {1..150}", "bash -c 'for i in {1..150}")
    assert adapted != script
    assert adapted.count("# Test ") == 7
    return adapted.replace("clawdbot-production", name)


def test_the_guides_own_security_tests_pass(docker, seeds, guarded):
    done = docker.paste(script_of_the_guide(seeds, guarded), shell="bash")
    assert "❌" not in done.stdout
    assert "⚠" not in done.stdout
    for passed in (
        "✅ PASS: Root is read-only",
        "✅ PASS: tmpfs is noexec",
        "Current: =",
        "✅ PASS: Process limit enforced",
        "✅ PASS: Memory limit enforced",
        "✅ PASS: Network isolated",
        "=== Test Complete ===",
    ):
        assert passed in done.stdout


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (1, ("✅ PASS: Root is read-only", "Read-only file system")),
        (2, ("✅ PASS: tmpfs is noexec", "Permission denied")),
        (3, ("Current: =", "")),
        (4, ("✅ PASS: Process limit enforced", "Resource temporarily unavailable")),
        (5, ("✅ PASS: Memory limit enforced", "got signal 9")),
        (6, ("✅ PASS: Network isolated", "")),
        (7, ("✅ PASS: Running as UID 1000", "")),
    ],
)
def test_each_of_the_guides_tests_passes_for_its_own_reason(docker, seeds, guarded, number, expected):
    """The fourth leaves a hundred processes behind: every later one would pass because nothing can be started at all."""
    passed, because = expected
    tests = script_of_the_guide(seeds, guarded).split("# Test ")
    done = docker.paste(tests[number].replace("=== Test Complete ===", "").partition("\n")[2], shell="bash")
    assert passed in done.stdout, done.stderr
    assert because in done.stdout + done.stderr
    assert "OCI runtime exec failed" not in done.stdout + done.stderr or number == 4


def test_units_can_be_read_by_the_whole_machine_and_are_written_where_said(crabpot, tmp_path):
    ended = crabpot("render", "systemd", "--user", "--out", str(tmp_path / "units"))
    assert ended.code == 0, ended.err
    modes = {file.name: file.stat().st_mode & 0o777 for file in (tmp_path / "units").iterdir()}
    assert modes == {"crabpot.service": 0o644, "crabpot.socket": 0o644}


def test_units_with_a_port_say_it_and_a_port_for_strangers_is_refused(crabpot):
    ended = crabpot("render", "systemd", "--system", "--listen", "127.0.0.1:8787")
    assert "serve --listen 127.0.0.1:8787\n" in ended.out
    assert "enable --now crabpot.socket crabpot.service" in ended.out
    refused = crabpot("render", "systemd", "--system", "--listen", "0.0.0.0:8787")
    assert (refused.code, "0.0.0.0 is not the loopback" in refused.err) == (2, True)
