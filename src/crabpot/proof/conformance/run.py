"""Every promise, and a way to check them all."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from crabpot.proof.conformance import (
    background,
    bounds,
    commands,
    connections,
    edits,
    files,
    operations,
    places,
    reviews,
    searches,
)
from crabpot.proof.conformance.promises import Broken

if TYPE_CHECKING:
    from crabpot.proof.conformance.harness import Harness
    from crabpot.proof.conformance.promises import Promise

CHAPTERS = (files, operations, edits, searches, commands, background, places, reviews, bounds, connections)

PROMISES: tuple[Promise, ...] = tuple(promise for chapter in CHAPTERS for promise in chapter.promise.promises)

_LONGEST_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """One promise after its check; `broken` says how, or is empty."""

    promise: Promise
    broken: str
    seconds: float


def applying(harness: Harness) -> tuple[Promise, ...]:
    """Return the promises that apply to this harness."""
    return tuple(promise for promise in PROMISES if not (promise.sandbox_only and harness.on_host))


async def check(promise: Promise, harness: Harness) -> Checked:
    """Check one promise; whatever goes wrong breaks it."""
    began = time.perf_counter()
    broken = ""
    try:
        async with asyncio.timeout(_LONGEST_S):
            await promise.check(harness)
    except Broken as error:
        broken = str(error)
    except TimeoutError:
        broken = f"not done within {_LONGEST_S:g} s"
    except Exception as error:  # noqa: BLE001  a backend that raises has broken its promise
        broken = f"{type(error).__name__}: {error}"
    return Checked(promise=promise, broken=broken, seconds=time.perf_counter() - began)
