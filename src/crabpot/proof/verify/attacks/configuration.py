"""Attacks by configuration: what no file may open, however it is spelt, and what is not read at all."""

from __future__ import annotations

import json
import os
import socket
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

from crabpot.config.places import FILE_NAME
from crabpot.errors import ConfigError
from crabpot.proof.verify.claims import Group, NotCarriedOut, Outcome, few
from crabpot.spec.build import build

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crabpot.proof.verify.target import Target

claim = Group("escape by configuration")


def sandbox(**settings: Any) -> str:
    """Return a configuration with these sandbox settings."""
    return json.dumps({"agents": {"defaults": {"sandbox": settings}}})


def each_refused(target: Target, tried: Iterable[tuple[str, str]]) -> Outcome:
    """Load each configuration; the claim holds if none is accepted."""
    taken: list[str] = []
    reasons: dict[str, str] = {}
    names = []
    for what, text in tried:
        names.append(what)
        try:
            target.load(text)
            taken.append(what)
        except ConfigError as error:
            reasons.setdefault(error.problems[0].message, what)
    said = "; ".join(f"{reason}" for reason in list(reasons)[:3])
    came_back = f"TAKEN: {few(taken)}" if taken else f"all {len(names)} refused: {said}"
    return Outcome(held=not taken, tried=few(names), came_back=came_back)


def _each_bind(target: Target, sources: Iterable[str]) -> Outcome:
    texts = [(f"{source}:/data", sandbox(binds=[f"{source}:/data"])) for source in dict.fromkeys(sources)]
    return each_refused(target, texts)


def _link(target: Target, name: str, to: str) -> str:
    path = f"{target.bait.folder}/{name}"
    with suppress(FileExistsError):
        os.symlink(to, path)
    return path


@claim.about("binds", threats=("configured-away",))
async def cannot_be_given_a_folder_of_the_hosts_system(target: Target) -> Outcome:
    """In other spellings, through links, by what contains it and by what lies below it."""
    systems = ("/etc", "/proc", "/sys", "/dev", "/boot", "/run", "/var/run", "/root")
    sources = ["/", "//", "/.", "/usr/..", "/proc/self/root", "/var", "/tmp", "/var/tmp"]  # noqa: S108  to be refused
    for path in systems:
        sources += [path, f"{path}/", f"/{path}", f"/usr/..{path}", f"{path}/.", f"{path}/below"]
    links = [_link(target, f"link-{number}", path) for number, path in enumerate(("/", "/etc", "/proc/1/root", "/var"))]
    return _each_bind(target, [*sources, *links, f"{links[0]}/etc", f"{links[3]}/run"])


@claim.about("binds", threats=("configured-away", "host-sockets"))
async def cannot_be_given_a_container_runtimes_socket(target: Target) -> Outcome:
    """Whoever can talk to it is root on the host."""
    folder = f"{target.bait.folder}/runtime"
    os.makedirs(folder, exist_ok=True)
    with closing(socket.socket(socket.AF_UNIX)) as listening:
        with suppress(OSError):
            listening.bind(f"{folder}/docker.sock")
        sources = [
            *("/var/run/docker.sock", "/run/docker.sock", "//var//run//docker.sock", "/var/run/../run/docker.sock"),
            *("/run/podman/podman.sock", "/run/containerd/containerd.sock", "/run/user/1000/docker.sock"),
            *("/var/lib/docker", "/var/lib/containerd", "/srv/docker.sock", "~/.docker/run/docker.sock"),
            *(folder, f"{folder}/", f"{folder}/docker.sock", _link(target, "innocent", f"{folder}/docker.sock")),
            *(_link(target, "harmless", "/var/run/docker.sock"), *target.gateway.execution.around.runtime_sockets),
        ]
        return _each_bind(target, sources)


@claim.about("binds", threats=("configured-away", "environment"))
async def cannot_be_given_a_home_or_the_keys_in_it(target: Target) -> Outcome:
    """Keys, tokens, and what the person's own shell would run."""
    home = target.gateway.execution.around.home
    names = ".ssh .aws .azure .gnupg .docker .kube .netrc .npmrc .pypirc .config .git-credentials .bashrc .profile"
    sources = ["~", "~/", home, f"{home}/.", os.path.dirname(home), _link(target, "home", home)]
    sources += [form for name in names.split() for form in (f"~/{name}", f"{home}/{name}/below")]
    return _each_bind(target, [*sources, _link(target, "keys", f"{home}/.ssh")])


