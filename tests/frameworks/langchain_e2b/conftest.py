"""The SDKs find the door by the environment alone."""

from __future__ import annotations

import pytest

from tests.frameworks.e2b_door import started


@pytest.fixture(scope="session", autouse=True)
def environment(tmp_path_factory):
    state = tmp_path_factory.mktemp("e2b") / "state"
    with started(state):
        yield state
