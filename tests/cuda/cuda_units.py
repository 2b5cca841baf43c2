"""Units of every kind, as the tests of CUDA kernels have them."""

from __future__ import annotations

from typing import Any

from tests.cuda.cuda_harness import Unit
from tests.kernels.kernel_harness import sliced
from tests.units import unit_images
from tests.units.unit_convolutions import CASES, TRANSPOSED
from tests.units.unit_rows import layer_norm, product, softmax
from tests.units.unit_shuffles import SHUFFLES, resized

IMAGES = {**unit_images.CASES, **SHUFFLES}


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
    "linear by fractions",
    "head",
    "rounded",
    "softmax (2, 3, 5, 33)",
    "layer_norm (3, 4097)",
    "product (2, 3, 17, 33) (2, 3, 33, 20)",
)
#: Run with other layouts and precisions too.
FEW = (*QUICK[3:6], "conv depthwise", "merged", "linear", "of 3")


def units() -> dict[str, Unit]:
    named = {
        f"conv {name}": Unit(function, ("NHWC",) * tensors)
        for name, (function, tensors) in CASES.items()
    }
    named |= {
        f"transposed {name}": Unit(function, ("NHWC",) * 4) for name, function in TRANSPOSED.items()
    }
    named |= {
        name: Unit(function, ("NHWC",) * tensors) for name, (function, tensors, _) in IMAGES.items()
    }
    return named


def attention() -> dict[str, Unit]:
    """Rows of all lengths, and products of data with data."""
    rows = [(2, 3, 5, 33), (7, 200), (3, 4097)]
    functions = {
        f"{make.__name__} {shape}": make(shape) for make in (softmax, layer_norm) for shape in rows
    }
    products = [((2, 3, 17, 33), (2, 3, 33, 20)), ((1, 5, 70, 64), (1, 5, 64, 49))]
    functions |= {f"product {a} {b}": product(a, b) for a, b in products}
    return {name: Unit(f, ("",) * tensors_of(f)) for name, f in functions.items()}


def matrices() -> dict[str, Unit]:
    """Heads of networks, and operators that TVM's own kernels compute."""
    named: dict[str, Unit] = {}
    for name, (function, image, output) in unit_images.OTHERS.items():
        others = int(function.attrs["num_input"]) - 1
        first = "NHWC" if image else ""
        named[name] = Unit(function, (first, *[""] * others, output))
    return named


def resizes() -> dict[str, Unit]:
    named: dict[str, Unit] = {}
    for mode, rounding in (("linear", ""), ("nearest_neighbor", "round_prefer_floor")):
        for factor, size in (("", (15, 14)), (" by fractions", (7, 9))):
            function = resized(
                (1, 20, 5, 7),
                size,
                fused=mode == "linear",
                method=mode,
                coordinate_transformation_mode="half_pixel",
                rounding_method=rounding,
            )
            named[mode + factor] = Unit(function, ("NHWC", "NHWC"))
    return named


def in_other_layouts() -> dict[str, Unit]:
    """As the model has them, and in a range of the channels of wider tensors."""
    named: dict[str, Unit] = {}
    for name in FEW:
        unit = UNITS[name]
        orders = ("",) * len(unit.layouts)
        named[f"{name}, NCHW"] = Unit(unit.function, orders)
        named[f"{name}, sliced"] = Unit(unit.function, sliced(unit.function, unit.layouts))
    return named


def tensors_of(function: Any) -> int:
    return int(function.attrs["num_input"]) + 1


UNITS = {**units(), **attention(), **matrices(), **resizes()}


ARRANGED = in_other_layouts()
