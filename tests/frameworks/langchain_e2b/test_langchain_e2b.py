"""The published langchain-e2b, as it is, through the E2B door: LangChain's own suite for sandboxes."""

from __future__ import annotations

import pytest
from e2b import Sandbox
from langchain_e2b import E2BSandbox
from langchain_tests.integration_tests.sandboxes import SandboxIntegrationTests


class TestSandbox(SandboxIntegrationTests):
    @pytest.fixture(scope="class")
    def sandbox(self):
        made = Sandbox.create(timeout=3000)
        yield E2BSandbox(sandbox=made)
        made.kill()

    @property
    def sandbox_root_dir(self) -> str:
        return "/home/user/tests"
