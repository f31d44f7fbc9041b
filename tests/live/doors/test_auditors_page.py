"""The report of a verification in a real browser: on a screen, on a phone and on paper."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from crabpot.backends.base import Clause
from crabpot.doors.cli.reports import auditors_page
from crabpot.proof.verify.claims import Claim, Finding, Outcome
from crabpot.proof.verify.judging import Fact
from crabpot.proof.verify.report import Report

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from playwright.async_api import Browser, Page

HASH = "0123456789abcdef" * 4


async def tries(_target: object) -> Outcome:
    """Why somebody would try."""
    raise NotImplementedError


def report() -> Report:
    claim = Claim(name="cannot_reach_the_network_of_the_host", group="network", attack=tries, threats=("environment",))
    came_back = Outcome(held=True, tried="a connection to every address", came_back="PermissionError " * 20)
    facts = ("limits.memoryReservation", "what the kernel keeps", "268435456 bytes", f"/sys/fs/cgroup/{HASH}")
    return Report(
        session="agent:main:telegram:42",
        backend="bubblewrap",
        spec_hash=HASH,
        clauses=(Clause(name="limits.memoryReservation", state="degraded", how="each process for itself"),),
        findings=(Finding(claim=claim, result=came_back, seconds=0.5),),
        facts=(Fact(clause=facts[0], what=facts[1], promised=facts[2], found=facts[3], state="degraded"),),
        seconds=1.0,
        version="0",
        config="/home/somebody/.config/crabpot/crabpot.json5",
        config_hash=HASH,
        lowered=(("memory", "2g", "256m"),),
    )


@asynccontextmanager
async def shown(browser: Browser, **options: Any) -> AsyncIterator[Page]:
    async with await browser.new_context(**options) as context:
        page = await context.new_page()
        await page.set_content(auditors_page.text(report()))
        yield page


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_it_fits_the_screen_and_breaks_no_word(browser: Browser, width: int, scheme: str) -> None:
    async with shown(browser, viewport={"width": width, "height": 740}, color_scheme=scheme) as page:
        assert await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        # A word that is broken has more than one rectangle.
        broken = await page.evaluate(
            """[...document.querySelectorAll("td:not(.long):not(.mono)")].filter(cell => {
                 const range = document.createRange();
                 range.selectNodeContents(cell);
                 return !/\\s/.test(cell.textContent) && range.getClientRects().length > 1;
               }).map(cell => cell.textContent)"""
        )
        assert broken == []


async def test_its_contents_lead_to_every_part(browser: Browser) -> None:
    async with shown(browser) as page:
        links = await page.locator("nav a").all()
        assert len(links) == 5
        for link in links:
            target = await link.get_attribute("href")
            assert target is not None
            assert await page.locator(target).count() == 1


async def test_on_paper_it_is_black_on_white_whatever_the_screen_is(browser: Browser) -> None:
    async with shown(browser, color_scheme="dark") as page:
        await page.emulate_media(media="print", color_scheme="dark")
        found = await page.evaluate(
            "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
        )
        assert found == ["rgb(0, 0, 0)", "rgb(255, 255, 255)"]
        assert not await page.locator("nav").is_visible()
