"""Sizes and durations as a configuration writes them, and the spelling of its keys."""

from __future__ import annotations

KIB, MIB, GIB = 1024, 1024**2, 1024**3
_LONGEST_SIZE = 32


def camel(name: str) -> str:
    """Return the configuration's key for a field's name."""
    head, *tail = name.split("_")
    return head + "".join(word.capitalize() for word in tail)


class Size(int):
    """A number of bytes, written as `512`, `"100m"` or `"2g"`."""

    UNITS = {"": 1, "k": KIB, "m": MIB, "g": GIB, "t": 1024 * GIB}  # noqa: RUF012  constant table of a leaf class

    @classmethod
    def parse(cls, value: object) -> Size:
        """Parse a written size, or raise ValueError with what would be right."""
        wrong = ValueError('must be a size such as 512, "100m" or "2g"')
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise wrong
        if isinstance(value, int):
            number, unit = str(value), ""
        else:
            # A longer number is not a size, and could be infinite as a float.
            text = value.strip().lower().removesuffix("b") if len(value) <= _LONGEST_SIZE else ""
            number, unit = (text[:-1], text[-1]) if text[-1:] in cls.UNITS and text[-1:] else (text, "")
        whole, _, fraction = number.partition(".")
        if not (number.isascii() and whole.isdigit() and (fraction.isdigit() or "." not in number)):
            raise wrong
        size = int(float(number) * cls.UNITS[unit]) if fraction else int(whole) * cls.UNITS[unit]
        if not 0 < size < 2**63:
            raise ValueError("must be a size above zero")
        return cls(size)

    def written(self) -> str:
        """Return the shortest text that `parse` reads as exactly this size."""
        unit = next(unit for unit in reversed(self.UNITS) if self % self.UNITS[unit] == 0)
        return f"{self // self.UNITS[unit]}{unit}"


class Duration(float):
    """A number of seconds, written as `90`, `"30s"`, `"10m"` or `"1h"`; 0 is none."""

    UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}  # noqa: RUF012  as above

    @classmethod
    def parse(cls, value: object) -> Duration:
        """Parse a written duration, or raise ValueError with what would be right."""
        text = str(value).strip().lower() if isinstance(value, int | float | str) else ""
        number, unit = (text[:-1], text[-1]) if text[-1:].isalpha() else (text, "")
        whole, _, fraction = number.partition(".")
        digits = whole.isdigit() and (fraction.isdigit() or "." not in number) and number.isascii()
        if isinstance(value, bool) or not digits or unit not in cls.UNITS or len(text) > _LONGEST_SIZE:
            raise ValueError('must be a duration such as 90, "30s", "10m" or "1h"; 0 is none')
        return cls(float(number) * cls.UNITS[unit])

    def written(self) -> str:
        """Return the shortest text that `parse` reads as exactly this duration."""
        unit = next(unit for unit in reversed(self.UNITS) if self % self.UNITS[unit] == 0) if self else ""
        return f"{self / self.UNITS[unit]:g}{unit}"
