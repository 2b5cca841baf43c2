"""What is multiplied next is fetched while other weights are multiplied."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm import tirx

from runtime_ext.cpu.compiler import KernelCompiler
from runtime_ext.cpu.forms.winograd.spec import WinogradInput, WinogradOutput
from runtime_ext.cpu.kernel_build import build_kernel
from runtime_ext.cpu.kernels.passes import Passes
from runtime_ext.kernels.code import Code
from runtime_ext.kernels.spec import Contraction
from runtime_ext.units.unit import UnitSource
from tests.fast_run import examples
from tests.kernels.kernel_harness import AVX512
from tests.units.unit_convolutions import convolution


class _Recorder(Code):
    """Notes the elements that are fetched, where all that they depend on are numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[int] = []

    def bind(self, name: str, value: Any) -> Any:
        return int(value)

    def fetch(self, buffer: Any, at: Any) -> None:
        self.elements.append(int(at))


@examples(60)
@given(
    steps=st.integers(1, 40),
    lines=st.integers(1, 12),
    count=st.integers(1, 9),
    run=st.integers(0, 3),
    first=st.integers(0, 9),
    dtype=st.sampled_from(["float32", "uint16", "int8"]),
)
def test_the_passes_fetch_all_of_the_next_run(
    steps: int, lines: int, count: int, run: int, first: int, dtype: str
) -> None:
    """Whichever pass is counted as the first, and nothing but it, but for a line of each share."""
    step = 16 * lines
    words = steps * step
    code = _Recorder()
    passes = Passes(tirx.decl_buffer((4,), dtype, "weights"), words, count)
    for nth in range(first, first + count):
        for at in range(run * words, (run + 1) * words, step):
            passes.fetch(code, run, nth, at, step)
    elements = {"float32": 16, "uint16": 32, "int8": 64}[dtype]
    begin = (run + 1) * words // 16
    fetched = Counter(at // elements - begin for at in code.elements)
    shares = min(count, lines)
    missing = set(range(words // 16)) - set(fetched)
    assert len(missing) <= (0 if lines % shares == 0 else shares)
    assert all(0 <= line < words // 16 + lines for line in fetched)


@pytest.mark.parametrize(
    ("image", "weight", "fetches"),
    [
        # 1 MiB of weights, and pixels in several register tiles.
        ((1, 512, 7, 7), (512, 512, 1, 1), True),
        # As many, but each is read once.
        ((1, 512, 1, 1), (512, 512, 1, 1), False),
        # They stay in a cache.
        ((1, 128, 14, 14), (128, 128, 1, 1), False),
    ],
)
def test_many_weights_are_fetched(image: Any, weight: Any, fetches: bool, tmp_path: Path) -> None:
    kernels = KernelCompiler(AVX512, 2, tmp_path)
    unit = kernels.compile({"u": _source(image, weight)})["u"]
    assert _fetches(kernels, unit.code.calls[0].symbol) == fetches


def test_weights_of_winograd_are_fetched_position_by_position(tmp_path: Path) -> None:
    kernels = KernelCompiler(AVX512, 2, tmp_path)
    source, name = _source((1, 64, 28, 28), (64, 64, 3, 3)), "winograd-4"
    unit = kernels.compile_rkernels({"u": source}, only={"u": name})["u"][name]
    assert [_fetches(kernels, call.symbol) for call in unit.code.calls] == [False, True]


def _source(image: Any, weight: Any) -> UnitSource:
    return UnitSource(convolution(image, weight), ("NHWC", "NHWC"))


def _fetches(kernels: KernelCompiler, symbol: str) -> bool:
    spec = kernels.workload(symbol)
    assert isinstance(spec, Contraction | WinogradInput | WinogradOutput)
    _, module = build_kernel(spec, "k", kernels.target, kernels.space.isa)
    return "prefetcht1" in module.inspect_source("asm")
