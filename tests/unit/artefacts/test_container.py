"""The description of a rendered container: the walls of a live sandbox, whatever is asked for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crabpot.artefacts.container import NotRenderable, body
from crabpot.artefacts.ports import Port
from crabpot.artefacts.volumes import Volume
from crabpot.backends.docker import render
from crabpot.settings import GIB, Docker, Limits, Size
from crabpot.spec.network import NetworkSpec
from crabpot.spec.spec import User
from tests.unit.artefacts.make import make_spec, make_wanted

LIVE = render.ContainerPlan(
    image_id="sha256:1",
    interpreter="/usr/bin/python3",
    user=User(uid=1000, gid=1000),
    binds=(),
    seccomp="/state/seccomp.json",
    cpus=64,
)
# What must differ: a live sandbox ends with its gateway, has its output as the wire (so that nobody stands
# before the runner), and writes nothing down.
OWN = {"Init", "Tmpfs", "LogConfig", "RestartPolicy", "AutoRemove", "MaskedPaths", "ReadonlyPaths"}


@given(
    memory=st.integers(min_value=2**25, max_value=2**40),
    pids=st.integers(min_value=8, max_value=10**6),
    cpus=st.floats(min_value=0.01, max_value=64),
    runtime=st.none() | st.just("runsc"),
)
def test_the_walls_and_limits_are_those_of_the_live_sandbox(
    memory: int, pids: int, cpus: float, runtime: str | None
) -> None:
    limits = Limits(memory=Size(memory), pids=pids, cpus=cpus, memory_reservation=Size(memory))
    spec = make_spec(limits=limits, docker=Docker(runtime=runtime))
    live = render.create_body(spec, LIVE)["HostConfig"]
    rendered = body(spec, make_wanted())["HostConfig"]
    assert {key: rendered[key] for key in live if key not in OWN} == {key: live[key] for key in live if key not in OWN}
    assert rendered["Tmpfs"]["/tmp"] == live["Tmpfs"]["/tmp"]


def test_the_container_goes_on_and_its_log_is_bounded() -> None:
    made = body(make_spec(), make_wanted())["HostConfig"]
    assert made["RestartPolicy"] == {"Name": "unless-stopped"}
    assert made["LogConfig"] == {"Type": "json-file", "Config": {"max-size": "10m", "max-file": "3"}}
    assert made["Tmpfs"]["/var/run"].startswith("rw,noexec,nosuid,nodev,size=10m,")
    assert made["MemoryReservation"] == GIB


@pytest.mark.parametrize(
    ("ports", "capabilities"),
    [
        ((), []),
        ((Port(host=80, container=8080),), []),
        ((Port(host=8080, container=80), Port(host=1, container=2000)), ["NET_BIND_SERVICE"]),
    ],
)
def test_one_capability_is_added_for_a_port_below_1024_and_never_another(
    ports: tuple[Port, ...], capabilities: list[str]
) -> None:
    made = body(make_spec(), make_wanted(ports=ports))["HostConfig"]
    assert (made["CapDrop"], made["CapAdd"]) == (["ALL"], capabilities)


def test_a_published_port_needs_the_bridge_and_is_on_the_loopback() -> None:
    made = body(make_spec(), make_wanted(ports=(Port(host=18789, container=18789),)))["HostConfig"]
    assert made["NetworkMode"] == "bridge"
    assert made["PortBindings"] == {"18789/tcp": [{"HostIp": "127.0.0.1", "HostPort": "18789"}]}


@pytest.mark.parametrize("kind", ["internet", "allow"])
def test_a_network_through_the_gateway_is_refused_without_one(kind: Any) -> None:
    with pytest.raises(NotRenderable, match="gateway"):
        body(make_spec(network=NetworkSpec(kind=kind)), make_wanted())


def test_ports_on_the_hosts_own_network_are_refused() -> None:
    with pytest.raises(NotRenderable, match="publishes no ports"):
        body(make_spec(network=NetworkSpec(kind="host")), make_wanted(ports=(Port(host=1, container=1),)))


@pytest.mark.parametrize(
    "changes",
    [
        {"image": "a\x1b[2J"},
        {"command": ("echo", "a\nb")},
        {"health": "true \u202e"},
        {"env": {"A": "\u200b"}},
        {"volumes": (Volume(source="/srv/\r", target="/data", access="ro"),)},
        {"seccomp": "/x\x07"},
    ],
)
def test_nothing_is_rendered_that_a_person_would_not_see(changes: dict[str, Any]) -> None:
    with pytest.raises(NotRenderable, match=r"U\+") as caught:
        body(make_spec(), make_wanted(**changes))
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("name", ["", "-x", "a b", "a/b", "../x", "a\n"])
def test_a_name_that_docker_would_not_take_is_refused(name: str) -> None:
    with pytest.raises(NotRenderable, match="name"):
        body(make_spec(), make_wanted(name=name))
