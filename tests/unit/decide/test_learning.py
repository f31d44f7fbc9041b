"""What a session's records propose: what was used, and nothing that was refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crabpot.decide.learning import learn
from crabpot.settings import AgentSettings, Elevated, Network, Pattern, Tools

S = "agent:main:main"


def call(tool="exec", place="sandbox", error=None, **args):
    return {
        "kind": "call",
        "session": S,
        "tool": tool,
        "place": place,
        "error": error,
        "args": args,
        "because": "every session is sandboxed",
        "rule": "default",
    }


def connection(destination, answer="allowed"):
    told = {"kind": "connection", "session": S, "destination": destination, "answer": answer}
    return {**told, "because": f"{destination} is not listed"}


def on_host(command):
    return {"kind": "intent", "session": S, "shown": command, "by": "operator"}


def agent(network="none", hosts=(), **tools):
    made = AgentSettings(id="main")
    sandbox = replace(made.sandbox, network=Network(name=network, allow=hosts))
    return replace(made, sandbox=sandbox, tools=Tools(**tools))


def proposed(records, settings):
    return {one.path.removeprefix("agents.entries.main."): one.value for one in learn(records, S, settings).proposals}


def test_the_tools_that_ran_are_the_whole_list():
    records = [call(), call("read"), call(), call("cron", place="none", error="not_found")]
    assert proposed(records, agent()) == {"tools.allow": ["exec", "read"]}


@pytest.mark.parametrize("tools", [{"profile": "coding"}, {"allow": ("exec", "read")}])
def test_a_list_that_would_narrow_nothing_is_not_proposed(tools):
    assert proposed([call()], agent(**tools)) == {}


def test_hosts_that_were_reached_replace_the_internet():
    records = [call(), connection("b.example:443"), connection("a.example:443"), connection("a.example:443")]
    found = proposed(records, agent("internet", profile="full"))
    assert found == {"sandbox.network": {"allow": ["a.example:443", "b.example:443"]}}


def test_a_host_that_a_person_allowed_is_added_to_the_list_and_a_listed_one_is_not():
    settings = agent("allow", ("a.example:443",), profile="full")
    assert proposed([call(), connection("a.example:443")], settings) == {}
    found = proposed([call(), connection("b.example:443")], settings)
    assert found == {"sandbox.network.allow": ["b.example:443"]}


def test_a_listed_host_that_was_not_used_is_left_out():
    settings = agent("allow", ("a.example:443", "b.example:443", "*.c.example"), profile="full")
    found = proposed([call(), connection("a.example:443")], settings)
    assert found == {"sandbox.network.allow": ["a.example:443"]}


def test_what_the_defaults_allow_is_neither_repeated_nor_taken_away_but_named():
    given = agent("allow", ("a.example:443", "b.example:443"), profile="full")
    settings = agent("allow", ("a.example:443", "b.example:443", "c.example:443"), profile="full")
    lesson = learn([call(), connection("a.example:443")], S, settings, given)
    assert [(one.path, one.value) for one in lesson.proposals] == [("agents.entries.main.sandbox.network.allow", [])]
    assert lesson.inherited == ("b.example:443",)
    again = learn([call(), connection("a.example:443")], S, given, given)
    assert again.proposals == ()


def test_no_connection_means_no_network():
    assert proposed([call()], agent("internet", profile="full")) == {"sandbox.network": "none"}


@pytest.mark.parametrize("answer", ["refused", "failed"])
def test_nothing_is_granted_that_was_not_used(answer):
    lesson = learn([call(), connection("evil.example:443", answer)], S, agent("internet", profile="full"))
    assert lesson.proposals == ()
    assert lesson.suspicious == (answer == "refused")


def test_a_refused_host_comes_with_the_change_that_would_allow_it_once():
    refused = [connection("x.example:443", "refused")] * 3
    (one,) = learn([call(), *refused], S, agent(profile="full")).refusals
    assert one.what == "a connection to x.example:443"
    assert one.change == ("agents.entries.main.sandbox.network", '{"allow": ["x.example:443"]}')


def test_a_wide_pattern_becomes_the_very_commands_that_ran_and_keeps_its_confinement():
    wide = Elevated(enabled=True, patterns=(Pattern(pattern="git push *", credentials=("ssh",)), "make *"))
    records = [call(), on_host("git push origin main"), on_host("make all")]
    found = proposed(records, agent(profile="full", elevated=wide))
    kept = {"pattern": "git push origin main", "credentials": ["ssh"]}
    assert found == {"tools.elevated.patterns": [kept, "make all"]}


@pytest.mark.parametrize("command", ["rm '*'", "echo 'two words'", "a; b", "x 'a?c'"])
def test_a_command_that_no_pattern_says_exactly_is_not_widened(command):
    elevated = Elevated(enabled=True, patterns=("rm *",))
    assert proposed([call(), on_host(command)], agent(profile="full", elevated=elevated)) == {}


def test_elevation_that_nobody_used_is_turned_off():
    elevated = Elevated(enabled=True, patterns=("make *",))
    assert proposed([call()], agent(profile="full", elevated=elevated)) == {"tools.elevated.enabled": False}


@pytest.mark.parametrize(
    ("error", "what"),
    [
        ("denied", "the tool exec"),
        ("approval_denied", "the command git push on the host"),
        ("memory_limit", "more than limits.memory allows"),
        ("timeout", "more than limits.timeLimit allows"),
    ],
)
def test_what_was_refused_is_told_and_makes_the_session_suspicious(error, what):
    lesson = learn([call(error=error, command="git push")], S, agent(profile="full"))
    assert [one.what for one in lesson.refusals] == [what]
    assert lesson.suspicious


def test_other_sessions_teach_nothing_and_withheld_records_are_told():
    other = {**call("read"), "session": "agent:main:other"}
    withheld = {"kind": "withheld", "agent": "main"}
    lesson = learn([call(), other, withheld], S, agent())
    assert (lesson.calls, lesson.incomplete) == (1, True)
    assert [one.value for one in lesson.proposals] == [["exec"]]
