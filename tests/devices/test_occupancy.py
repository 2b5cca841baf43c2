"""How many blocks fit, against figures that NVIDIA's occupancy calculator gives."""

from __future__ import annotations

import pytest

from tests.refusals import refused
from tvm_ios.devices.device import load_device
from tvm_ios.devices.occupancy import (
    Footprint,
    OccupancyError,
    multiprocessor_of,
    require_resident,
    resident_blocks,
)


@pytest.mark.parametrize(
    ("device", "threads", "registers", "shared_bytes", "blocks"),
    [
        ("h200", 128, 32, 0, 16),  # threads
        ("h200", 32, 16, 0, 32),  # blocks
        ("h200", 128, 128, 0, 4),  # registers
        ("h200", 128, 66, 0, 7),  # registers in pieces: 72 a thread
        ("h200", 1024, 64, 0, 1),
        ("h200", 1024, 65, 0, 0),  # does not fit at all
        ("h200", 128, 32, 48 * 1024, 4),  # shared memory and a kilobyte of each block
        ("h200", 128, 32, 227 * 1024, 1),
        ("h200", 128, 32, 228 * 1024, 0),
        ("a100", 128, 32, 48 * 1024, 3),
        ("v100", 128, 32, 48 * 1024, 2),
        ("v100", 33, 16, 0, 32),
        ("rtx2080ti", 128, 32, 0, 8),  # threads
        ("rtx2080ti", 32, 32, 0, 16),  # blocks
        ("rtx2080ti", 128, 32, 32 * 1024, 2),
        ("k80", 128, 32, 0, 16),
        ("k80", 128, 128, 0, 8),  # twice the registers
        ("k80", 128, 32, 48 * 1024, 2),
        ("k80", 128, 32, 49 * 1024, 0),
    ],
)
def test_known_occupancies(
    device: str, threads: int, registers: int, shared_bytes: int, blocks: int
) -> None:
    of = multiprocessor_of(load_device(device))
    assert resident_blocks(Footprint(threads, registers, shared_bytes), of) == blocks


def test_blocks_that_would_never_begin_are_refused() -> None:
    footprint = Footprint(128, 128, 0)
    require_resident("k", 528, footprint, load_device("h200"))
    with refused(OccupancyError, "'k'", 529, "h200", 528):
        require_resident("k", 529, footprint, load_device("h200"))
    with refused(OccupancyError, "'cpu'", "'multiprocessor'"):
        require_resident("k", 1, footprint, load_device("cpu"))
