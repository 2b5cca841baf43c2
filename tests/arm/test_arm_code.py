"""What LLVM makes of each writer's kernels for 64-bit Arm, by their machine code."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tvm import relax

from runtime_ext.cpu import kernel_build
from runtime_ext.cpu.forms.registry import named_plans
from runtime_ext.cpu.kernel_build import build_kernel
from runtime_ext.cpu.machine_code import object_code
from runtime_ext.cpu.vector_space import VectorSpace
from runtime_ext.isa.arm import EXTENSIONS, NEON
from runtime_ext.isa.isa import BYTES
from runtime_ext.isa.levels import isa_of
from runtime_ext.kernels.spec import Contraction, Product
from runtime_ext.machine.this_machine import host_target
from runtime_ext.units.plans import plan_unit
from runtime_ext.units.unit import UnitSource
from tests.arm.assembly import Instruction, functions, innermost_loops
from tests.arm.emulator import needs_emulator
from tests.cpu.test_attention_chains import CASES as ATTENTIONS
from tests.cpu.test_chains import chain
from tests.fast_run import only
from tests.kernels.kernel_harness import make_unit
from tests.kernels.test_recurrence import spec_of
from tests.units.unit_images import CASES as IMAGES
from tests.units.unit_rows import layer_norm, product, softmax
from tests.units.unit_shuffles import SHUFFLES, resized
from tvm_ios.program.bfloat16 import FORM

op = relax.op
pytestmark = needs_emulator
WHOLE = "+".join(["armv8-a", *EXTENSIONS])
LEVELS = ["armv8-a", *(f"armv8-a+{own}" for own in EXTENSIONS), WHOLE]


def conv(size: int, **options: Any) -> Any:
    return make_unit(
        [(1, 64, 28, 28)],
        [(64, 64, size, size)],
        lambda emit, x, w: op.nn.relu(emit(op.nn.conv2d(x, w, **options))),
    )


def dense(rows: int) -> Any:
    return make_unit([(rows, 256)], [(256, 128)], lambda _, x, w: op.matmul(x, w))


SOURCES = {
    "convolution": (conv(3, padding=1), ("NHWC", "NHWC")),
    "strided convolution": (conv(3, padding=1, strides=2), ("NHWC", "NHWC")),
    "pointwise convolution": (conv(1), ("NHWC", "NHWC")),
    "many rows": (dense(96), ("", "")),
    "one row": (dense(1), ("", "")),
    "product of data": (product((4, 48, 64), (4, 64, 80)), ("", "", "")),
    "softmax": (softmax((4, 64, 67)), ("", "")),
    "layer norm": (layer_norm((8, 200)), ("", "")),
    "sigmoid": (make_unit([(1, 16, 9, 9)], [], lambda _, x: op.sigmoid(x)), ("", "")),
    "gelu": (make_unit([(1, 16, 9, 9)], [], lambda _, x: op.nn.gelu(x)), ("", "")),
    "transposed": (
        make_unit([(1, 16, 9, 9)], [], lambda _, x: op.permute_dims(x, [0, 2, 3, 1])),
        ("", ""),
    ),
    "shuffle": (SHUFFLES["of 3"][0], ("NHWC", "NHWC")),
    "resize": (
        resized((1, 20, 5, 7), (15, 14), fused=False, method="linear"),
        ("NHWC", "NHWC"),
    ),
    "resize by fractions": (
        resized((1, 20, 5, 7), (12, 9), fused=False, method="linear"),
        ("NHWC", "NHWC"),
    ),
    "depthwise and product": (chain((1, 48, 14, 14), 64), ("NHWC", "NHWC")),
    "attention": (ATTENTIONS["several tiles"].function(), ("",) * 4),
    **{
        name: (IMAGES[name][0], ("NHWC",) * IMAGES[name][1])
        for name in ("max 3x3/2", "average", "mean", "gated", "lrn", "separable")
    },
}


@cache
def specs() -> dict[str, Any]:
    """A kernel of each writer, and some of several, by the unit's name and its own."""
    space = VectorSpace(NEON)
    found: dict[str, Any] = {}
    for name, (function, layouts) in SOURCES.items():
        for kernel in plan_unit(UnitSource(function, layouts), space).kernels:
            found.setdefault(f"{name}: {type(kernel.spec).__name__}", kernel.spec)
    filtered = named_plans(UnitSource(*SOURCES["convolution"]), space)["winograd-4"]
    for kernel in filtered.kernels:
        found[f"winograd: {type(kernel.spec).__name__}"] = kernel.spec
    for kind in ("lstm", "gru", "rnn"):
        found[f"{kind}: Recurrence"] = spec_of("sse", kind, steps=4, batch=3, hidden=40)
    return found


