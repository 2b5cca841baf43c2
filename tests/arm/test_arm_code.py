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

op = relax.op
pytestmark = needs_emulator
WHOLE = "+".join(["armv8-a", *EXTENSIONS])
LEVELS = ["armv8-a", *(f"armv8-a+{own}" for own in EXTENSIONS), WHOLE]
#: Units whose inner loop moves registers to the stack and back: for each so many times at most.
SPILLS = {
    "strided convolution: Contraction": 20,
    "product of data: Product": 4,
    "separable: Contraction": 30,
}


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


@pytest.mark.parametrize("level", only(["armv8-a", WHOLE], LEVELS))
@pytest.mark.parametrize("name", specs())
def test_inner_loops(name: str, level: str, tmp_path: Path) -> None:
    """They call nothing; those of products multiply by elements and keep their registers."""
    spec = specs()[name]
    loops = code_of(spec, level, tmp_path)
    assert loops
    called = [one for loop in loops for one in loop if one.calls]
    assert not called
    if isinstance(spec, Contraction | Product):
        busiest = max(loops, key=lambda loop: sum(one.name == "fmla" for one in loop))
        multiplied = [one for one in busiest if one.name == "fmla"]
        by_element = [one for one in multiplied if one.multiplies_by_element]
        assert len(multiplied) >= 0.45 * len(busiest)
        assert len(by_element) >= 0.8 * len(multiplied)
        assert sum(one.spills for one in busiest) <= SPILLS.get(name, 0)
