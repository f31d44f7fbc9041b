"""`crabpot render`: what is printed is right, and works when it is pasted."""

from __future__ import annotations

import pytest

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
