"""Units become TIR functions with our kernels, which TVM compiles and its virtual machine calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_passes import IOSSchedule, LegalizeUnits
from relay_passes.pipeline import apply_schedule, prepare
from relay_passes.prepared import Prepared
from runtime_ext.build import build
from runtime_ext.machine.this_machine import host_target
from tests.forced_schedules import merge_first
from tests.refusals import refused
from tests.relax.ir_text import filecheck
from tests.relax.relax_sketch import (
    LANES,
    RelaxSketch,
    branches,
    inputs_of,
    module_of,
    outputs_of,
    pyramid,
    run,
)
from tvm_ios.errors import UserError
from tvm_ios.files.array_files import Array
from tvm_ios.policies.sequential import sequential_schedule
from tvm_ios.schedule.schedule import Schedule

Body = Callable[..., Any]


def twins(s: RelaxSketch, x: Any) -> Any:
    """Two equal convolutions of other weights, a softmax of their sum, and a pool of one."""
    first, second = (s.emit(relax.op.nn.relu(s.bias(s.conv(x, 8)))) for _ in range(2))
    whole = s.emit(relax.op.nn.softmax(s.emit(relax.op.add(first, second)), axis=1))
    return whole, s.emit(relax.op.nn.max_pool2d(first, (3, 3)))


def passed_on(s: RelaxSketch, x: Any) -> Any:
    """A result beside the input itself and a constant."""
    return s.emit(relax.op.nn.relu(s.conv(x, 4))), x, s.normal(3, 2)


def gathered(s: RelaxSketch, x: Any) -> Any:
    """Rows of a table by indices of 64 bits, which TVM's code finds, and a scratch buffer."""
    rows = relax.const(np.array([3, 0, 2], "int64"), "int64")
    table = s.emit(relax.op.matmul(x, s.normal(6, 40)))
    return s.emit(relax.op.nn.relu(s.emit(relax.op.take(table, rows, axis=0))))


def shares(s: RelaxSketch, x: Any) -> Any:
    """A split, of which both results are needed."""
    parts = s.emit(relax.op.split(s.conv(x, 8), 2, axis=1))
    first, second = (s.emit(relax.TupleGetItem(parts, place)) for place in range(2))
    return s.emit(relax.op.nn.relu(first)), s.emit(relax.op.tanh(second))


def quantised(s: RelaxSketch, x: Any) -> Any:
    """A convolution of whole numbers, which lie in bytes before it."""
    ops = relax.op
    whole = s.emit(ops.round(s.emit(ops.divide(x, s.const(0.02)))))
    clipped = s.emit(ops.minimum(s.emit(ops.maximum(whole, s.const(0.0))), s.const(255.0)))
    weights = s.const(s.rng.integers(-9, 9, (4, 6, 3, 3)))
    return s.emit(ops.multiply(s.emit(ops.nn.conv2d(clipped, weights)), s.const(0.1)))


IMAGE = (1, 6, 9, 11)
BODIES: dict[str, tuple[Sequence[int], Body]] = {
    "branches": (IMAGE, branches),
    "twins": (IMAGE, twins),
    "outputs that no unit makes": (IMAGE, passed_on),
    "integers and scratch": ((5, 6), gathered),
    "several results": (IMAGE, shares),
    "numbers in bytes": (IMAGE, quantised),
    "batch": ((2, 6, 8, 8), pyramid(2)),
}


def plain(prepared: Prepared) -> Schedule:
    return sequential_schedule(prepared.units)


def scheduled(module: tvm.IRModule, schedule: Callable[[Prepared], Schedule]) -> tvm.IRModule:
    prepared = prepare(module)
    return apply_schedule(prepared, schedule(prepared))


def on_machine(legal: tvm.IRModule, inputs: Sequence[Array]) -> list[Array]:
    """The outputs that TVM's virtual machine computes on this machine."""
    built = tvm.compile(legal, target=host_target(LANES))
    result = relax.VirtualMachine(built, tvm.cpu())["main"](*map(tvm.runtime.tensor, inputs))
    return [part.numpy() for part in ([result] if hasattr(result, "numpy") else result)]


@pytest.mark.parametrize("name", BODIES)
def test_the_machine_computes_what_our_executor_does(name: str) -> None:
    shape, body = BODIES[name]
    module = module_of([shape], body)
    form = scheduled(module, plain)
    inputs = inputs_of(module)
    got = on_machine(LegalizeUnits()(form), inputs)
    ours = outputs_of(build(form, lanes=1), inputs)
    assert [array.tobytes() for array in got] == [array.tobytes() for array in ours]
    for array, expected in zip(got, run(module, inputs), strict=True):
        np.testing.assert_allclose(array, expected, rtol=1e-5, atol=1e-5)
    if body is quantised:
        assert '"uint8"' in LegalizeUnits()(form).script()