@claim.about("binds", threats=("own-files",))
async def cannot_be_given_crabpots_own_files(target: Target) -> Outcome:
    """Whoever writes the configuration, the log or the approvals decides everything."""
    around = target.gateway.execution.around
    own = [path for path in (around.state, around.config) if path]
    sources = [form for path in own for form in (path, os.path.dirname(path), f"{path}/", f"{os.path.dirname(path)}/.")]
    sources += [f"{around.state}/sandboxes", f"{around.state}/approvals.sqlite", _link(target, "state", around.state)]
    return _each_bind(target, sources)


@claim.about("binds", "filesystem", threats=("configured-away",))
async def cannot_have_a_mount_over_what_it_stands_on(target: Target) -> Outcome:
    """A folder mounted over /etc, /proc or the runner replaces what the promises are about."""
    places = "/workspace /agent /proc /sys /dev /tmp /etc /usr /bin /lib /lib64 /sbin /crabpot".split()
    spelt = [
        form for place in places for form in (place, f"{place}/", f"/{place}", f"{place}/below", f"/data/..{place}")
    ]
    spelt += ["/", "//", "/.", "/data/.."]
    source = target.bait.open_folder
    return each_refused(target, [(place, sandbox(binds=[f"{source}:{place}"])) for place in dict.fromkeys(spelt)])


@claim.about("user", "capabilities", "no-new-privileges", "seccomp", "apparmor", threats=("configured-away",))
async def cannot_have_a_wall_switched_off(target: Target) -> Outcome:
    """Privileged, capabilities, root, unconfined, the host's own namespaces, no limit: there is no key for them."""
    settings: list[dict[str, Any]] = [
        *({key: value} for key in ("privileged", "Privileged", "PRIVILEGED") for value in (True, "true")),
        *({key: ["ALL"]} for key in ("capAdd", "cap_add", "CapAdd", "capabilities")),
        *({key: "host"} for key in ("pid", "ipc", "uts", "userns", "pidMode", "cgroupns")),
        *({"noNewPrivileges": False}, {"securityOpt": ["seccomp=unconfined"]}, {"devices": ["/dev/mem"]}),
        *({"seccomp": "unconfined"}, {"args": ["--privileged"]}, {"readOnlyRoot": False}),
        *({"user": user} for user in ("0", "0:0", "root", "1000:0", "0:1000", "00", "+0", "-1", "4294967295")),
        *({"limits": {name: 0}} for name in ("memory", "pids", "cpus", "timeLimit", "openFiles", "fileSize", "tmp")),
        *({"limits": {name: -1}} for name in ("memory", "pids", "cpus")),
    ]
    for word in ("unconfined", "Unconfined", "UNCONFINED", " unconfined", "seccomp=unconfined", "seccomp:Unconfined"):
        settings += [{"docker": {"seccomp": word}}, {"docker": {"apparmor": word}}]
    settings += [{"docker": {key: True}} for key in ("privileged", "Privileged", "capAdd", "hostConfig")]
    settings += [{"docker": {"image": "--privileged"}}, {"docker": {"runtime": "--privileged"}}]
    return each_refused(target, [(json.dumps(one), sandbox(**one)) for one in settings])


@claim.about("network", threats=("configured-away",))
async def cannot_join_another_containers_network(target: Target) -> Outcome:
    """Its loopback, its abstract sockets, its interfaces."""
    names = (
        *("container:x", "CONTAINER:x", "Container:x", " container:x", "container:", "cOnTaInEr:abc"),
        "ns:/proc/1/ns/net",
    )
    return each_refused(target, [(name, sandbox(network=name)) for name in names])


@claim.about("network", threats=("host-names",))
async def cannot_have_a_host_allowed_by_a_spelling_that_hides_it(target: Target) -> Outcome:
    """NUL, other digits, wildcards for everything, zones, names beyond ASCII: refused, or matched in one plain form."""
    refused = (
        *("*", "*:443", "0.0.0.0/0", "[::]/0", "2130706433", "0x7f.1", "0177.0.0.1", "127.1", "127.0.0.1%lo"),
        *("exa\u0000mple.com", "ex\u00e4mple.com", "example.com:0", "example.com:99999", "::1", "[fe80::1%eth0]"),
        *("a b.com", "example..com", "http://example.com", "example.com/path", "user@example.com", "-x.com"),
    )
    outcome = each_refused(target, [(ascii(place), sandbox(network={"allow": [place]})) for place in refused])
    plain = {"EXAMPLE.com.:443": "example.com:443", "[::ffff:127.0.0.1]:80": "127.0.0.1:80"}
    settings = target.load(sandbox(network={"allow": list(plain)}))
    canonical = build(settings.agent("main"), "agent:main:x", target.gateway.execution.around).network.allow
    held = outcome.held and canonical == tuple(plain.values())
    return Outcome(
        held=held, tried=outcome.tried, came_back=f"{outcome.came_back}; {', '.join(plain)} as {', '.join(canonical)}"
    )


