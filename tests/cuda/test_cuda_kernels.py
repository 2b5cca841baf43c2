"""CUDA kernels of units, run thread by thread on the CPU, against what TVM computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from runtime_ext.cuda.compiler import GpuPrecision
from tests.cuda.cuda_harness import Bench, Unit
from tests.cuda.cuda_units import ARRANGED, FEW, QUICK, UNITS
from tests.fast_run import examples, only
from tests.units.unit_convolutions import convolution, shapes


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench({name: UNITS[name] for name in QUICK}, tmp_path_factory.mktemp("cuda"))


@pytest.mark.parametrize("name", QUICK)
def test_unit(name: str, bench: Bench) -> None:
    bench.check(name)


@pytest.mark.parametrize("precision", only(["tf32"], ["tf32", "float16"]))
def test_precisions(precision: GpuPrecision, tmp_path: Path) -> None:
    names = (*FEW, "softmax (2, 3, 5, 33)", "product (2, 3, 17, 33) (2, 3, 33, 20)")
    bench = Bench({name: UNITS[name] for name in names}, tmp_path, precision, only="default")
    assert any("mma.sync" in kernel.source for kernel in bench.kernels.values())
    for name in names:
        bench.check(name)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "tf32", "float16"])
def test_every_unit(precision: GpuPrecision, tmp_path: Path) -> None:
    """All kinds of units in all forms, also in the model's layouts and as slices."""
    every = {**UNITS, **ARRANGED}
    bench = Bench(every, tmp_path, precision)
    for name in every:
        bench.check(name)


@pytest.mark.slow
@examples(8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    cases=st.lists(shapes(), min_size=5, max_size=5),
    layout=st.sampled_from(["NHWC", ""]),
    precision=st.sampled_from(["float32", "float32", "tf32", "float16"]),
)
def test_random_convolutions(
    cases: list[dict[str, Any]],
    layout: str,
    precision: GpuPrecision,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    units = {str(i): Unit(convolution(**case), (layout, layout)) for i, case in enumerate(cases)}
    bench = Bench(units, tmp_path_factory.mktemp("cuda"), precision)
    for seed, name in enumerate(units):
        bench.check(name, seed)