def test_merged_convolutions_are_one_function() -> None:
    module = module_of([IMAGE], twins)
    form = scheduled(module, merge_first)
    legal = LegalizeUnits()(form)
    assert any("merged" in v.name_hint for v in legal.get_global_vars())
    inputs = inputs_of(module)
    for got, expected in zip(on_machine(legal, inputs), run(module, inputs), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def test_the_text_of_the_result(tmp_path: Path) -> None:
    legal = LegalizeUnits(host_target(1, "x86-64-v3"))(scheduled(module_of([IMAGE], twins), plain))
    filecheck(
        legal,
        """
        CHECK-NOT: ios.
        CHECK: @T.prim_func(private=True
        CHECK-NEXT: def unit_0_conv2d_bias_add_relu(b0: T.Buffer((1, 6, 9, 11), "float32"),
        CHECK: for tile in T.parallel(
        CHECK: acc0[0:8] = T.Broadcast(T.float32(0.0), 8)
        CHECK-NOT: def unit_1
        CHECK: def main(x0: f32(1, 6, 9, 11)) -> R.Tuple(f32(1, 8, 9, 11), f32(1, 8, 7, 9)):
        CHECK: [[A:lv.*]] = R.call_tir(cls.unit_0_conv2d_bias_add_relu, (x0, const, const),
        CHECK-SAME: out_ty=f32(1, 9, 11, 8))
        CHECK-NEXT: [[B:lv.*]] = R.call_tir(cls.unit_0_conv2d_bias_add_relu, (x0, const, const),
        CHECK-NEXT: R.call_tir(cls.unit_2_{{.*}}, ([[A]], [[B]]), out_ty=[f32(1, 8, 9, 11), f32(
        """,
        tmp_path,
    )


def test_kernels_are_written_for_the_target_in_scope() -> None:
    form = scheduled(module_of([IMAGE], twins), plain)
    with host_target(1, "x86-64-v2"):
        text = LegalizeUnits()(form).script()
    assert "T.Broadcast(T.float32(0.0), 4)" in text
    assert "T.Broadcast(T.float32(0.0), 8)" not in text


@pytest.mark.parametrize("kernel", ["winograd-2", "fine"])
def test_a_unit_has_the_kernel_that_the_schedule_names(kernel: str) -> None:
    module = module_of([(1, 32, 13, 18)], lambda s, x: s.emit(relax.op.nn.relu(s.conv(x, 32))))
    form = scheduled(module, lambda prepared: replace(plain(prepared), kernels={0: kernel}))
    inputs = inputs_of(module)
    (got,), (ours,) = (
        on_machine(LegalizeUnits()(form), inputs),
        outputs_of(build(form, lanes=1), inputs),
    )
    assert got.tobytes() == ours.tobytes()
    assert LegalizeUnits()(form).script() != LegalizeUnits()(scheduled(module, plain)).script()


def test_it_stands_among_passes_of_tvm() -> None:
    module = module_of([IMAGE], branches)
    passes = [
        relax.transform.FoldConstant(),
        IOSSchedule("greedy", "v100"),
        LegalizeUnits(),
        relax.get_pipeline("zero"),
    ]
    legal = tvm.transform.Sequential(passes)(module)
    inputs = inputs_of(module)
    (got,), (expected,) = on_machine(legal, inputs), run(module, inputs)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def test_other_functions_and_attributes_of_main_stay() -> None:
    form = scheduled(module_of([IMAGE], twins), plain)
    other = module_of([(2, 3)], lambda s, x: s.emit(relax.op.nn.relu(x)))["main"]
    form["second"] = other.with_attr("global_symbol", "second")
    form["main"] = form["main"].with_attr("mine", "kept")
    legal = LegalizeUnits()(form)
    assert str(legal["main"].attrs["mine"]) == "kept"
    tvm.ir.assert_structural_equal(legal["second"], form["second"])


def test_what_cannot_be_legalised_is_refused() -> None:
    module = module_of([IMAGE], twins)
    with refused(UserError, "IOSSchedule()"):
        LegalizeUnits()(module)
    form = scheduled(module, plain)
    with refused(UserError, "cuda"):
        LegalizeUnits(tvm.target.Target("cuda"))(form)
    named = scheduled(module, lambda prepared: replace(plain(prepared), kernels={0: "nosuch"}))
    with refused(UserError, "nosuch"):
        LegalizeUnits()(named)
    with refused(UserError, "no schedule"):
        build(LegalizeUnits()(form))
