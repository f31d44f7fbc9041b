"""What every provider promises, kept by this one."""

from __future__ import annotations

from tests.frameworks.promises import Promises


class TestPromises(Promises):
    name = "openai_agents"
    kept = True
    at_once = ("a tool that is denied",)
