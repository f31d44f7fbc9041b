"""A workspace and a second root, reached in both ways: by openat2, and by the walk that old kernels need."""

from __future__ import annotations

import pytest

from crabpot.runner.files import file_tools


@pytest.fixture(params=[True, False], ids=["openat2", "walk"])
def ctx(request, tmp_path):
    workspace, agent = tmp_path / "workspace", tmp_path / "agent"
    workspace.mkdir()
    agent.mkdir()
    context = file_tools.Context(str(workspace), (str(workspace), str(agent)), kernel=request.param)
    yield context
    context.close()


@pytest.fixture
def ws(ctx, tmp_path):
    return tmp_path / "workspace"
