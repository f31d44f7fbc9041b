"""Which versions of a framework a module was made for: another one is refused by a sentence that names the range."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from crabpot.errors import UnsupportedFramework


def require(package: str, least: str, below: str, *, extra: str, install: str | None = None) -> None:
    """Raise UnsupportedFramework unless a version of `package` from `least` on, and below `below`, is installed.

    Args:
        package: The framework's name on PyPI.
        least: The first version.
        below: The first version that is none any more.
        extra: The extra of this package that installs it.
        install: What to run instead, where there can be no extra.
    """
    how = install or f"pip install 'crabpot[{extra}]'"
    wanted = f"{package} from {least}, below {below}: {how}"
    try:
        found = version(package)
    except PackageNotFoundError:
        raise UnsupportedFramework(f"{package} is not installed; this integration needs {wanted}") from None
    if not _parts(least) <= _parts(found) < _parts(below):
        raise UnsupportedFramework(f"{package} {found} is installed; this integration needs {wanted}")


def _parts(text: str) -> tuple[int, ...]:
    """Return the numbers of a version, up to the first part that is none."""
    numbers = []
    for part in text.split("."):
        digits = "".join(char for char in part if char.isdigit()) if part[:1].isdigit() else ""
        if not digits:
            break
        numbers.append(int(digits))
    return tuple(numbers)
