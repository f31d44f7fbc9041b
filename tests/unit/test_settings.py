"""Sizes, keys, and the defaults of the contract."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crabpot.settings import GIB, KIB, MIB, RUNNER_COMMANDS, AgentSettings, Limits, Sandbox, Settings, Size, camel

SIZES = [
    (512, 512),
    ("512", 512),
    ("1k", KIB),
    ("100m", 100 * MIB),
    ("2g", 2 * GIB),
    ("2G", 2 * GIB),
    ("2gb", 2 * GIB),
    (" 2GB ", 2 * GIB),
    ("1.5g", 3 * GIB // 2),
    ("0.5k", 512),
    ("1t", 1024 * GIB),
    ("7b", 7),
    (2**63 - 1, 2**63 - 1),
]


@pytest.mark.parametrize(("written", "size"), SIZES)
def test_a_size_is_read(written: object, size: int) -> None:
    assert Size.parse(written) == size


@pytest.mark.parametrize(
    "written",
    [
        *(
            "",
            " ",
            "b",
            "g",
            "2x",
            "2 g",
            "g2",
            "-1",
            "+1",
            "1e3",
            "1.",
            ".5",
            "1.2.3",
            "0x10",
            "1_000",
            "2gg",
            "inf",
            "nan",
        ),
        *(
            "\uff12g",
            "\u0662g",
            "1.\u0663g",
            "1.\u00b2",
            "1" * 400 + ".5",
            "9" * 5000,
            0,
            "0",
            "0g",
            "0.0001",
            -1,
            2**63,
            "8388608t",
        ),
        *(True, False, None, 1.5, [], {}, b"2g"),
    ],
)
def test_what_is_no_size_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match="must be a size"):
        Size.parse(written)


@given(st.integers() | st.text(max_size=40) | st.floats() | st.none() | st.booleans())
def test_a_size_is_a_positive_number_of_bytes_or_a_value_error(written: object) -> None:
    try:
        assert 0 < Size.parse(written) < 2**63
    except ValueError:
        return


@pytest.mark.parametrize(
    ("name", "key"),
    [("mode", "mode"), ("time_limit", "timeLimit"), ("memory_reservation", "memoryReservation"), ("ssh_key", "sshKey")],
)
def test_a_fields_name_is_the_key_in_snake_case(name: str, key: str) -> None:
    assert camel(name) == key


def test_the_defaults_are_those_of_the_contract() -> None:
    sandbox = Sandbox()
    assert (sandbox.mode, sandbox.scope, sandbox.workspace, sandbox.backend) == ("all", "session", "none", "auto")
    assert (sandbox.network.name, sandbox.user, sandbox.warm) == ("none", None, 0)
    assert (sandbox.prune.idle_hours, sandbox.prune.max_age_days) == (24, 7)
    assert (sandbox.docker.image, sandbox.docker.seccomp) == ("crabpot-sandbox:latest", "default")
    limits = Limits()
    assert (limits.memory, limits.cpus, limits.pids) == (2 * GIB, 2, 100)
    assert (limits.time_limit, limits.time_ceiling) == (60, 3600)
    assert (limits.output, limits.tmp, limits.file_size, limits.disk) == (MIB, 100 * MIB, GIB, 10 * GIB)
    assert limits.open_files == 1024
    elevated = AgentSettings(id="x").tools.elevated
    assert (elevated.enabled, elevated.require_approval, elevated.approval_timeout) == (False, True, 300)
    assert " ".join(RUNNER_COMMANDS) == "git cat ls mkdir cp mv rm diff jq"


def test_an_agent_without_an_entry_has_the_defaults_under_its_own_name() -> None:
    settings = Settings(entries={"ops": AgentSettings(id="ops", workspace="/srv/ops")})
    assert settings.agent("ops").workspace == "/srv/ops"
    assert settings.agent("other") == AgentSettings(id="other")


def test_a_value_that_is_nowhere_written_is_a_default() -> None:
    agent = AgentSettings(id="x", sources={"tools.deny[0]": "tools.deny[0]"})
    assert (agent.source("tools.deny[0]"), agent.source("tools.profile")) == ("tools.deny[0]", "default")
