"""Whatever stands in a configuration, it is refused as one, or every question about it has an answer."""

from __future__ import annotations

import asyncio
import copy
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crabpot.backends.registry import Registry
from crabpot.decide import check
from crabpot.decide.sessions import names_a_session
from crabpot.doors.cli import show
from crabpot.errors import ConfigError, Problem, SessionError
from crabpot.explain import Explainer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from crabpot.settings import Settings
    from crabpot.spec.binds import Surroundings


def one_of(*values: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(values)


def some(of: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    return st.lists(of, min_size=1, max_size=3, unique=True)


def objects(**keys: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries({}, optional=keys)


# What loads, alone or together: every key, and more than one kind of value for most.
RULES = one_of("exec", " READ", "bash", "group:runtime", "sessions_*", "a__b", "*", "write", "nothing*")
SIZES = one_of("2g", "100m", 2**30, "1.5t", "64MB")
PLACES = one_of("a.b", "A.b.:443", "*.x.y", "[::1]:1", "10.0.0.0/8", "127.0.0.1:80")
INJECT = st.fixed_dictionaries(
    {"host": PLACES, "header": one_of("X-Key"), "valueFrom": one_of({"env": "K"}, {"file": "/k"})}
)
SANDBOX = objects(
    mode=one_of("off", "non-main", "all"),
    scope=one_of("session", "agent", "shared"),
    workspaceAccess=one_of("none", "ro", "rw"),
    backend=one_of("auto", "bubblewrap", "docker"),
    network=one_of("none", "internet", "HOST", "bridge", "mynet", "nnoe")
    | objects(allow=some(PLACES), ask=st.booleans(), inject=st.lists(INJECT, max_size=2)),
    binds=some(one_of("/srv/a:/a", "/srv/b:/b:rw", "~/c:/c", "/srv/d/../e:/e/", "/opt:/opt:ro")),
    user=one_of("1000:1000", "5"),
    env=objects(LANG=one_of("C"), A_B=one_of("", "\u202e\x1b[2J")),
    limits=objects(
        memory=SIZES, cpus=one_of(1, 0.5), pids=one_of(8, 10**39), timeLimit=one_of(1), io=objects(read=SIZES)
    ),
    docker=objects(image=one_of("x:1"), seccomp=one_of("/srv/p.json"), apparmor=one_of("p"), setup=one_of("a\nb")),
    hostCommands=some(one_of("git", "docker", "sh", "python3.11")),
    warm=one_of(0, 5),
    prune=objects(idleHours=one_of(0.1), maxAgeDays=one_of(1)),
)
TOOLS = objects(
    profile=one_of("full", "coding", "messaging", "minimal"),
    allow=some(RULES),
    deny=some(RULES),
    extra=some(one_of("Weather", "a.b")),
    sandbox=objects(allow=some(RULES), deny=some(RULES)),
    elevated=objects(
        enabled=st.booleans(),
        patterns=st.lists(one_of("git push *", "*", "sh *", "", "a/b", "git * x?y/*", "ls [", "\u202e", "make")),
        requireApproval=st.booleans(),
        allowFrom=st.lists(one_of("me", ""), max_size=2),
        path=one_of("/bin:/usr/bin"),
        passEnv=some(one_of("A", "B_2")),
    ),
)
AGENT = objects(workspace=one_of("/srv/w", "~/w", "/srv/\x1b"), sandbox=SANDBOX, tools=TOOLS)
OWN = objects(
    agents=objects(defaults=objects(workspace=one_of("/srv/w"), sandbox=SANDBOX), entries=objects(ops=AGENT, X=AGENT)),
    tools=TOOLS,
    runner=objects(commands=some(one_of("git", "ls"))),
)
MOUNT = st.fixed_dictionaries(
    {"host": one_of("/srv/a"), "container": one_of("/a")}, optional={"mode": one_of("ro", "rw")}
)
MICLAW = objects(
    workspace=one_of("/srv/w"),
    sandbox=objects(
        enabled=st.booleans(),
        network=one_of("none", "bridge"),
        mounts=st.lists(MOUNT, max_size=1),
        host_commands=some(one_of("git")),
        docker=one_of({"user": "1:1"}),
    ),
    tools=TOOLS,
    agents=objects(list=st.lists(st.builds(lambda agent: {"id": "ops", **agent}, AGENT), max_size=1)),
)

# What is put in place of a value, or under another key, in a configuration that would have loaded.
ODD = one_of(
    *(None, True, 0, -1, 10**39, 0.5, 1e300, "", " ", "*", "a", "~", "/", "..", "\0", "\n", "\u202e", "\U0010ffff"),
    *("group:fs", "none", "0:0", "2g", "git *", [], {}, [[]], [None], [{}], {"": ""}, ["a", "a"], {"a": 1}, "x" * 5000),
    *("/etc:/e", "/:/x", "/srv:/usr", "/proc/self/root", "/a" * 3000, "container:x", "0.0.0.0/0", "[", ":", "a:b:c"),
    *("\u00e9.x", "unconfined", "9" * 40, "-1", "allow", "\u212aelvin", {"name": "x"}, {"id": "ops"}),
)
CHANGES = st.lists(st.tuples(st.integers(0, 500), ODD, st.booleans()), max_size=2)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])


def changed(written: dict[str, Any], changes: list[tuple[int, Any, bool]]) -> dict[str, Any]:
    made = copy.deepcopy(written)
    for position, odd, under_another_key in changes:
        places = list(_places(made))
        if not places:
            continue
        container, key = places[position % len(places)]
        if under_another_key and isinstance(container, dict):
            container[str(odd)[:20]] = container.pop(key)
        else:
            container[key] = copy.deepcopy(odd)
    return made


SESSIONS = one_of(
    "agent:main:main", "main", "agent:ops:x", "agent:OPS:main", "shared", "\n", "agent::", "a" * 500, "\udcff"
)
COMMANDS = one_of(
    None, "", "git push origin main", "git push; id", "ls", "sh -c x", "'", "\u202e", "\udcff", "a " * 900
)


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(written=st.builds(changed, OWN | MICLAW, CHANGES), key=SESSIONS, command=COMMANDS)
def test_no_configuration_ends_in_anything_but_an_answer_or_a_config_error(
    written: Any, key: str, command: str | None, load_text: Callable[..., Settings], around: Surroundings
) -> None:
    problems: tuple[Problem, ...] = ()
    try:
        _ask_everything(load_text(json.dumps(written)), key, command, around)
    except ConfigError as error:
        problems = error.problems
    except SessionError:
        assert not names_a_session(key)
    assert all(problem.file and problem.message for problem in problems)


@given(key=st.text(max_size=40), command=st.text(max_size=40))
def test_no_session_key_or_command_ends_in_anything_but_an_answer(
    key: str, command: str, load_text: Callable[..., Settings], around: Surroundings
) -> None:
    text = "{sandbox: {enabled: true, host_commands: ['git']}, tools: {elevated: {enabled: true, patterns: ['ls *']}}}"
    try:
        _ask_everything(load_text(text), key, command, around)
    except SessionError:
        assert not names_a_session(key)


def _ask_everything(loaded: Settings, key: str, command: str | None, around: Surroundings) -> None:
    explainer = Explainer(settings=loaded, around=around, registry=Registry({}))
    answer = asyncio.run(explainer.explain(key, command, sender=None))
    json.dumps(answer)
    lines = list(show.explanation([answer], explainer, colour=False))
    assert all(line.isprintable() for line in lines), "nothing from outside may move the cursor"
    found = check.check(replace(loaded, file=None), around)
    assert all(line.isprintable() for line in show.findings(found, None, colour=False))
