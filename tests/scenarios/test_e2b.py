"""`crabpot e2b`, which starts a gateway from whatever folder a person is in."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.program import Program


def test_it_starts_a_gateway_and_runs_nothing_of_the_current_folder(crabpot: Program, tmp_path: Path) -> None:
    planted = tmp_path / "crabpot"
    planted.mkdir()
    (planted / "__init__.py").write_text("")
    (planted / "__main__.py").write_text("import pathlib; pathlib.Path(__file__).with_name('ran').touch()")
    person = replace(crabpot, argv=(sys.executable, "-P", "-m", "crabpot"))
    try:
        ended = person("e2b", "--print-env", cwd=tmp_path)
    finally:
        person("serve", "stop")
    assert not (planted / "ran").exists()
    assert ended.code == 0, ended.err
    assert ended.out.startswith("export E2B_API_URL=http://127.0.0.1:")


def test_a_configuration_that_does_not_load_is_named(crabpot: Program) -> None:
    crabpot.configure("{toolz: 1}")
    ended = crabpot("e2b", "--print-env")
    assert ended.code == 2
    assert 'toolz: unknown key; did you mean "tools"?' in ended.said()


def test_a_word_that_names_no_agent_starts_nothing(crabpot: Program) -> None:
    ended = crabpot("e2b", "--print-env", "--agent", "ops:")
    assert ended.code == 2
    assert "cannot be an agent's id" in ended.err
    assert crabpot("serve", "stop").code == 1, "no gateway was started"
