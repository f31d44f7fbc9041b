"""How many of something there are."""

from __future__ import annotations

import pytest

from crabpot.counting import counted


@pytest.mark.parametrize(("number", "said"), [(0, "0 warnings"), (1, "1 warning"), (2, "2 warnings")])
def test_one_of_something_is_not_called_many(number: int, said: str) -> None:
    assert counted(number, "warning") == said
