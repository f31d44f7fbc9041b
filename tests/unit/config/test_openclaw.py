"""What an openclaw.json means here, key by key, and what is left out."""

from __future__ import annotations

import json

import pytest

from crabpot.config.openclaw import translate


def left_out(document):
    return {one.path: one.because for one in translate(document).left_out}


def docker(**settings):
    return {"agents": {"defaults": {"sandbox": {"docker": settings}}}}


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ({"memory": "1g"}, {"limits": {"memory": "1g"}}),
        ({"cpus": 1.5}, {"limits": {"cpus": 1.5}}),
        ({"pidsLimit": 256}, {"limits": {"pids": 256}}),
        ({"setupCommand": "apt-get install -y git"}, {"docker": {"setup": "apt-get install -y git"}}),
        ({"image": "mine:1"}, {"docker": {"image": "mine:1"}}),
        ({"env": {"LANG": "C"}}, {"env": {"LANG": "C"}}),
        ({"network": "none", "user": "1000:1000"}, {"network": "none", "user": "1000:1000"}),
        ({"binds": ["/srv/ref:/ref:ro"]}, {"binds": ["/srv/ref:/ref:ro"]}),
        ({"ulimits": {"nofile": {"soft": 512, "hard": 1024}}}, {"limits": {"openFiles": 512}}),
        ({"ulimits": {"fsize": 1000}}, {"limits": {"fileSize": 1000}}),
        (
            {"seccompProfile": "/p.json", "apparmorProfile": "mine"},
            {"docker": {"seccomp": "/p.json", "apparmor": "mine"}},
        ),
    ],
)
def test_settings_of_docker_move_to_their_place(theirs, ours):
    made = translate(docker(**theirs))
    assert made.config == {"agents": {"defaults": {"sandbox": ours}}}
    assert made.left_out == []


@pytest.mark.parametrize(
    "key", ["memorySwap", "readOnlyRoot", "capDrop", "tmpfs", "workdir", "dns", "extraHosts", "containerPrefix"]
)
def test_what_has_no_setting_here_is_left_out_by_name_with_a_reason(key):
    assert left_out(docker(**{key: "x"}))[f"agents.defaults.sandbox.docker.{key}"]


def test_no_wall_is_lowered():
    made = translate(docker(readOnlyRoot=False, capDrop=[], memorySwap="8g"))
    assert made.config == {}
    assert len(made.left_out) == 3


def test_senders_are_named_with_their_channel_and_a_wildcard_lets_nobody_in():
    document = {"tools": {"elevated": {"enabled": True, "allowFrom": {"discord": ["1", "2"], "telegram": ["*"]}}}}
    made = translate(document)
    assert made.config["tools"]["elevated"] == {"enabled": True, "allowFrom": ["discord:1", "discord:2"]}
    assert "name the senders" in left_out(document)["tools.elevated.allowFrom.telegram"]


def test_tools_that_are_not_ours_are_declared_and_unknown_groups_are_left_out():
    document = {
        "tools": {"allow": ["exec", "canvas", "group:ui"], "alsoAllow": ["bash", "read"], "deny": ["nodes", "x_*"]}
    }
    made = translate(document)
    assert made.config["tools"] == {
        "extra": ["canvas", "nodes"],
        "deny": ["nodes", "x_*"],
        "allow": ["exec", "canvas", "bash", "read"],
    }
    assert list(left_out(document)) == ["tools.allow[2]"]


def test_a_list_of_agents_becomes_entries():
    listed = [
        {"id": "main", "default": True, "name": "Me"},
        {"id": "ops", "default": True, "sandbox": {"mode": "all"}},
        {},
    ]
    made = translate({"agents": {"list": listed}})
    assert made.config == {"agents": {"entries": {"main": {}, "ops": {"sandbox": {"mode": "all"}}}}}
    assert [one.path for one in made.left_out] == ["agents.list[0].name", "agents.list[1].default", "agents.list[2]"]


@pytest.mark.parametrize("document", [{}, {"agents": None}, {"agents": 7, "tools": []}, {"agents": {"list": [3]}}])
def test_odd_documents_give_an_empty_configuration(document):
    assert json.dumps(translate(document).config) == "{}"
