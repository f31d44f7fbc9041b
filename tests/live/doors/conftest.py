"""A real browser, which the tests of a file share: starting one takes longer than what most of them look at."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from playwright.async_api import async_playwright

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator

    from playwright.async_api import Browser

CHROMIUM = shutil.which("chromium")


@pytest.fixture(scope="module")
def browser(shared_loop: asyncio.Runner) -> Iterator[Browser]:
    """Chromium. What a test opens in it is a context of its own, which it closes."""
    if CHROMIUM is None:
        pytest.fail("chromium is needed: scripts/test-machine installs it")
    playwright = shared_loop.run(async_playwright().start())
    try:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        made = shared_loop.run(chromium)
        yield made
        shared_loop.run(made.close())
    finally:
        shared_loop.run(playwright.stop())
