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
from test_slices import sliced

from runtime_ext.cuda.compiler import Precision

IMAGES = {**test_other_kernels.CASES, **test_shuffle_and_resize.SHUFFLES}
#: Run with other layouts and precisions too.
FEW = (
    "conv 1x1 odd",
    "conv 3x3",
    "conv first layer",
    "conv grouped",
    "conv batch, 1x1",
    "conv swish",
    "conv depthwise",
    "transposed 3x3/2",
    "merged",
    "separable",
    "max 3x3/2",
    "lrn",
    "split",
    "of 3",
)


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


UNITS = {**units(), **attention(), **matrices()}
ARRANGED = in_other_layouts()


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench({**UNITS, **ARRANGED}, tmp_path_factory.mktemp("cuda"))


@pytest.mark.parametrize("name", [*UNITS, *ARRANGED])
def test_unit(name: str, bench: Bench) -> None:
    bench.check(name)


@pytest.mark.parametrize("precision", ["tf32", "float16"])
def test_precisions(precision: Precision, tmp_path: Path) -> None:
    names = (*FEW, "conv residual", "product (2, 3, 17, 33) (2, 3, 33, 20)", "softmax (7, 200)")
    bench = Bench({name: UNITS[name] for name in names}, tmp_path, precision)
    assert any("mma.sync" in kernel.source for kernel in bench.kernels.values())
    for name in names:
        bench.check(name)
