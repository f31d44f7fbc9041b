"""From spec and facts to the create request, to the letter; and that nothing in a spec opens a wall."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crabpot.backends.docker import owner, profile, render
from crabpot.backends.docker.render import Bind, ContainerPlan
from crabpot.settings import GIB, MIB, Docker, Io, Limits, Size
from crabpot.spec.network import NetworkSpec
from crabpot.spec.spec import User
from tests.support.specs import make_docker_spec

GOLDEN = Path(__file__).with_name("golden")

WORKSPACE = Bind(source="/state/sandboxes/x", target="/workspace", access="rw")
PLAN = ContainerPlan(
    image_id="sha256:0123",
    interpreter="/usr/bin/python3",
    user=User(uid=1000, gid=1001),
    binds=(WORKSPACE, Bind(source="/state/docker/runner-1", target="/crabpot/runner", access="ro")),
    seccomp='{"defaultAction":"SCMP_ACT_ERRNO"}',
    cpus=4,
    image_env=("PATH", "SECRET", "LANG"),
    labels={"crabpot.owner": "1:2:3"},
)
CASES: dict[str, tuple[dict[str, Any], ContainerPlan]] = {
    "plain": ({}, PLAN),
    "everything": (
        {
            "network": NetworkSpec(kind="named", name="lab"),
            "limits": Limits(
                memory=Size(512 * MIB),
                cpus=16.0,
                pids=50,
                tmp=Size(5 * MIB),
                memory_reservation=Size(GIB),
                cpu_shares=1,
                io=Io(read=Size(MIB), write=Size(2 * MIB)),
            ),
            "docker": Docker(runtime="runsc", apparmor="crabpot"),
        },
        replace(
            PLAN,
            binds=(*PLAN.binds, Bind(source="/srv/ref", target="/ref", access="ro")),
            apparmor="crabpot",
            disk="/dev/sda",
            image_volumes=("/data", "/workspace"),
        ),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_create_request_is_to_the_letter(case: str) -> None:
    changes, plan = CASES[case]
    made = json.dumps(render.create_body(make_docker_spec(**changes), plan), indent=1, sort_keys=True) + "\n"
    assert made == (GOLDEN / f"{case}.json").read_text()


def test_under_gvisor_its_own_threads_have_room() -> None:
    spec = make_docker_spec(docker=Docker(runtime="runsc"))
    plain = render.create_body(spec, PLAN)["HostConfig"]
    inside = render.create_body(spec, replace(PLAN, gvisor=True))["HostConfig"]
    differs = {key: inside[key] for key in inside if inside[key] != plain[key]}
    assert differs == {"PidsLimit": 1056}


WORDS = st.lists(st.text(min_size=1)).map(tuple)


@given(
    plan=st.builds(replace, st.just(PLAN), image_env=WORDS, image_volumes=WORDS, apparmor=st.none() | st.text()),
    kind=st.sampled_from(["none", "bridge", "host"]),
    cpus=st.floats(min_value=1e-6, max_value=1e6),
    runtime=st.none() | st.text(),
)
def test_no_spec_opens_a_wall(plan: ContainerPlan, kind: Any, cpus: float, runtime: str | None) -> None:
    spec = make_docker_spec(network=NetworkSpec(kind=kind), limits=Limits(cpus=cpus), docker=Docker(runtime=runtime))
    for body in (render.create_body(spec, plan), render.probe_body(spec, plan, "pass")):
        host = body["HostConfig"]
        assert body["User"] == "1000:1001"
        assert (host["CapDrop"], host["CapAdd"], host["Privileged"]) == (["ALL"], [], False)
        assert host["ReadonlyRootfs"] is host["AutoRemove"] is True
        assert host["Init"] is (body["WorkingDir"] == "/")
        assert host["SecurityOpt"][:2] == ["no-new-privileges", f"seccomp={PLAN.seccomp}"]
        assert host["Memory"] == host["MemorySwap"] == spec.limits.memory
        assert host["PidsLimit"] == spec.limits.pids
        assert 10**7 <= host["NanoCpus"] <= 4 * 10**9
        assert host["LogConfig"]["Type"] == "none"
        assert host["IpcMode"] == "private"
        assert "PidMode" not in host
        assert "Binds" not in host
        assert {"noexec", "nosuid", "nodev"} <= set(host["Tmpfs"]["/tmp"].split(","))
        assert body["Healthcheck"] == {"Test": ["NONE"]}
        assert body["OpenStdin"] is True
        assert "PATH" not in body["Env"]


def test_the_probe_of_an_image_sees_no_network() -> None:
    spec = make_docker_spec(network=NetworkSpec(kind="host"))
    assert render.probe_body(spec, PLAN, "pass")["HostConfig"]["NetworkMode"] == "none"


def test_the_labels_name_owner_scope_hash_and_state() -> None:
    spec = make_docker_spec()
    made = render.labels(spec, owned_by="1:2:3", state="s")
    assert made == {
        owner.OWNER: "1:2:3",
        owner.SCOPE: "agent:main:test",
        owner.HASH: spec.hash,
        owner.STATE: "s",
    }


def test_our_own_profile_is_an_allow_list() -> None:
    read = json.loads(profile.read("default"))
    assert read["defaultAction"] == "SCMP_ACT_ERRNO"


def test_a_profile_of_ones_own_is_read_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    file.write_text('{"defaultAction": "SCMP_ACT_ALLOW"}')
    assert json.loads(profile.read(str(file))) == {"defaultAction": "SCMP_ACT_ALLOW"}


@pytest.mark.parametrize("content", [None, "", "unconfined", "[]", "{}", '{"defaultAction": 1}'])
def test_a_profile_that_is_none_is_refused(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "profile.json"
    if content is not None:
        file.write_text(content)
    assert str(file) in (profile.problem(str(file)) or "")


def test_a_profile_is_not_looked_for_in_the_working_folder() -> None:
    assert "absolute" in (profile.problem("profile.json") or "")
