"""Sizes in bytes as people write them."""

from __future__ import annotations

import re

from tvm_ios.errors import UserError

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class ByteSizeError(UserError):
    """A text that is not a size in bytes."""


def parse_bytes(text: str) -> int:
    """Return the bytes of ``"800000"``, ``"512K"``, ``"1.5M"`` or ``"2GiB"``; K is 1024.

    Raise ByteSizeError if the text is none of these, or the size is below one byte.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMG]?)(?:I?B)?", text.strip().upper())
    size = 0 if match is None else int(float(match[1]) * _UNITS[match[2]])
    if size < 1:
        raise ByteSizeError(f"{text!r} is no size in bytes: write 800000, 512K, 1.5M or 2G")
    return size


def size_text(nbytes: int) -> str:
    """Return a size in MiB, or in KiB below one MiB, such as ``"8.54 MiB"``."""
    mib = nbytes / 2**20
    return f"{mib:.2f} MiB" if mib >= 1 else f"{kib(nbytes)} KiB"


def kib(nbytes: int) -> str:
    """Return a size in KiB for a table, such as ``"3,943"``; with one decimal below 100."""
    size = nbytes / 1024
    return f"{size:,.0f}" if size >= 100 else f"{size:.1f}"
