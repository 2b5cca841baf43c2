"""CUDA kernels of units, run thread by thread on the CPU, against what TVM computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import test_attention
import test_convolution
import test_other_kernels
import test_shuffle_and_resize
from cuda_harness import Bench, Unit
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_slices import sliced

from runtime_ext.cuda.compiler import Precision

IMAGES = {**test_other_kernels.CASES, **test_shuffle_and_resize.SHUFFLES}
#: One of each kind; the others are many more of the same.
QUICK = (
    "conv 1x1 odd",
    "conv 1x1 one pixel",
    "conv 1x1 many channels",
    "conv first layer",
    "conv grouped",
    "conv batch, 1x1",
    "conv residual",
    "conv depthwise",
    "conv swish",
    "transposed 3x3/2",
    "max ceil",
    "average",
    "merged",
    "separable",
    "padded output",
    "lrn by slices",
    "mean",
    "split",
    "of 3",
    "linear",
    "head",
    "softmax (2, 3, 5, 33)",
    "layer_norm (3, 4097)",
    "product (2, 3, 17, 33) (2, 3, 33, 20)",
)
#: Run with other layouts and precisions too.
FEW = (*QUICK[3:6], "conv depthwise", "merged", "linear", "of 3")


def units() -> dict[str, Unit]:
    found = {
        f"conv {name}": Unit(function, ("NHWC",) * tensors)
        for name, (function, tensors) in test_convolution.CASES.items()
    }
    found |= {
        f"transposed {name}": Unit(function, ("NHWC",) * 4)
        for name, function in test_convolution.TRANSPOSED.items()
    }
    found |= {
        name: Unit(function, ("NHWC",) * tensors) for name, (function, tensors, _) in IMAGES.items()
    }
    return found


def attention() -> dict[str, Unit]:
    """Rows of all lengths, and products of data with data."""
    rows = [(2, 3, 5, 33), (7, 200), (3, 4097)]
    made = {
        f"{make.__name__} {shape}": make(shape)
        for make in (test_attention.softmax, test_attention.layer_norm)
        for shape in rows
    }
    products = [((2, 3, 17, 33), (2, 3, 33, 20)), ((1, 5, 70, 64), (1, 5, 64, 49))]
    made |= {f"product {a} {b}": test_attention.product(a, b) for a, b in products}
    return {name: Unit(f, ("",) * tensors_of(f)) for name, f in made.items()}


def matrices() -> dict[str, Unit]:
    """Heads of networks, and operators that TVM's own kernels compute."""
    found: dict[str, Unit] = {}
    for name, (function, image, output) in test_other_kernels.OTHERS.items():
        others = int(function.attrs["num_input"]) - 1
        first = "NHWC" if image else ""
        found[name] = Unit(function, (first, *[""] * others, output))
    return found


def resizes() -> dict[str, Unit]:
    found: dict[str, Unit] = {}
    for mode, rounding in (("linear", ""), ("nearest_neighbor", "round_prefer_floor")):
        function = test_shuffle_and_resize.resized(
            (1, 20, 5, 7),
            (15, 14),
            fused=mode == "linear",
            method=mode,
            coordinate_transformation_mode="half_pixel",
            rounding_method=rounding,
        )
        found[mode] = Unit(function, ("NHWC", "NHWC"))
    return found


def in_other_layouts() -> dict[str, Unit]:
    """As the model has them, and in a range of the channels of wider tensors."""
    found: dict[str, Unit] = {}
    for name in FEW:
        unit = UNITS[name]
        orders = ("",) * len(unit.layouts)
        found[f"{name}, NCHW"] = Unit(unit.function, orders)
        found[f"{name}, sliced"] = Unit(unit.function, sliced(unit.function, unit.layouts))
    return found


def tensors_of(function: Any) -> int:
    return int(function.attrs["num_input"]) + 1


UNITS = {**units(), **attention(), **matrices(), **resizes()}
ARRANGED = in_other_layouts()


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench({name: UNITS[name] for name in QUICK}, tmp_path_factory.mktemp("cuda"))


@pytest.mark.parametrize("name", QUICK)
def test_unit(name: str, bench: Bench) -> None:
    bench.check(name)


@pytest.mark.parametrize("precision", ["tf32", "float16"])
def test_precisions(precision: Precision, tmp_path: Path) -> None:
    names = (*FEW, "softmax (2, 3, 5, 33)", "product (2, 3, 17, 33) (2, 3, 33, 20)")
    bench = Bench({name: UNITS[name] for name in names}, tmp_path, precision, only="default")
    assert any("mma.sync" in kernel.source for kernel in bench.kernels.values())
    for name in names:
        bench.check(name)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "tf32", "float16"])
def test_every_unit(precision: Precision, tmp_path: Path) -> None:
    """All kinds of units in all forms, also in the model's layouts and as slices."""
    every = {**UNITS, **ARRANGED}
    bench = Bench(every, tmp_path, precision)
    for name in every:
        bench.check(name)


@pytest.mark.slow
@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    cases=st.lists(test_convolution.shapes(), min_size=5, max_size=5),
    layout=st.sampled_from(["NHWC", ""]),
    precision=st.sampled_from(["float32", "float32", "tf32", "float16"]),
)
def test_random_convolutions(
    cases: list[dict[str, Any]],
    layout: str,
    precision: Precision,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    units = {
        str(i): Unit(test_convolution.convolution(**case), (layout, layout))
        for i, case in enumerate(cases)
    }
    bench = Bench(units, tmp_path_factory.mktemp("cuda"), precision)
    for seed, name in enumerate(units):
        bench.check(name, seed)