@claim.about("sandbox", threats=("host-names",))
async def cannot_have_an_empty_or_unknown_word_taken_for_everything(target: Target) -> Outcome:
    """CVE-2025-66479: an empty list allowed everything."""
    texts = {
        "an empty allow": {"tools": {"allow": []}},
        "an unknown profile": {"tools": {"profile": "everything"}},
        "an unknown tool": {"tools": {"allow": ["exex"]}},
        "an unknown group": {"tools": {"deny": ["group:everything"]}},
        "an unknown mode": {"agents": {"defaults": {"sandbox": {"mode": "none"}}}},
        "an unknown key": {"agents": {"defaults": {"sandbx": {"mode": "all"}}}},
        "a mode of another type": {"agents": {"defaults": {"sandbox": {"mode": False}}}},
    }
    outcome = each_refused(target, [(what, json.dumps(text)) for what, text in texts.items()])
    twice = each_refused(target, [("a key written twice", '{"tools": {"deny": ["exec"]}, "tools": {}}')])
    nobody = target.load(json.dumps({"agents": {"defaults": {"sandbox": {"mode": None, "network": {"allow": []}}}}}))
    agent = nobody.agent("main").sandbox
    safe = agent.mode == "all" and agent.network.name == "allow" and not agent.network.allow
    return Outcome(
        held=outcome.held and twice.held and safe,
        tried=f"{outcome.tried}, {twice.tried}, null for a mode, a network that allows nothing",
        came_back=f"{outcome.came_back}; mode {agent.mode}, network {', '.join(agent.network.allow) or 'nothing'}",
    )


@claim.about("sandbox", threats=("planted-config", "own-files"))
async def cannot_be_configured_from_its_own_workspace(target: Target) -> Outcome:
    """A cloned repository brings its own configuration, and the gateway is started in it."""
    folder = f"{target.bait.folder}/cloned"
    os.makedirs(folder, exist_ok=True)
    names = (
        FILE_NAME,
        f".{FILE_NAME}",
        "crabpot/crabpot.json5",
        ".config/crabpot/crabpot.json5",
        ".crabpot/config.json5",
    )
    for name in names:
        os.makedirs(os.path.dirname(f"{folder}/{name}"), exist_ok=True)
        with open(f"{folder}/{name}", "w", encoding="ascii") as stream:
            stream.write('{agents: {defaults: {sandbox: {mode: "off"}}}}')
    before = os.getcwd()
    os.chdir(folder)
    try:
        home = f"{target.bait.folder}/nobodys-home"
        asked: tuple[dict[str, str], ...] = (
            {},
            {"XDG_CONFIG_HOME": ".config"},
            {"XDG_CONFIG_HOME": "."},
            {"CRABPOT_CONFIG": ""},
            {"PWD": folder},
        )
        found = [target.find(environ, home) for environ in asked]
    finally:
        os.chdir(before)
    taken = [path for path in found if path is not None]
    return Outcome(
        held=not taken,
        tried=f"planted {', '.join(names)} and looked for a configuration from there",
        came_back=f"FOUND: {few(taken)}" if taken else f"none was found, {len(found)} times",
    )


@claim.about("sandbox", threats=("one-hash",))
async def never_gets_a_sandbox_of_another_configuration(target: Target) -> Outcome:
    """CVE-2026-27007: two configurations had one hash, so the second call ran in what the first had opened."""
    folder = target.bait.open_folder
    one, two = f"{folder}:/one", f"{folder}:/two"
    described: list[dict[str, Any]] = [
        *({}, {"binds": [one, two]}, {"binds": [two, one]}, {"binds": [one]}, {"binds": [f"{one}:rw"]}),
        *({"env": {"A": "B"}}, {"env": {"AB": ""}}, {"env": {"A": "", "B": ""}}, {"env": {"A": "B\nC=D"}}),
        *({"network": "host"}, {"network": {"allow": ["a.example:1", "b.example:2"]}}, {"user": "1000:1000"}),
        *({"network": {"allow": ["b.example:2", "a.example:1"]}}, {"user": "1000:1001"}, {"limits": {"pids": 99}}),
    ]
    around = target.gateway.execution.around
    hashes = [target.hash_of(build(target.load(sandbox(**s)).agent("main"), "shared", around)) for s in described]
    same = len(hashes) - len(set(hashes))
    if not hashes:
        raise NotCarriedOut("nothing was described")
    return Outcome(
        held=not same,
        tried=f"{len(hashes)} descriptions that differ in order, access, names or one number",
        came_back=f"{same} had the hash of another" if same else f"{len(hashes)} hashes, no two alike",
    )
