"""The E2B door of a gateway."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest

from crabpot.doors.e2b.door import E2bDoor
from tests.support.e2b import Api


@pytest.fixture
def api(door):
    @asynccontextmanager
    async def make(*config, **options):
        async with door(*config, **options) as made:
            yield Api(made, await E2bDoor(made.listeners).open())

    return make
