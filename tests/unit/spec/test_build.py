"""From settings to a spec, and every setting of a sandbox that is refused."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from crabpot.settings import AgentSettings, Kubernetes, Sandbox, Size, Storage, Toleration, WorkspaceAccess
from crabpot.spec.binds import BindRefused, Surroundings
from crabpot.spec.build import build, environment, parse_user, problems
from crabpot.spec.naming import is_variable_name
from crabpot.spec.spec import Mount, SandboxSpec, User

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def sandboxed(around: Surroundings, access: WorkspaceAccess, workspace: str = "~/agent") -> AgentSettings:
    return AgentSettings(id="main", workspace=workspace, sandbox=Sandbox(workspace=access))


def test_without_access_the_workspace_is_a_private_folder_of_the_state(around: Surroundings) -> None:
    spec = build(sandboxed(around, "none"), "agent:main:x", around)
    assert spec.name.startswith("crabpot-agent-main-x-")
    assert (spec.workspace, spec.private, spec.agent_workspace) == (f"{around.state}/sandboxes/{spec.name}", True, None)


def test_read_only_access_adds_the_agents_workspace_beside_the_private_one(around: Surroundings) -> None:
    spec = build(sandboxed(around, "ro"), "agent:main:x", around)
    assert (spec.workspace, spec.private) == (f"{around.state}/sandboxes/{spec.name}", True)
    assert spec.agent_workspace == f"{around.home}/agent"


def test_under_review_the_workspace_is_the_agents_own_and_only_the_layer_is_written(around: Surroundings) -> None:
    spec = build(sandboxed(around, "review"), "agent:main:x", around)
    assert (spec.workspace, spec.private) == (f"{around.home}/agent", False)
    assert spec.layer == f"{around.state}/layers/{spec.name}"
    assert spec.writes == (spec.layer,)
    assert spec.kept == f"{spec.layer}/copy"


def test_read_write_access_is_the_agents_workspace_itself(around: Surroundings) -> None:
    spec = build(sandboxed(around, "rw"), "agent:main:x", around)
    assert (spec.workspace, spec.private, spec.agent_workspace) == (f"{around.home}/agent", False, None)


@pytest.mark.parametrize("access", ["ro", "rw"])
def test_a_workspace_that_is_a_link_is_resolved(access: WorkspaceAccess, around: Surroundings, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    spec = build(sandboxed(around, access, str(tmp_path / "link")), "k", around)
    assert str(tmp_path / "real") in (spec.workspace, spec.agent_workspace)


def test_two_scope_keys_never_share_a_private_folder(around: Surroundings) -> None:
    agent = sandboxed(around, "none")
    keys = ["shared", "agent:main", "agent-main", "agent:Main", "agent:main:x", "agent:main:x\n"]
    assert len({build(agent, key, around).workspace for key in keys}) == len(keys)


def test_no_scope_key_leads_out_of_the_state(around: Surroundings) -> None:
    for key in ("../../../etc", "/etc", "a/../../b", "..", ".", "\0", "~"):
        folder = build(sandboxed(around, "none"), key, around).workspace
        assert os.path.dirname(os.path.normpath(folder)) == f"{around.state}/sandboxes"


def test_a_spec_holds_what_the_settings_say(agent_of: Callable[..., AgentSettings], around: Surroundings) -> None:
    spec = build(
        agent_of(
            "{agents: {defaults: {sandbox: {backend: 'docker', network: 'bridge', user: '7:8', binds: ['/srv/a:/a'],"
            " env: {LANG: 'de_DE'}, limits: {pids: 50}, docker: {runtime: 'runsc'}, hostCommands: ['git']}}}}"
        ),
        "shared",
        around,
    )
    assert (spec.scope_key, spec.backend, spec.network.kind, spec.user) == (
        "shared",
        "docker",
        "bridge",
        User(uid=7, gid=8),
    )
    assert spec.mounts == (Mount(source="/srv/a", target="/a", access="ro"),)
    assert (spec.limits.pids, spec.docker.runtime, spec.host_commands) == (50, "runsc", ("git",))


def test_the_settings_of_a_cluster_are_part_of_the_spec_and_of_its_hash(
    agent_of: Callable[..., AgentSettings], around: Surroundings
) -> None:
    def spec(kubernetes: str) -> SandboxSpec:
        text = f"{{agents: {{defaults: {{sandbox: {{backend: 'kubernetes', kubernetes: {kubernetes}}}}}}}}}"
        return build(agent_of(text), "shared", around)

    full = spec(
        "{context: 'lab', namespace: 'pots', image: 'r.example.com/pot:1', runtimeClass: 'gvisor', storage: {size: '5g',"
        " class: 'fast'}, nodeSelector: {'a.io/pool': 'x'}, tolerations: [{key: 'pool', value: 'x', effect: 'NoSchedule'}],"
        " imagePullSecret: 'pull', hostUsers: false, inet: 'refuse'}"
    )
    assert full.kubernetes == Kubernetes(
        context="lab",
        namespace="pots",
        image="r.example.com/pot:1",
        runtime_class="gvisor",
        storage=Storage(size=Size(5 * 1024**3), class_="fast"),
        node_selector={"a.io/pool": "x"},
        tolerations=(Toleration(key="pool", value="x", effect="NoSchedule"),),
        image_pull_secret="pull",
        host_users=False,
        inet="refuse",
    )
    assert spec("{}").kubernetes == Kubernetes()
    assert len({spec(text).hash for text in ("{}", "{namespace: 'b'}", "{inet: 'refuse'}", "{image: 'b'}")}) == 4


def test_the_environment_is_ours_and_what_is_configured_and_nothing_of_the_gateways() -> None:
    assert environment(Sandbox()) == {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": "/workspace",
        "USER": "agent",
        "LANG": "C.UTF-8",
    }
    assert environment(Sandbox(env={"LANG": "x", "KEY": "v"})) == {**environment(Sandbox()), "LANG": "x", "KEY": "v"}


def test_a_bind_whose_link_was_turned_since_it_was_checked_is_refused_again(
    around: Surroundings, tmp_path: Path
) -> None:
    (tmp_path / "good").mkdir()
    (tmp_path / "link").symlink_to("good")
    agent = AgentSettings(id="main", sandbox=Sandbox(binds=(f"{tmp_path}/link:/x",)))
    assert list(problems(agent, around)) == []
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("/etc")
    with pytest.raises(BindRefused, match="resolves to /etc"):
        build(agent, "shared", around)


def test_two_binds_at_one_place_are_refused_and_the_same_one_twice_is_one(around: Surroundings) -> None:
    def binding(*binds: str) -> AgentSettings:
        return AgentSettings(id="main", sandbox=Sandbox(binds=binds))

    for pair in (
        ("/srv/a:/x", "/srv/b:/x"),
        ("/srv/a:/x", "/srv/a:/x:rw"),
        ("/srv/a:/x", "/srv/b:/x/"),
        ("/srv/a:/x", "/srv/b://x/."),
    ):
        with pytest.raises(BindRefused, match="another bind is already mounted at /x"):
            build(binding(*pair), "shared", around)
        assert [path for path, _ in problems(binding(*pair), around)] == ["sandbox.binds[1]"]
    assert len(build(binding("/srv/a:/x", "/srv/a/:/x/:ro"), "shared", around).mounts) == 1


@pytest.mark.parametrize(
    ("text", "uid", "gid"),
    [("1000:1000", 1000, 1000), ("7", 7, 7), ("1:2", 1, 2), ("0001:0002", 1, 2), ("4294967294", 2**32 - 2, 2**32 - 2)],
)
def test_a_user_is_a_uid_and_a_gid(text: str, uid: int, gid: int) -> None:
    assert parse_user(text) == User(uid=uid, gid=gid)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "0",
            "0:0",
            "0:1000",
            "1000:0",
            "00",
            "000:1",
            "1:00",
            "root",
            "root:root",
            "agent",
            "",
            ":",
            "1:",
            ":1",
            "1:2:3",
        ),
        *(
            "-1",
            "+1",
            "1.0",
            " 1",
            "1 ",
            "1\n",
            "0x1",
            "1e3",
            "1_000",
            "\uff11",
            "\u0661",
            "4294967295",
            "4294967296",
            "99999999999",
        ),
    ],
)
def test_root_and_what_is_no_number_is_no_user(text: str, refused: Callable[[str], str]) -> None:
    with pytest.raises(ValueError, match=r"root|numbers|highest"):
        parse_user(text)


@pytest.mark.parametrize("spelling", ["user: '0:0'", "user: '0'", "docker: {user: '0:0'}", "docker: {user: 'root'}"])
def test_root_is_refused_in_every_spelling_of_the_setting(spelling: str, refused: Callable[[str], str]) -> None:
    assert "agents.defaults.sandbox." in refused(f"{{agents: {{defaults: {{sandbox: {{{spelling}}}}}}}}}")
    assert "sandbox.docker.user" in refused("{sandbox: {docker: {user: '0:0'}}}")


REFUSED = [
    ("env: {'A B': '1'}", 'env."A B"', "cannot be the name of a variable"),
    ("env: {'': '1'}", 'env.""', "cannot be the name of a variable"),
    ("env: {'A=B': '1'}", 'env."A=B"', "cannot be the name of a variable"),
    ("env: {'1A': '1'}", "env.1A", "cannot be the name of a variable"),
    ("env: {'\u00c4': '1'}", "env.\u00c4", "cannot be the name of a variable"),
    ("env: {'BASH_FUNC_x%%': '() { id; }'}", 'env."BASH_FUNC_x%%"', "cannot be the name of a variable"),
    ("env: {A: 'x\\0y'}", "env.A", "NUL"),
    ("hostCommands: ['/usr/bin/git']", "hostCommands[0]", "plain name"),
    ("hostCommands: ['git', '../x']", "hostCommands[1]", "plain name"),
    ("hostCommands: ['']", "hostCommands[0]", "plain name"),
    ("hostCommands: ['-x']", "hostCommands[0]", "plain name"),
    ("hostCommands: ['git push']", "hostCommands[0]", "plain name"),
    ("hostCommands: ['.']", "hostCommands[0]", "plain name"),
    ("hostCommands: ['g\u0456t']", "hostCommands[0]", "plain name"),
    ("hostUser: 'bob'", "hostUser", "requires sshKey"),
    ("sshKey: '/k'", "sshKey", "requires hostUser"),
    ("hostUser: '-oProxyCommand=id', sshKey: '/k'", "hostUser", "cannot be the name of a user"),
    ("hostUser: 'a b', sshKey: '/k'", "hostUser", "cannot be the name of a user"),
    ("hostUser: 'bob@evil', sshKey: '/k'", "hostUser", "cannot be the name of a user"),
    ("hostUser: 'bob', sshKey: 'k'", "sshKey", "must be an absolute path"),
    ("backend: 'socket'", "backend", "$RUNNER_SOCKET"),
    ("backend: 'socket', socket: 'runner.sock'", "socket", "must be an absolute path"),
    ("limits: {pids: 0}", "limits.pids", "above zero"),
    ("limits: {pids: -1}", "limits.pids", "above zero"),
    ("limits: {pids: 7}", "limits.pids", "at least 8"),
    ("limits: {cpus: 0}", "limits.cpus", "above zero"),
    ("limits: {cpus: -0.5}", "limits.cpus", "above zero"),
    ("limits: {timeLimit: 0}", "limits.timeLimit", "above zero"),
    ("limits: {timeLimit: 61, timeCeiling: 60}", "limits.timeLimit", "above timeCeiling (60 s)"),
    ("limits: {timeCeiling: 20}", "limits", "timeLimit (60 s) is above timeCeiling (20 s)"),
    ("limits: {timeCeiling: 0}", "limits.timeCeiling", "above zero"),
    ("limits: {openFiles: 0}", "limits.openFiles", "above zero"),
    ("limits: {openFiles: 63}", "limits.openFiles", "at least 64"),
    ("limits: {cpuShares: 0}", "limits.cpuShares", "above zero"),
    ("limits: {memory: '31m'}", "limits.memory", 'at least "32m"'),
    ("warm: -1", "warm", "0 or more"),
    ("backend: 'kubernetes', warm: 1, kubernetes: {storage: {size: '1g'}}", "warm", "belongs to one scope"),
    ("prune: {idleHours: 0}", "prune.idleHours", "above zero"),
    ("prune: {maxAgeDays: -1}", "prune.maxAgeDays", "above zero"),
    ("docker: {image: '--privileged'}", "docker.image", "might read it as an option"),
    ("docker: {image: ''}", "docker.image", "cannot be a name"),
    ("docker: {image: 'a b'}", "docker.image", "cannot be a name"),
    ("docker: {runtime: '-x'}", "docker.runtime", "cannot be a name"),
    ("docker: {apparmor: '../x'}", "docker.apparmor", "cannot be a name"),
    ("kubernetes: {context: ' '}", "kubernetes.context", "the name of a context"),
    ("kubernetes: {namespace: 'Crabpot'}", "kubernetes.namespace", "cannot be the name of a namespace"),
    ("kubernetes: {namespace: '../x'}", "kubernetes.namespace", "cannot be the name of a namespace"),
    ("kubernetes: {namespace: 'kube-system'}", "kubernetes.namespace", "the cluster's own"),
    ("kubernetes: {image: '-x'}", "kubernetes.image", "cannot be the name of an image"),
    ("kubernetes: {runtimeClass: 'a/b'}", "kubernetes.runtimeClass", "cannot be a name in a cluster"),
    ("kubernetes: {imagePullSecret: 'a_b'}", "kubernetes.imagePullSecret", "cannot be a name in a cluster"),
    ("kubernetes: {storage: {size: '1g', class: 'A'}}", "kubernetes.storage.class", "cannot be a name in a cluster"),
    ("kubernetes: {nodeSelector: {'a/b/c': 'd'}}", 'kubernetes.nodeSelector."a/b/c"', "cannot be a label of a node"),
    ("kubernetes: {tolerations: [{value: 'x'}]}", "kubernetes.tolerations[0]", "needs a key"),
    (
        "kubernetes: {tolerations: [{key: 'a', operator: 'Exists', value: 'x'}]}",
        "kubernetes.tolerations[0]",
        "no value",
    ),
]


@pytest.mark.parametrize(("body", "path", "said"), REFUSED)
def test_a_setting_that_cannot_be_kept_is_refused(
    body: str, path: str, said: str, refused: Callable[[str], str]
) -> None:
    message = refused(f"{{agents: {{defaults: {{sandbox: {{{body}}}}}}}}}")
    assert f": agents.defaults.sandbox.{path}: " in message
    assert said in message


@pytest.mark.parametrize("key", ["seccomp", "apparmor"])
@pytest.mark.parametrize(
    "value",
    [
        "unconfined",
        "Unconfined",
        "UNCONFINED",
        " unconfined",
        "unconfined ",
        "seccomp=unconfined",
        "apparmor:unconfined",
        "seccomp= Unconfined",
    ],
)
def test_unconfined_is_refused_in_any_letter_case_and_spelling(
    key: str, value: str, refused: Callable[[str], str]
) -> None:
    message = refused(f"{{agents: {{defaults: {{sandbox: {{docker: {{{key}: '{value}'}}}}}}}}}}")
    assert f"agents.defaults.sandbox.docker.{key}" in message
    assert "removes a wall" in message


@pytest.mark.parametrize(
    "body",
    [
        "limits: {pids: 8, openFiles: 64, memory: '32m', timeLimit: 0.5, timeCeiling: 0.5, cpus: 0.1}",
        "hostUser: 'pipo-runner', sshKey: '~/.ssh/id_ed25519', hostCommands: ['g++', 'apt-get', '7z', '_x.sh']",
        "docker: {image: 'registry.example.com:5000/a/b:1@sha256:abc', runtime: 'runsc', apparmor: 'docker-default', seccomp: '/srv/p.json'}",
        "backend: 'socket', socket: '/run/r.sock', warm: 5, env: {_A1: ''}",
    ],
)
def test_settings_at_their_edges_are_taken(body: str, agent_of: Callable[..., AgentSettings]) -> None:
    agent_of(f"{{agents: {{defaults: {{sandbox: {{{body}}}}}}}}}")


def test_the_problems_of_the_layer_itself_are_found_without_a_file(around: Surroundings) -> None:
    agent = AgentSettings(id="main", workspace="x", sandbox=Sandbox(env={"A": "\0"}))
    assert [path for path, _ in problems(agent, around)] == ["workspace", "sandbox.env.A"]
    assert list(problems(replace(agent, workspace="/srv/w", sandbox=Sandbox()), around)) == []


@pytest.mark.parametrize(
    ("name", "fits"), [("A", True), ("_a9", True), ("", False), ("9", False), ("A\n", False), ("A-B", False)]
)
def test_a_variable_has_a_plain_name(name: str, *, fits: bool) -> None:
    assert is_variable_name(name) is fits


def at_its_own_path(workspace: str, **more: Any) -> AgentSettings:
    return AgentSettings(id="main", workspace=workspace, sandbox=Sandbox(workspace="rw", workspace_at="same", **more))


def test_a_folder_appears_at_its_own_path_resolved_and_is_the_home_unless_one_is_named(
    around: Surroundings, tmp_path: Path
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    spec = build(at_its_own_path(f"{tmp_path}/link"), "k", around)
    assert (spec.workspace_at, spec.env["HOME"], spec.home) == (f"{tmp_path}/real", f"{tmp_path}/real", None)
    named = build(at_its_own_path(f"{tmp_path}/link", home="claude"), "k", around)
    assert (named.home, named.home_at, named.env["HOME"]) == (f"{around.state}/homes/claude", *["/home/agent"] * 2)
    private = AgentSettings(id="main", sandbox=Sandbox(workspace_at="same"))
    assert build(private, "k", around).workspace_at == "/workspace", "a private folder has no path of its own"


@pytest.mark.parametrize(
    "folder",
    [
        "/proc/x",
        "/sys/x",
        "/dev/x",
        "/dev/shm/x",
        "/run/x",
        "/crabpot",
        "/crabpot/x",
        "/usr/src/x",
        "/usr/local",
        "/etc/x",
    ],
)
def test_no_folder_appears_over_what_the_sandbox_relies_on(folder: str, around: Surroundings) -> None:
    found = dict(problems(at_its_own_path(folder), around))
    assert "refused" in found["workspace"]
    with pytest.raises(BindRefused):
        build(at_its_own_path(folder), "k", around)


@pytest.mark.parametrize("folder", ["/home/agent", "/home/agent/project", "/home"])
def test_no_folder_appears_in_or_around_the_private_home(folder: str, around: Surroundings) -> None:
    assert "the private home is there" in dict(problems(at_its_own_path(folder, home="x"), around))["workspace"]
    assert list(problems(at_its_own_path(folder), around)) == []


@pytest.mark.parametrize("name", ["", "..", ".", "a/b", "/x", "A", "-x", "x" * 65, "x\n", "é"])
def test_a_private_home_has_a_plain_name(name: str, around: Surroundings) -> None:
    agent = AgentSettings(id="main", sandbox=Sandbox(home=name))
    assert [path for path, _ in problems(agent, around)] == ["sandbox.home"]


def test_no_bind_takes_the_place_of_the_agents_own_folders(around: Surroundings) -> None:
    for bind in ("/srv/a:/home/agent", "/srv/a:/srv/project"):
        agent = at_its_own_path("/srv/project", home="x", binds=(bind,))
        assert [path for path, _ in problems(agent, around)] == ["sandbox.binds[0]"]
        with pytest.raises(BindRefused, match="own folder"):
            build(agent, "k", around)


@pytest.mark.parametrize(
    ("scope", "scope_key", "agent"),
    [
        ("session", "agent:main:x", "main"),
        ("session", "a bare key", "main"),
        ("session", "server:files:agent:main:x", "main"),
        ("agent", "agent:main", "main"),
        ("shared", "shared", ""),
    ],
)
def test_a_sandbox_has_the_share_of_the_agent_that_it_belongs_to_whatever_its_key(
    agent_of: Callable[..., AgentSettings], around: Surroundings, scope: str, scope_key: str, agent: str
) -> None:
    spec = build(agent_of(f'{{agents: {{defaults: {{sandbox: {{scope: "{scope}"}}}}}}}}'), scope_key, around)
    assert spec.agent == agent
    assert replace(spec, agent="another").hash == spec.hash, "it is no part of what the sandbox is known by"
