"""Small files of the kernel's, in /proc, /sys and control groups: read as text, written in one piece."""

from __future__ import annotations

import os


def read(path: str) -> str:
    """Return a kernel file as text, or "" if there is none."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def write(path: str, value: str) -> None:
    """Write a setting in one piece, as the kernel requires."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, value.encode())
    finally:
        os.close(fd)
