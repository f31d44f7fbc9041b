"""The sandboxes as doors show them: what is kept, joined with what lives."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace

from crabpot.doors import sandboxes
from crabpot.layers.store import LayerStore
from crabpot.sandboxes import private_folders
from crabpot.sandboxes.spares import PREFIX as SPARE
from crabpot.spec.build import build
from crabpot.spec.naming import sandbox_name
from tests.support.waiting import until


async def test_a_page_that_looks_often_misses_nothing_that_came_or_went(tmp_path, agent_of, around, monkeypatch):
    # Within one second.
    monkeypatch.setattr(sandboxes, "time", SimpleNamespace(time=time.time, monotonic=lambda: 0.0))
    state, folder = str(tmp_path / "state"), str(tmp_path)
    wanted: set[str] = set()
    kept = sandboxes.Kept(state)

    def shown() -> bool:
        found = kept.rows()
        # Until something comes or goes, it is known without reading anything.
        assert kept.known() is found
        return {row["scope_key"] for row in sandboxes.rows(found, [])} == wanted

    assert kept.known() is None

    assert shown()
    for number in range(20):
        spec = build(agent_of("{}"), f"agent:main:{number}", around)
        (await private_folders.hold(state, spec, "main")).release()
        wanted.add(spec.scope_key)
        await until(shown)
    layer = LayerStore(state).make(scope_key="agent:main:l", session="s", agent="main", folder=folder, mechanism="copy")
    wanted.add(layer.scope_key)
    await until(shown)
    # A spare is not shown, and changes nothing.
    found = kept.rows()
    other = build(agent_of("{}"), "agent:main:s", around)
    os.mkdir(f"{state}/{private_folders.FOLDER}/{SPARE}1")
    for name in ("1.json", "2.json"):
        (Path(state) / private_folders.FOLDER / f"{SPARE}{name}").write_text("{}")
        assert kept.known() is found
    assert kept.rows() is found
    (await private_folders.hold(state, other, "main")).release()
    wanted.add(other.scope_key)
    await until(shown)
    private_folders.remove(state, lambda kept: kept.scope_key == "agent:main:7")
    wanted.remove("agent:main:7")
    await until(shown)


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
