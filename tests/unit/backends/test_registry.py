"""Which backend opens a sandbox, and what is said when none does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crabpot.backends.base import Clause, greeting
from crabpot.backends.registry import Registry
from crabpot.errors import SandboxUnavailable
from crabpot.settings import Docker, Io, Size
from crabpot.spec.build import build
from crabpot.spec.network import NetworkSpec


class Fake:
    def __init__(self, name, *refuses):
        self.name = name
        self.refuses = refuses
        self.opened = []
        self.closed = 0

    async def probe(self, _spec):
        refused = [Clause(name=name, state="refused", how="this machine cannot") for name in self.refuses]
        return (Clause(name="network", state="enforced", how="a namespace of its own"), *refused)

    async def mechanism(self, _spec):
        return "copy"

    async def open(self, spec):
        self.opened.append(spec)
        return f"opened by {self.name}"

    async def close(self):
        self.closed += 1


@pytest.fixture
def spec(agent_of, around):
    return build(agent_of("{}"), "agent:main:main", around)


def registry(*backends):
    return Registry({backend.name: backend for backend in backends})


async def test_the_first_that_refuses_nothing_is_taken(spec):
    bubblewrap, docker = Fake("bubblewrap"), Fake("docker")
    opened, clauses = await registry(bubblewrap, docker).open(spec)
    assert (opened, [clause.state for clause in clauses]) == ("opened by bubblewrap", ["enforced"])
    assert docker.opened == []


async def test_one_that_refuses_a_clause_is_passed_over(spec):
    opened, _ = await registry(Fake("bubblewrap", "memory"), Fake("docker")).open(spec)
    assert opened == "opened by docker"


async def test_if_all_refuse_nothing_opens_and_each_reason_is_told(spec):
    with pytest.raises(SandboxUnavailable) as caught:
        await registry(Fake("bubblewrap", "memory", "seccomp"), Fake("docker", "image")).open(spec)
    text = str(caught.value)
    for reason in ("bubblewrap refuses memory", "bubblewrap refuses seccomp", "docker refuses image", "cannot"):
        assert reason in text


async def test_a_backend_that_is_asked_for_is_the_only_one_tried(spec):
    chosen = replace(spec, backend="docker")
    with pytest.raises(SandboxUnavailable, match="docker: not part of this build"):
        await registry(Fake("bubblewrap")).open(chosen)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"docker": Docker(image="other:1")}, "the settings below docker are docker's"),
        ({"docker": Docker(runtime="runsc")}, "the settings below docker are docker's"),
        ({"network": NetworkSpec(kind="bridge")}, '"internet", public addresses without the LAN'),
        ({"network": NetworkSpec(kind="named", name="lan")}, 'network "lan" is docker\'s'),
    ],
)
async def test_settings_that_only_docker_knows_mean_docker_and_if_it_refuses_are_named(spec, change, why):
    changed = replace(spec, **change)
    assert registry().candidates(changed) == ("docker",)
    with pytest.raises(SandboxUnavailable) as caught:
        await registry(Fake("docker", "sandbox")).open(changed)
    assert why in str(caught.value)
    with pytest.raises(SandboxUnavailable) as caught:
        await registry(Fake("docker", "sandbox")).open(replace(changed, backend="docker"))
    assert why not in str(caught.value)


@pytest.mark.parametrize("io", [Io(read=Size(1000)), Io(write=Size(1000))])
def test_limits_of_disks_mean_docker(spec, io):
    assert registry().candidates(replace(spec, limits=replace(spec.limits, io=io))) == ("docker",)


async def test_the_table_of_clauses_is_that_of_the_one_that_would_open_it(spec):
    name, clauses = await registry(Fake("bubblewrap", "memory"), Fake("docker")).clauses(spec)
    assert name == "docker"
    assert [clause.state for clause in clauses] == ["enforced"]


async def test_if_none_would_the_table_says_why_the_first_does_not(spec):
    name, clauses = await registry(Fake("bubblewrap", "memory"), Fake("docker", "image")).clauses(spec)
    assert name == "bubblewrap"
    assert clauses[-1].as_json() == {"name": "memory", "state": "refused", "how": "this machine cannot"}


async def test_a_build_without_backends_has_none(spec):
    assert await registry().clauses(spec) == ("none", ())


def test_the_greeting_says_to_a_runner_what_its_sandbox_is(agent_of, around, tmp_path):
    text = f'{{agents: {{defaults: {{workspace: "{tmp_path}/ws", sandbox: {{workspace: "ro", binds: ["{tmp_path}:/ref"], env: {{A: "1"}}, hostCommands: ["git"]}}}}}}}}'
    hello = greeting(build(agent_of(text), "agent:main:main", around))
    assert hello["op"] == "hello"
    assert hello["roots"] == ["/workspace", "/agent", "/ref"]
    assert hello["env"] == {
        "PATH": "/crabpot/bin:/usr/local/bin:/usr/bin:/bin:/crabpot/fallback",
        "HOME": "/workspace",
        "USER": "agent",
        "LANG": "C.UTF-8",
        "A": "1",
    }
    assert hello["limits"] == {"output": 1 << 20, "open_files": 1024, "file_size": 1 << 30, "processes": 100}
    assert (hello["contained"], hello["shims"]) == (True, ["git"])
