"""LangChain's own suite for sandboxes, and a deep agent with a scripted model."""

from __future__ import annotations

import pytest
from langchain_tests.integration_tests.sandboxes import SandboxIntegrationTests

from crabpot.integrations.langchain import CrabpotSandbox

# Where the suite differs from the release of deepagents that it runs with: the newest BaseSandbox overwrites, and
# returns absolute paths from glob, whatever the provider.
SUITE = {
    "test_write_existing_file_fails": "deepagents 0.7 overwrites",
    "test_glob": "deepagents 0.7 returns absolute paths",
    "test_glob_basic_pattern": "as above",
    "test_glob_with_directories": "as above",
    "test_glob_hidden_files_explicitly": "as above",
    "test_glob_with_character_class": "as above",
    "test_glob_with_question_mark": "as above",
}


class TestSandbox(SandboxIntegrationTests):
    @pytest.fixture(scope="class")
    def sandbox(self, tmp_path_factory):
        with CrabpotSandbox(state=str(tmp_path_factory.mktemp("state"))) as made:
            yield made

    @pytest.fixture(autouse=True)
    def known(self, request):
        why = SUITE.get(request.node.originalname)
        if why is not None:
            request.node.add_marker(pytest.mark.xfail(reason=why, strict=True))

    @property
    def sandbox_root_dir(self) -> str:
        return "/workspace/tests"
