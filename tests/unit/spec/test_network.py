"""Which network: names and what they join, and places in the one form that is matched and dialled."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crabpot.settings import Inject, Network, ValueFrom
from crabpot.spec.network import canonical_place, describe, problem_with_header, problem_with_name, suspicion_about_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabpot.settings import AgentSettings

REFUSED_NAMES = [
    *(
        "container:abc",
        "Container:abc",
        "CONTAINER:ABC",
        "cOnTaInEr:",
        "container:",
        " container:x",
        "container :x",
        "container:x/y",
    ),
    *(
        "ns:/proc/1/ns/net",
        "*",
        "",
        " ",
        "host ",
        " host",
        "host\n",
        "my net",
        "-x",
        "--privileged",
        "a/b",
        "a:b",
        "default",
        "Default",
    ),
    *("n\u00f6ne", "\uff48ost", "x" * 129, "host\0", ".x", "_x", "a,b", "a;b"),
]


@pytest.mark.parametrize("name", REFUSED_NAMES)
def test_a_name_that_is_no_network_or_another_containers_is_refused(name: str) -> None:
    assert problem_with_name(name)


@pytest.mark.parametrize("name", ["container:abc", "CONTAINER:x", "Container:y"])
def test_joining_another_containers_network_is_refused_as_that(name: str, refused: Callable[[str], str]) -> None:
    message = refused(f"{{agents: {{defaults: {{sandbox: {{network: '{name}'}}}}}}}}")
    assert "agents.defaults.sandbox.network" in message
    assert "which no configuration allows" in message
    assert "which no configuration allows" in refused(f"{{sandbox: {{network: '{name}'}}}}")


KINDS = [
    ("none", "none", ""),
    ("internet", "internet", ""),
    ("host", "host", ""),
    ("bridge", "bridge", ""),
    ("HOST", "host", ""),
    ("None", "none", ""),
    ("my-net_1.x", "named", "my-net_1.x"),
    ("MyNet", "named", "MyNet"),
    ("containers", "named", "containers"),
]


@pytest.mark.parametrize(("name", "kind", "named"), KINDS)
def test_a_name_is_a_kind_or_one_of_dockers_own(name: str, kind: str, named: str) -> None:
    assert problem_with_name(name) is None
    spec = describe(Network(name=name))
    assert (spec.kind, spec.name) == (kind, named)


@pytest.mark.parametrize(
    ("name", "meant"), [("nnoe", "none"), ("intrnet", "internet"), ("Hosst", "host"), ("bridg", "bridge")]
)
def test_a_misspelt_keyword_is_suspected(name: str, meant: str) -> None:
    assert f'did you mean "{meant}"?' in str(suspicion_about_name(name))


@pytest.mark.parametrize("name", ["none", "HOST", "my-net", "frontend"])
def test_other_names_are_not_suspected(name: str) -> None:
    assert suspicion_about_name(name) is None


PLACES = [
    ("example.com", "example.com:80,443"),
    ("example.com:443", "example.com:443"),
    ("EXAMPLE.Com.:443", "example.com:443"),
    ("example.com:0443", "example.com:443"),
    ("*.example.com", "*.example.com:80,443"),
    ("xn--bcher-kva.example:1", "xn--bcher-kva.example:1"),
    ("_dmarc.x-y.z9:65535", "_dmarc.x-y.z9:65535"),
    ("localhost:8080", "localhost:8080"),
    ("127.0.0.1", "127.0.0.1:80,443"),
    ("10.1.2.3:22", "10.1.2.3:22"),
    ("10.0.0.0/8:443", "10.0.0.0/8:443"),
    ("10.0.0.0/8", "10.0.0.0/8:80,443"),
    ("[::1]:22", "[::1]:22"),
    ("[0:0::0:1]", "[::1]:80,443"),
    ("[2001:DB8::A]:1", "[2001:db8::a]:1"),
    ("[2001:db8::/32]:443", "[2001:db8::/32]:443"),
    ("[::ffff:127.0.0.1]:80", "127.0.0.1:80"),
    ("[::ffff:7f00:1]:80", "127.0.0.1:80"),
]


@pytest.mark.parametrize(("text", "canonical"), PLACES)
def test_a_place_has_one_form(text: str, canonical: str) -> None:
    assert canonical_place(text) == canonical


NO_PLACES = [
    *(
        "",
        ":",
        ":443",
        "*",
        "*:443",
        "*.",
        "a.*.b",
        "*a.b",
        "a*",
        "**.b",
        ".",
        "..",
        "a..b",
        ".a",
        "a.b..",
        "-a.b",
        "a-.b",
        "a b",
        "a_b .c",
    ),
    *(
        "a.b:",
        "a.b:0",
        "a.b:65536",
        "a.b:-1",
        "a.b:+1",
        "a.b: 1",
        "a.b:1 ",
        "a.b:http",
        "a.b:\u0664\u0664\u0663",
        "a.b:1:2",
        "a.b:443\n",
        "a.b:" + "9" * 5000,
    ),
    *(
        "http://a.b",
        "https://a.b:443",
        "a.b/path",
        "user@a.b",
        "a.b?x",
        "a.b#c",
        "a.b\0",
        "a.b\n",
        " a.b",
        "a.b ",
        "a.b\u200b",
        "\u0430.b",
    ),
    *(
        "b\u00fccher.example",
        "\uff41.b",
        "a\u3002b",
        "127.1",
        "0177.0.0.1",
        "0x7f.1",
        "0x7f000001",
        "2130706433",
        "127.0.0.1.",
        "1.2.3.4.5",
    ),
    *(
        "256.1.1.1",
        "1.2.3",
        "a.0x7f",
        "a.1",
        "127.0.0.01",
        "\uff11\uff12\uff17.0.0.1",
        "::1",
        "::1:80",
        "[::1",
        "[::1]80",
        "[]:1",
        "[a]:1",
    ),
    *(
        "[fe80::1%eth0]:1",
        "[::1%x y]:1",
        "10.0.0.1/8",
        "10.0.0.0/33",
        "0.0.0.0/0",
        "[::/0]:443",
        "a.b/8",
        "x" * 64 + ".b",
        ("a." * 130) + "b",
    ),
]


@pytest.mark.parametrize("text", NO_PLACES)
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        canonical_place(text)


def test_a_place_that_is_refused_is_named_by_its_path(refused: Callable[[str], str]) -> None:
    message = refused("{agents: {defaults: {sandbox: {network: {allow: ['a.b', '*']}}}}}")
    assert "agents.defaults.sandbox.network.allow[1]" in message
    assert 'write network: "internet"' in message


@given(st.text(max_size=20) | st.from_regex(r"[a-z0-9.*:\[\]/%x-]{1,20}", fullmatch=True))
def test_a_place_is_lower_case_ascii_and_nothing_else_is_ever_raised(text: str) -> None:
    try:
        place = canonical_place(text)
    except ValueError:
        return
    assert place.isascii()
    assert place == place.lower() == place.strip()
    assert canonical_place(place.replace(":80,443", "")) == place


def test_an_empty_list_of_places_is_nothing_and_not_everything(agent_of: Callable[..., AgentSettings]) -> None:
    for text in ("{allow: []}", "{}", "{allow: null}", "{ask: false}"):
        spec = describe(agent_of(f"{{agents: {{defaults: {{sandbox: {{network: {text}}}}}}}}}").sandbox.network)
        assert (spec.kind, spec.allow) == ("allow", ())


def test_a_raw_place_is_checked_like_any_other(refused: Callable[[str], str]) -> None:
    assert describe(Network(name="allow", raw=("DB.example.:5432",))).raw == ("db.example:5432",)
    message = refused("{agents: {defaults: {sandbox: {network: {raw: ['*']}}}}}")
    assert "agents.defaults.sandbox.network.raw[0]" in message
    assert "every host" in message


def test_places_and_injected_hosts_are_described_in_their_one_form() -> None:
    rule = Inject(host="API.example.com.:80", header="X-Key", value_from=ValueFrom(env="KEY"))
    spec = describe(Network(name="allow", allow=("B.example.", "a.example:1"), ask=True, inject=(rule,)))
    assert spec.allow == ("b.example:80,443", "a.example:1")
    assert [rule[:2] for rule in spec.inject] == [("api.example.com:80", "X-Key")]
    assert spec.ask
    assert "KEY" not in repr(spec), "where the secret comes from is the gateway's to know"


INJECT = [
    ("{host: 'a.b', header: 'X', valueFrom: {}}", "inject[0].valueFrom", "exactly one"),
    ("{host: 'a.b', header: 'X', valueFrom: {env: 'A', file: '/b'}}", "inject[0].valueFrom", "exactly one"),
    ("{host: '*', header: 'X', valueFrom: {env: 'A'}}", "inject[0].host", "every host"),
    (
        "{host: 'a.b', header: 'X: y\\r\\nZ', valueFrom: {env: 'A'}}",
        "inject[0].header",
        "cannot be the name of a header",
    ),
    ("{host: 'a.b', header: '', valueFrom: {env: 'A'}}", "inject[0].header", "cannot be the name of a header"),
    ("{header: 'X', valueFrom: {env: 'A'}}", "inject[0]", '"host" is missing'),
    ("{host: 'a.b', header: 'X', value: 'secret'}", "inject[0].value", "unknown key"),
]


@pytest.mark.parametrize(("rule", "path", "said"), INJECT)
def test_an_injected_header_is_checked(rule: str, path: str, said: str, refused: Callable[[str], str]) -> None:
    message = refused(f"{{agents: {{defaults: {{sandbox: {{network: {{inject: [{rule}]}}}}}}}}}}")
    assert f"agents.defaults.sandbox.network.{path}" in message
    assert said in message


@pytest.mark.parametrize("header", ["Authorization", "x-api-key", "A"])
def test_an_ordinary_header_is_no_problem(header: str) -> None:
    assert problem_with_header(header) is None


@pytest.mark.parametrize(
    ("rule", "allow", "told"),
    [
        ({"host": "a.example"}, ["a.example:443"], "an encrypted request is not changed without tls"),
        ({"host": "a.example:443"}, ["a.example"], "an encrypted request is not changed without tls"),
        ({"host": "b.example"}, ["a.example"], "not listed for plain HTTP"),
        ({"host": "*.example"}, ["*.example"], "a secret is for one host"),
        ({"host": "a.example", "valueFrom": {"file": "token"}}, ["a.example"], "must be an absolute path"),
        ({"host": "a.example", "valueFrom": {"file": "/srv/ws/token"}}, ["a.example"], "which a sandbox may write"),
        ({"host": "a.example", "valueFrom": {}}, ["a.example"], "exactly one of"),
        ({"host": "a.example", "header": "X: y"}, ["a.example"], "cannot be the name of a header"),
    ],
)
def test_a_secret_that_could_not_be_added_or_kept_is_an_error(refused, rule, allow, told) -> None:
    whole = {"header": "X-Key", "valueFrom": {"env": "KEY"}, **rule}
    sandbox = {"workspace": "rw", "network": {"allow": allow, "inject": [whole]}}
    defaults = {"workspace": "/srv/ws", "sandbox": sandbox}
    assert told in refused(json.dumps({"agents": {"defaults": defaults}}))


def test_a_secret_for_plain_http_to_a_listed_host_loads(agent_of) -> None:
    for allow in (["a.example"], ["*.example:80"], ["a.example:8080"]):
        port = ":8080" if "8080" in allow[0] else ""
        rule = {"host": f"a.example{port}", "header": "X-Key", "valueFrom": {"file": "~/token"}}
        network = {"allow": allow, "inject": [rule]}
        agent = agent_of(json.dumps({"agents": {"defaults": {"sandbox": {"network": network}}}}))
        assert agent.sandbox.network.inject[0].value_from.file == "~/token"
