"""Pending requests as JSON: each is spelled once, however often the list of all of them is sent."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabpot.approvals.requests import Request


class Spelling:
    """Spells lists of requests in one form. One agent may have hundreds waiting, and every change sends them all."""

    def __init__(self, form: Callable[[Request], dict[str, Any]]) -> None:
        self._form = form
        self._spelled: dict[str, tuple[Request, str]] = {}
        self._last: tuple[list[Request], str] | None = None

    def of(self, pending: list[Request]) -> str:
        """Return `{"requests": […]}`, and forget whatever is not in it."""
        if self._last is None or self._last[0] != pending:
            self._spelled = {one.id: self._one(one) for one in pending}
            text = f'{{"requests": [{", ".join(text for _, text in self._spelled.values())}]}}'
            self._last = pending, text
        return self._last[1]

    def _one(self, request: Request) -> tuple[Request, str]:
        known = self._spelled.get(request.id)
        # The same request, and not only the same id: what is shown is what is answered.
        return known if known is not None and known[0] is request else (request, json.dumps(self._form(request)))