def code_of(spec: Any, level: str, folder: Path) -> list[list[Instruction]]:
    """The innermost loops of a kernel."""
    target = host_target(2, level)
    _, module = build_kernel(spec, "test", target, isa_of(target))
    file = folder / "kernel.o"
    file.write_bytes(object_code(module))
    return [loop for code in functions(file).values() if code for loop in innermost_loops(code)]


def test_there_is_a_kernel_of_each_writer() -> None:
    written = {type(spec) for spec in specs().values()}
    assert {*kernel_build._WRITERS} <= written


def busiest(spec: Any, level: str, folder: Path, product: str) -> list[Instruction]:
    """The innermost loop with most products, whose names begin so; no loop calls a function."""
    loops = code_of(spec, level, folder)
    assert loops
    called = [one for loop in loops for one in loop if one.calls]
    assert not called
    return max(loops, key=lambda loop: sum(one.name.startswith(product) for one in loop))


def check_products(loop: list[Instruction], product: str, share: float, spills: int = 0) -> None:
    """A loop's instructions are mostly products, by elements where there are such."""
    multiplied = [one for one in loop if one.name.startswith(product)]
    assert len(multiplied) >= share * len(loop)
    assert product.endswith("mmla") or all(one.takes_element for one in multiplied)
    assert sum(one.spills for one in loop) <= spills


@pytest.mark.parametrize("level", only(["armv8-a", WHOLE], LEVELS))
@pytest.mark.parametrize("name", specs())
def test_inner_loops(name: str, level: str, tmp_path: Path) -> None:
    """They call nothing; those of products multiply by elements and keep their registers."""
    spec = specs()[name]
    loop = busiest(spec, level, tmp_path, "fmla")
    if isinstance(spec, Contraction | Product):
        check_products(loop, "fmla", 0.6)


@pytest.mark.parametrize(
    ("level", "form", "product", "share"),
    [
        ("armv8-a", "int16", "smlal", 0.7),
        ("armv8-a+dotprod", BYTES, "sdot", 0.7),
        ("armv8-a+i8mm", BYTES, "usmmla", 0.5),
        ("armv8-a+dotprod+i8mm", BYTES, "usmmla", 0.5),
        ("armv8-a+bf16", FORM, "bfmmla", 0.5),
    ],
)
def test_products_of_packs(
    level: str, form: str, product: str, share: float, tmp_path: Path
) -> None:
    """The instruction that a level has is the one that multiplies."""
    space = VectorSpace(isa_of(host_target(2, level)))
    bounds = ((0.0, 255.0), (-127.0, 127.0))
    deep = make_unit([(1, 256, 14, 14)], [(64, 256, 3, 3)], lambda _, x, w: op.nn.conv2d(x, w))
    for function, layouts in ((deep, ("NHWC", "NHWC")), SOURCES["many rows"]):
        source = UnitSource(function, layouts, integers=() if form == FORM else bounds)
        spec = named_plans(source, space)[form].kernels[-1].spec
        loop = busiest(spec, level, tmp_path, product)
        # Where two pixels' vectors are joined there are a few registers too few.
        check_products(loop, product, share, 8 if product.endswith("mmla") else 0)
