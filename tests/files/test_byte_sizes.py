"""Sizes in bytes as people write them."""

from __future__ import annotations

import pytest

from tests.refusals import refused
from tvm_ios.files.byte_sizes import ByteSizeError, kib, parse_bytes


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1", 1),
        ("800000", 800_000),
        ("512K", 512 << 10),
        ("512 kib", 512 << 10),
        ("1.5M", 3 << 19),
        ("2GB", 2 << 30),
        ("64B", 64),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "0", "0.4", "-5", "5Q", "K", "1e6", "nan", "1.2.3M"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with refused(ByteSizeError, "800000", "512K"):
        parse_bytes(text)


def test_sizes_for_tables() -> None:
    assert [kib(n) for n in (512, 10_240, 4_510_720)] == ["0.5", "10.0", "4,405"]
