"""The register tiles of contractions are among the fastest that were measured."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime_ext.cpu.kernels.blocking import choose_blocking
from runtime_ext.isa.arm import NEON
from runtime_ext.isa.isa import Isa
from runtime_ext.isa.x86 import AVX, AVX512
from runtime_ext.kernels.cut import UNCUT
from runtime_ext.kernels.expression import ACC, Access
from runtime_ext.kernels.spec import Contraction, Statement, Window

AVX2 = replace(AVX, fuses=True)


@pytest.mark.parametrize(
    ("channels", "outputs", "pixels", "tiles"),
    [
        # Pixels by vectors, at most 7 % slower than the fastest of 20 on a Cascade Lake.
        (336, 336, 21 * 21, ["7x3", "8x3", "12x2", "13x2", "11x2"]),
        (616, 616, 14 * 14, ["8x3", "6x4", "7x3", "11x2", "10x2", "6x3", "13x2"]),
        (1008, 168, 42 * 42, ["11x2", "8x3", "6x4", "13x2", "10x2", "12x2"]),
        (4032, 672, 11 * 11, ["11x2", "13x2", "12x2", "14x2"]),
        (308, 308, 28 * 28, ["12x2", "7x2", "11x2", "10x2", "13x2", "7x3", "6x4", "8x2"]),
        (512, 1000, 13 * 13, ["8x3", "7x3", "11x2", "6x4", "5x5", "13x2", "10x2", "6x3"]),
        (64, 256, 56 * 56, ["5x4", "6x4"]),
        (1024, 256, 14 * 14, ["6x4", "5x4", "7x2"]),
        (512, 32, 14 * 14, ["14x2", "7x2", "7x3", "8x2"]),
    ],
)
def test_fast_tiles(channels: int, outputs: int, pixels: int, tiles: list[str]) -> None:
    blocking = choose_blocking(_product(channels, outputs, pixels), AVX512)
    assert f"{blocking.pixels}x{blocking.vectors}" in tiles


@given(
    st.integers(5, 2048),
    st.integers(1, 2048),
    st.integers(2, 4096),
    st.sampled_from([AVX2, AVX512, NEON]),
)
def test_tiles_fit_the_registers(channels: int, outputs: int, pixels: int, isa: Isa) -> None:
    blocking = choose_blocking(_product(channels, outputs, pixels), isa)
    data = blocking.pixels if isa.by_element else 1
    assert blocking.vectors * (blocking.pixels + 1) + data <= isa.registers


def _product(channels: int, outputs: int, pixels: int) -> Contraction:
    """A convolution with filters of one pixel."""
    window = Window((1, pixels), (1, pixels), (1, 1), (1, 1), (0, 0), (1, 1))
    data = Access(0, 0, (pixels * channels, pixels * channels, channels, 1))
    target = Access(2, 0, (pixels * outputs, pixels * outputs, outputs, 1))
    return Contraction(
        buffers=((1, pixels, channels), (1,), (1, pixels, outputs)),
        batch=1,
        window=window,
        channels=channels,
        groups=1,
        data=data,
        prologue=ACC,
        weight=1,
        parts=(outputs,),
        blocking=UNCUT,
        statements=(Statement(ACC, target, 0, outputs),),
    )
