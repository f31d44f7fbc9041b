"""`mcp.servers`: what loads, and what is refused with its line, its path and what would be right."""

from __future__ import annotations

import pytest

from crabpot.config.load import from_text
from crabpot.decide import placement, servers, sessions
from crabpot.errors import ConfigError
from crabpot.spec.binds import Surroundings

AROUND = Surroundings(home="/home/x", state="/home/x/.local/state/crabpot")


def load(servers_: str, more: str = ""):
    return from_text(f"{{{more} mcp: {{servers: {servers_}}}}}", "c.json5", AROUND, {})


def test_a_server_has_no_network_unless_it_is_written():
    settings = load('{FS: {command: ["npx", "x"], tools: {allow: ["read_*"]}}}')
    assert settings.mcp.servers["fs"].sandbox.network.name == "none"
    acting = servers.acting("fs", settings, settings.defaults)
    assert (acting.id, acting.sandbox.network.name) == ("main", "none")


def test_every_key_of_the_blueprint_loads():
    text = """{all: {command: ["npx", "x"], env: {A: "1"}, secrets: ["GITHUB_TOKEN", "K@api.example.com", {env: "E", host: "h.example"}],
      sandbox: {network: {allow: ["a.example:443"]}, workspace: "rw", limits: {pids: 50}}, tools: {allow: ["a"], deny: ["b"]},
      resources: false, prompts: false, sampling: false}, far: {url: "https://mcp.example.com/mcp", secrets: ["KEY"]}}"""
    settings = load(text)
    acting = servers.acting("all", settings, settings.defaults)
    assert acting.sandbox.env == {"A": "1"}
    assert acting.sandbox.network.allow == (
        "a.example:443",
        "api.github.com:443",
        "api.example.com:443",
        "h.example:443",
    )
    far = servers.acting("far", settings, settings.defaults)
    assert far.sandbox.network.allow == ("mcp.example.com:443",)
    assert [one.host for one in servers.secrets_of(settings.mcp.servers["far"])] == ["mcp.example.com:443"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{fs: {command: ["docker", "run", "-i", "x"]}}', 'fs.command: "docker run …" is refused'),
        ('{fs: {command: ["/usr/bin/podman", "run"]}}', "is refused"),
        ('{fs: {comand: ["x"]}}', 'did you mean "command"'),
        ("{fs: {}}", "needs either a command, as a list of words, or a url"),
        ('{fs: {command: ["x"], url: "https://a.example"}}', "needs either"),
        ("{fs: {command: []}}", "begins with a program"),
        ('{fs: {command: "npx x"}}', "must be a list, not a string"),
        ('{a__b: {command: ["x"]}}', "a server's name has letters"),
        ('{"../x": {command: ["x"]}}', "a server's name has letters"),
        ('{A: {command: ["x"]}, a: {command: ["x"]}}', "another server has this name"),
        ('{fs: {url: "http://a.example/mcp"}}', "must begin with https://"),
        ('{fs: {url: "https://u:p@a.example/mcp"}}', "has a password in it"),
        ('{fs: {command: ["x"], sandbox: {mode: "off"}}}', "never runs on the host"),
        ('{fs: {command: ["x"], sandbox: {hostCommands: ["git"]}}}', "no commands on the host"),
        ('{fs: {command: ["x"], sandbox: {binds: ["/etc:/x"]}}}', "fs.sandbox.binds[0]"),
        ('{fs: {command: ["x"], tools: {allow: []}}}', "an empty allow"),
        ('{fs: {command: ["x"], secrets: ["KEY"]}}', 'Write "KEY@api.example.com"'),
        ('{fs: {command: ["x"], env: {"A B": "1"}}}', "cannot be the name of a variable"),
        ('{fs: {url: "https://a.example/mcp", env: {A: "1"}}}', "fs.env: a remote server has no environment here"),
        ('{fs: {url: "https://a.example/mcp", sandbox: {network: "internet"}}}', "is reached at its url alone"),
        (
            '{fs: {url: "https://a.example/mcp", secrets: ["K@b.example"]}}',
            "K is for another host than the server's url",
        ),
        ("[1]", "must be an object, not a list"),
    ],
)
def test_what_cannot_work_is_refused(text, said):
    with pytest.raises(ConfigError) as caught:
        load(text)
    assert said in str(caught.value)


def test_a_server_has_a_sandbox_for_each_scope_key_and_no_session_can_be_called_like_it():
    settings = load('{fs: {command: ["x"]}, one: {command: ["x"], sandbox: {scope: "shared"}}}')
    session = sessions.parse("agent:ops:a")
    agent = settings.agent("ops")
    assert servers.place("fs", session, agent, settings).answer.scope_key == "server:fs:agent:ops:a"
    assert servers.place("one", session, agent, settings).answer.scope_key == "server:one:shared"
    disguised = placement.decide(sessions.parse("server:fs:agent:ops:a"), agent)
    assert disguised.answer.scope_key == "session:server:fs:agent:ops:a"
    assert servers.owner("fs__x", settings) == "fs"
    assert [servers.owner(name, settings) for name in ("fs__", "nobody__x", "fs", "exec")] == [None] * 4
