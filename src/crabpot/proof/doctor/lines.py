"""What the doctor reports: one line per check, and the command that fixes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One check. A problem keeps sandboxes from opening or holding; a warning weakens them."""

    area: str
    name: str
    state: State
    says: str
    fix: str | None = None

    def as_json(self) -> dict[str, str | None]:
        """Return the JSON form that `doctor --json` prints."""
        return {"area": self.area, "name": self.name, "state": self.state, "says": self.says, "fix": self.fix}


def version_of(text: str) -> tuple[int, ...]:
    """Return the numbers that a version begins with: `1.1.5+ds1` is (1, 1, 5)."""
    numbers = []
    for part in text.removeprefix("v").split("."):
        digits = ""
        for char in part:
            if not char.isdigit():
                break
            digits += char
        if not digits:
            break
        numbers.append(int(digits))
        if digits != part:
            break
    return tuple(numbers)
