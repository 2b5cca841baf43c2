"""Large weights meet one region of the data after another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm import tirx

from runtime_ext.cpu.compiler import KernelCompiler
from runtime_ext.cpu.kernels.contraction import plan_tiles
from runtime_ext.cpu.kernels.tile_code import TileCode, regions
from runtime_ext.isa.x86 import AVX512
from runtime_ext.kernels.spec import Contraction
from runtime_ext.units.unit import UnitSource
from tests.cpu.test_winograd import check_forms, conv
from tests.fast_run import examples
from tests.kernels.kernel_harness import AVX512 as AVX512_TARGET
from tests.kernels.kernel_harness import check
from tests.units.unit_convolutions import convolution


class _Numbers(TileCode):
    """Of a tile that is a number, so that all that depends on it is."""

    def __init__(self) -> None:
        super().__init__([], AVX512)

    def bind(self, name: str, value: Any) -> Any:
        return int(value)


@examples(80)
@given(blocks=st.integers(1, 5), groups=st.integers(1, 20), worth=st.floats(0, 40))
def test_the_tiles_are_all_pairs_in_order(blocks: int, groups: int, worth: float) -> None:
    count = regions(worth, groups)
    most = -(-groups // count)
    place = _Numbers().block_and_group
    tiles = [place(tirx.IntImm("int32", t), blocks, groups, count) for t in range(blocks * groups)]
    order = [(int(block), int(group)) for block, group in tiles]
    pairs = [(block, group) for block in range(blocks) for group in range(groups)]
    assert order == sorted(pairs, key=lambda pair: (pair[1] // most, *pair))


@pytest.mark.parametrize(
    ("worth", "groups", "count"),
    [(0.4, 14, 1), (1.9, 14, 1), (2.0, 14, 2), (7.9, 14, 4), (99.0, 99, 16), (8.0, 3, 3)],
)
def test_there_are_as_many_as_are_worth_it(worth: float, groups: int, count: int) -> None:
    assert regions(worth, groups) == count


@pytest.mark.parametrize(
    ("image", "weight", "count"),
    [
        # Seven rows of fifteen are the second region.
        ((1, 96, 17, 16), (160, 96, 3, 3), 2),
        # Of all images.
        ((3, 384, 10, 10), (320, 384, 1, 1), 2),
        # Too few pixels to hide that all weights are read twice.
        ((1, 384, 10, 10), (320, 384, 1, 1), 1),
        # Weights that stay in a cache: each row meets all.
        ((1, 32, 17, 16), (64, 32, 3, 3), 15),
    ],
)
def test_convolutions(image: Any, weight: Any, count: int, tmp_path: Path) -> None:
    function = convolution(image, weight)
    check(str(tmp_path), function, ("NHWC", "NHWC"))
    kernels = KernelCompiler(AVX512_TARGET, 2, tmp_path)
    unit = kernels.compile({"u": UnitSource(function, ("NHWC", "NHWC"))})["u"]
    spec = kernels.workload(unit.code.calls[0].symbol)
    assert isinstance(spec, Contraction)
    assert plan_tiles(spec, kernels.space.isa).regions == count


def test_winograd(tmp_path: Path) -> None:
    check_forms(str(tmp_path), conv((1, 48, 30, 30), 160), ("NHWC", "NHWC"))
