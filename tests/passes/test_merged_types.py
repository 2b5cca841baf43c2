"""Convolutions are merged only where they compute in the same types, and keep these."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_passes import IOSSchedule, SearchOptions
from relay_passes.dialect import DialectError
from relay_passes.pipeline import apply_schedule, prepare
from runtime_ext.build import build
from tests.fast_run import crossed
from tests.refusals import refused
from tvm_ios.files.array_files import Array
from tvm_ios.graph.merge_rule import mergeable
from tvm_ios.ios.lazy import Budget
from tvm_ios.policies.policy import Limits
from tvm_ios.policies.sequential import sequential_schedule
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Stage, Strategy


def convolutions(
    *kinds: tuple[str, str],
    data: str = "int8",
    biased: int = 0,
    consumer: str = "",
    largest: int = 9,
) -> tvm.IRModule:
    """Two convolutions of kernel and result types, so many of them biased, and what reads them.

    Kernels are of 3 by 3 and 1 by 1, so that one lies inside the other's window; all is returned.
    """
    rng = np.random.default_rng(0)
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1, 3, 8, 8), data))

    def constant(shape: tuple[int, ...], dtype: str) -> Any:
        drawn = rng.integers(-largest, largest, shape).astype(dtype)
        return relax.const(tvm.runtime.tensor(drawn))

    with builder.function("main", [x]):
        with builder.dataflow():
            results = []
            for number, (extent, (kernel, result)) in enumerate(zip((3, 1), kinds, strict=True)):
                weight = constant((4, 3, extent, extent), kernel)
                call = relax.op.nn.conv2d(x, weight, padding=extent // 2, out_dtype=result)
                value = builder.emit(call)
                if number < biased:
                    value = builder.emit(relax.op.add(value, constant((1, 4, 1, 1), result)))
                results.append(value)
            for value in tuple(results):
                if consumer == "relu":
                    results.append(builder.emit(relax.op.nn.relu(value)))
                if consumer == "float":
                    wide = builder.emit(relax.op.astype(value, "float32"))
                    small = builder.emit(relax.op.multiply(wide, relax.const(1e-3, "float32")))
                    results.append(builder.emit(relax.op.sigmoid(small)))
            if consumer == "sum":
                results.append(builder.emit(relax.op.add(*results)))
            outputs = builder.emit_output(relax.Tuple(results))
        builder.emit_func_output(outputs)
    return builder.finalize()


def computed(module: tvm.IRModule, x: Array) -> list[Array]:
    """What TVM's own build returns, of NumPy's types."""
    machine = relax.VirtualMachine(tvm.compile(module, target="llvm"), tvm.cpu())
    return [part.numpy() for part in machine["main"](tvm.runtime.tensor(x))]


@pytest.mark.parametrize("bias", [False, True], ids=["plain", "biased"])
def test_bytes_summed_in_wide_integers_are_merged_as_such(bias: bool) -> None:
    module = convolutions(*[("int8", "int32")] * 2, biased=int(bias), largest=100)
    x = np.random.default_rng(1).integers(-100, 100, (1, 3, 8, 8)).astype("int8")
    wanted = computed(module, x)
    assert max(int(np.abs(part).max()) for part in wanted) > 2**15
    prepared = prepare(module)
    merged = Stage(Strategy.MERGE, ((0,), (1,)))
    schedule = Schedule(prepared.units.fingerprint, (merged,), "by hand")
    scheduled = apply_schedule(prepared, schedule)
    for output, expected in zip(computed(scheduled, x), wanted, strict=True):
        assert output.dtype == np.int32
        np.testing.assert_array_equal(output, expected)
    session = build(scheduled, lanes=1).session()
    session.run(x=x)
    for place, expected in enumerate(wanted):
        np.testing.assert_array_equal(session.get_output(place), expected)


@pytest.mark.parametrize(("consumer", "biased"), crossed(["relu", "float", "sum"], [1, 2]))
@pytest.mark.parametrize(("data", "result"), [("int8", "int32"), ("float16", "float32")])
def test_merged_convolutions_compute_in_their_types(
    data: str, result: str, consumer: str, biased: int
) -> None:
    module = convolutions(*[(data, result)] * 2, data=data, biased=biased, consumer=consumer)
    x = np.random.default_rng(1).integers(-100, 100, (1, 3, 8, 8)).astype(data)
    expected = computed(module, x)
    prepared = prepare(module)
    convolved = [u for u, op in enumerate(prepared.units.operators) if "conv2d" in op.kind]
    others = [u for u in range(len(prepared.units)) if u not in convolved]
    merged = Stage(Strategy.MERGE, tuple((unit,) for unit in convolved))
    stages = (merged, *(Stage(Strategy.CONCURRENT, ((unit,),)) for unit in others))
    scheduled = apply_schedule(prepared, Schedule(prepared.units.fingerprint, stages, "by hand"))
    session = build(scheduled, lanes=1).session()
    session.run(x=x)
    for place, wanted in enumerate(expected):
        output = session.get_output(place)
        assert output.dtype == wanted.dtype
        np.testing.assert_allclose(output, wanted, rtol=1e-5, atol=1e-5)


def test_the_default_measures_what_it_merges(cache: Path) -> None:
    module = convolutions(*[("int8", "int32")] * 2, biased=1, consumer="sum")
    x = np.random.default_rng(1).integers(-100, 100, (1, 3, 8, 8)).astype("int8")
    scheduled = IOSSchedule(options=SearchOptions(lanes=1, limits=Limits(budget=Budget(4))))(module)
    session = build(scheduled, lanes=1).session()
    session.run(x=x)
    for place, wanted in enumerate(computed(module, x)):
        np.testing.assert_array_equal(session.get_output(place), wanted)


@pytest.mark.parametrize(
    "kinds",
    [(("int8", "int32"), ("int8", "int8")), (("int8", "int32"), ("uint8", "int32"))],
    ids=["results", "kernels"],
)
def test_mixed_types_are_not_merged(kinds: tuple[tuple[str, str], tuple[str, str]]) -> None:
    assert not mergeable(prepare(convolutions(*kinds)).units, (0, 1))


def test_a_schedule_that_would_change_what_main_returns_is_refused() -> None:
    prepared = prepare(convolutions(("int8", "int32"), ("int8", "int32")))
    other = prepare(convolutions(("int8", "int32"), ("int8", "int8")))
    with refused(DialectError, "int32", "int8"):
        apply_schedule(
            replace(prepared, outliner=other.outliner), sequential_schedule(prepared.units)
        )
