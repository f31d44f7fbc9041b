"""The sandboxes as doors show them: what is kept, joined with what lives."""

from __future__ import annotations

from crabpot.doors import sandboxes
from crabpot.spec.naming import sandbox_name


def test_a_live_one_that_keeps_nothing_has_a_row_and_no_agent():
    live = {"scope_key": "agent:main:a", "place": "sandbox", "started": 1.0, "used": 2.0, "busy": 1, "limits": None}
    (row,) = sandboxes.rows({}, [live, live | {"scope_key": "b", "place": "host"}], gateway=7)
    assert row == {
        "name": sandbox_name("agent:main:a"),
        "scope_key": "agent:main:a",
        "agent": None,
        "created": 1.0,
        "used": None,
        "state": "live",
        "started": 1.0,
        "busy": 1,
        "limits": None,
        "gateway": 7,
    }
