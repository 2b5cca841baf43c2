"""Sessions of scheduled modules compute what ONNX Runtime and TVM compute."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

from relay_passes import IOSSchedule, SearchOptions
from relay_passes.pipeline import apply_schedule, prepare
from relay_passes.prepared import Prepared
from relay_passes.relax.importer import import_onnx
from runtime_ext.build import build
from runtime_ext.cpu.compiler import KernelCompiler
from runtime_ext.execution.built_model import BuiltModel
from runtime_ext.kernels.generic import NoKernelError
from runtime_ext.machine.this_machine import host_target
from runtime_ext.scheduled_module import ModuleError, read_scheduled_module
from tests.fast_run import only
from tests.forced_schedules import merge_first
from tests.onnx_sketch import Sketch, relative_error
from tests.onnx_sketch import run as run_onnxruntime
from tests.refusals import refused
from tests.relax.relax_sketch import (
    LANES,
    RelaxSketch,
    inputs_of,
    module_of,
    outputs_of,
    run,
    same_bits,
    wide,
)
from tvm_ios.ios.lazy import Budget
from tvm_ios.models.load import load_onnx
from tvm_ios.plot import plot_profile
from tvm_ios.policies.greedy import greedy_schedule
from tvm_ios.policies.policy import Limits
from tvm_ios.policies.sequential import sequential_schedule
from tvm_ios.program.program import Launch
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Stage, Strategy, sequential_stages

op = relax.op
INF = float("inf")
Scheduler = Callable[[Prepared], Schedule]

SCHEDULERS: dict[str, Scheduler] = {
    "sequential": lambda prepared: sequential_schedule(prepared.units),
    "greedy": lambda prepared: greedy_schedule(prepared.units),
    "merged": merge_first,
}


def built(prepared: Prepared, scheduler: Scheduler) -> BuiltModel:
    return build(apply_schedule(prepared, scheduler(prepared)), lanes=LANES)


@pytest.mark.parametrize(
    ("network", "scheduler"),
    [
        *(("inception_block", name) for name in SCHEDULERS),
        pytest.param("nasnet_cell", "sequential", marks=pytest.mark.slow),
        pytest.param("nasnet_cell", "greedy", marks=pytest.mark.slow),
    ],
)
def test_zoo(network: str, scheduler: str) -> None:
    proto = load_onnx(network)
    prepared = prepare(import_onnx(proto), network)
    model = built(prepared, SCHEDULERS[scheduler])
    expected = run_onnxruntime(proto)
    shape = prepared.units.tensors[prepared.units.inputs[0]].shape
    inputs = [np.random.default_rng(0).standard_normal(shape, dtype=np.float32)]
    busy = [sum(isinstance(item, Launch) for item in lane) for lane in model.program.lanes]
    assert len(busy) == LANES
    assert min(busy) > 0
    assert relative_error(same_bits(model, inputs, 3), expected) <= 1e-4


@pytest.mark.slow
def test_measured_costs_decide_and_the_result_is_right(cache: Path) -> None:
    module = module_of([(1, 6, 8, 8)], wide)
    told: list[str] = []
    options = SearchOptions(lanes=LANES, limits=Limits(budget=Budget(3)))
    scheduler = IOSSchedule(options=options, progress=lambda what, *_: told.append(what))
    made = scheduler(module)
    assert {"compiling kernels", "timing units"} <= set(told)
    assert any((cache / "logs").iterdir())
    inputs = inputs_of(module)
    assert relative_error(outputs_of(build(made, lanes=LANES), inputs), run(module, inputs)) <= 1e-4


def test_lanes_go_by_measured_latencies_beside_a_merged_stage_too() -> None:
    """Nobody measured what was merged on fewer lanes; it has all of them."""

    def body(s: RelaxSketch, x: Any) -> Any:
        convolutions = [s.conv(x, 8, (1, 1)), s.conv(x, 8, (1, 1))]
        pools = [
            s.emit(op.nn.max_pool2d(x, (size, size), padding=(size // 2, size // 2)))
            for size in (1, 3, 5)
        ]
        return s.emit(op.concat([*convolutions, *pools], axis=1))

    prepared = prepare(module_of([(1, 6, 8, 8)], body))
    names = [operator.kind for operator in prepared.units.operators]
    first, second, *pools, last = range(len(names))
    schedule = Schedule(
        prepared.units.fingerprint,
        (
            Stage(Strategy.MERGE, ((first,), (second,))),
            Stage(Strategy.CONCURRENT, tuple((unit,) for unit in pools)),
            Stage(Strategy.CONCURRENT, ((last,),)),
        ),
        "by hand",
    )
    for slow in range(3):
        latencies = {unit: (1.0, 0.5) for unit in pools} | {pools[slow]: (2.0, 1.0)}
        made = apply_schedule(prepared, replace(schedule, unit_latencies=latencies))
        program = build(made, lanes=LANES).program
        lanes = [
            {program.units[item.unit] for item in lane if isinstance(item, Launch)}
            for lane in program.lanes
        ]
        operators = prepared.units.operators
        (of_slow,) = (lane for lane in lanes if operators[pools[slow]].name in lane)
        assert not any(operators[unit].name in of_slow for unit in pools if unit != pools[slow])
        assert f"{operators[first].name}+{operators[second].name}" in set.intersection(*lanes)


def test_a_profile_is_drawn() -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    prepared = prepare(module_of([(1, 6, 8, 8)], wide))
    session = built(prepared, SCHEDULERS["greedy"]).session()
    session.set_input(x0=np.zeros((1, 6, 8, 8), np.float32))
    spans = session.profile()
    session.close()
    axes = plot_profile(spans, [str(span.lane) for span in spans])
    assert len(axes.collections) == len(spans) > 10
    assert [label.get_text() for label in axes.get_yticklabels()] == ["lane 0", "lane 1"]
    pyplot.close(axes.figure)


def test_inputs_and_outputs_have_the_names_of_the_onnx_file() -> None:
    model = built(prepare(import_onnx(load_onnx("inception_block"))), SCHEDULERS["sequential"])
    assert [port.name for port in model.inputs] == ["input"]
    assert [port.name for port in model.outputs] == ["output"]


def _pass_through(s: RelaxSketch, x: Any) -> Any:
    y = s.emit(op.nn.relu(x))
    return y, x, y


def _inner(s: RelaxSketch, x: Any) -> Any:
    y = s.conv(x, 4)
    return s.emit(op.nn.relu(s.bias(y))), y, s.emit(op.add(y, y))


def _fields(s: RelaxSketch, x: Any) -> Any:
    parts = s.emit(op.split(x, 3, axis=1))
    last, first = (s.emit(relax.TupleGetItem(parts, i)) for i in (2, 0))
    return s.emit(op.subtract(first, last)), last


def _scalars(s: RelaxSketch, x: Any) -> Any:
    y = s.emit(op.multiply(s.conv(x, 4), relax.const(3.0, "float32")))
    return s.emit(op.clip(s.emit(op.subtract(s.normal(1, 4, 1, 1), y)), -1, 1))


def _norms(s: RelaxSketch, x: Any) -> Any:
    return s.norm(s.emit(op.nn.relu(s.norm(s.emit(op.add(s.conv(x, 8), s.normal(8)))))))


def _only_a_reshape(s: RelaxSketch, x: Any) -> Any:
    return s.emit(op.reshape(x, (1, 6, 8, 8)))


def _of_other_types(s: RelaxSketch, x: Any) -> Any:
    """Images of integers and halves, cut, joined and returned in parts."""
    whole = s.emit(op.astype(s.emit(op.multiply(x, relax.const(3.0, "float32"))), "int32"))
    parts = s.emit(op.split(whole, 2, axis=1))
    first, last = (s.emit(relax.TupleGetItem(parts, i)) for i in (0, 1))
    half = s.emit(op.astype(s.emit(op.nn.relu(x)), "float16"))
    half = s.emit(op.nn.max_pool2d(s.emit(op.add(half, half)), (2, 2)))
    widened = s.emit(
        op.matmul(half, s.emit(op.permute_dims(half, [0, 1, 3, 2])), out_dtype="float32")
    )
    return s.emit(op.concat([last, first], axis=1)), first, half, widened


def _five_axes(s: RelaxSketch, x: Any) -> Any:
    """An image lies with its channels innermost, also where it has an axis more."""
    y = s.emit(op.expand_dims(s.emit(op.concat([s.conv(x, 4), s.conv(x, 3)], axis=1)), [2]))
    return s.emit(op.mean(y, [-1, 0], keepdims=True))


def _sorted(s: RelaxSketch, x: Any) -> Any:
    rows = s.emit(op.reshape(x, (6, 64)))
    best = s.emit(op.topk(rows, 3, axis=1, ret_type="both", dtype="int64"))
    values, indices = (s.emit(relax.TupleGetItem(best, i)) for i in (0, 1))
    return values, indices, s.emit(op.cumsum(rows, axis=1)), s.emit(op.sort(rows, axis=-1))


def _reading_numbers(s: RelaxSketch, x: Any) -> Any:
    half, second = relax.const(0.5, "float32"), relax.const(1, "int64")
    mask = s.emit(op.greater(x, half))
    chosen = s.emit(op.where(mask, x, half))
    low, high = (s.emit(op.where(mask, x, relax.const(b, "float32"))) for b in (-INF, INF))
    masked = s.emit(op.maximum(s.emit(op.minimum(high, relax.const(2.0, "float32"))), low))
    return chosen, s.emit(op.take(chosen, second, axis=2)), masked


def _cut_from_before_the_first(s: RelaxSketch, x: Any) -> Any:
    y = s.emit(op.strided_slice(x, [2, 3], [-20, -3], [-2, 20], [2, 1]))
    return s.emit(op.nn.relu(y)), s.emit(op.strided_slice(x, [1], [-1], [-20], [-2]))


BODIES = {f.__name__: f for f in (_pass_through, _inner, _fields, _scalars, _norms)}
BODIES |= {f.__name__: f for f in (_of_other_types, _five_axes, _sorted, _reading_numbers)}
BODIES |= {f.__name__: f for f in (_cut_from_before_the_first, _only_a_reshape, wide)}


@pytest.mark.parametrize("case", BODIES)
def test_modules_by_hand(case: str) -> None:
    module = module_of([(1, 6, 8, 8)], BODIES[case])
    inputs = inputs_of(module)
    prepared = prepare(module)
    model = built(prepared, merge_first if case == "wide" else SCHEDULERS["greedy"])
    assert relative_error(outputs_of(model, inputs), run(module, inputs)) <= 1e-4
    assert [port.name for port in model.inputs] == ["x0"]
    count = len(model.outputs)
    assert [port.name for port in model.outputs] == [f"output{i}" for i in range(count)]


def _numbers(s: RelaxSketch, x: Any, factor: Any) -> Any:
    scaled = s.emit(op.multiply(s.conv(x, 4), factor))
    mean = s.emit(op.mean(scaled))
    return s.emit(op.nn.relu(s.emit(op.subtract(scaled, mean)))), s.emit(op.multiply(mean, mean))


def test_tensors_without_axes() -> None:
    module = module_of([(1, 4, 8, 8), ()], _numbers)
    inputs = inputs_of(module)
    model = built(prepare(module), SCHEDULERS["sequential"])
    assert relative_error(outputs_of(model, inputs), run(module, inputs)) <= 1e-5


def test_two_inputs_of_which_one_is_not_read() -> None:
    module = module_of([(1, 4, 8, 8), (1, 4, 8, 8)], lambda s, x, y: s.conv(x, 4))
    model = built(prepare(module), SCHEDULERS["sequential"])
    assert [port.name for port in model.inputs] == ["x0", "x1"]
    inputs = inputs_of(module)
    assert relative_error(outputs_of(model, inputs), run(module, inputs)) <= 1e-5


def test_many_kernels_are_compiled_side_by_side(tmp_path: Path) -> None:
    """Each is one that TVM legalises and fuses, on a thread of its own."""
    functions = (op.erf, op.sin, op.cos, op.floor, op.ceil, op.round, op.sign, op.log, op.square)

    def body(s: RelaxSketch, x: Any) -> Any:
        return tuple(s.emit(function(x)) for function in functions)

    made = IOSSchedule("sequential")(module_of([(1, 3, 8, 8)], body))
    for attempt in range(4):
        compiler = KernelCompiler(host_target(LANES), LANES, tmp_path / str(attempt))
        build(made, lanes=LANES, compiler=compiler)
        assert compiler.compiled == len(functions)


def test_weights_as_parameters_become_inputs() -> None:
    sketch = Sketch(1, 3, 8, 8)
    proto = sketch.model(sketch.op("Relu", sketch.conv("x", 3, 4)))
    module, _ = relax.frontend.detach_params(from_onnx(proto, keep_params_in_input=True))
    model = built(prepare(module), SCHEDULERS["sequential"])
    assert len(model.inputs) == 2
    assert not model.constants
    inputs = inputs_of(module)
    assert relative_error(outputs_of(model, inputs), run(module, inputs)) <= 1e-5


_ELSEWHERE = """
import sys, numpy as np
from runtime_ext.execution.executable import load
session = load(sys.argv[1]).session()
session.run(**np.load(sys.argv[2]))
np.savez(sys.argv[3], *(session.get_output(i) for i in range(len(session.outputs))))
"""


@pytest.mark.parametrize("name", only(["model.tar"], ["model", "model.tar"]))
def test_a_saved_executable_gives_equal_outputs_in_a_new_process(name: str, tmp_path: Path) -> None:
    module = module_of([(1, 6, 8, 8)], wide)
    model = built(prepare(module), merge_first)
    inputs = inputs_of(module)
    expected = outputs_of(model, inputs)
    model.save(tmp_path / name)
    np.savez(tmp_path / "x.npz", x0=inputs[0])
    files = [str(tmp_path / file) for file in (name, "x.npz", "y.npz")]
    subprocess.run([sys.executable, "-c", _ELSEWHERE, *files], check=True, timeout=900)
    with np.load(tmp_path / "y.npz") as found:
        assert [found[key].tobytes() for key in found] == [a.tobytes() for a in expected]


def test_a_module_without_a_schedule_is_refused() -> None:
    module = module_of([(1, 3, 8, 8)], lambda s, x: s.conv(x, 4))
    with refused(ModuleError, "schedule", "IOSSchedule"):
        build(module, lanes=LANES)


def test_a_module_that_computes_outside_of_units_is_refused() -> None:
    module = module_of([(1, 3, 8, 8)], lambda s, x: s.conv(x, 4))
    prepared = prepare(module)
    stages = sequential_stages(prepared.units)
    made = apply_schedule(prepared, Schedule(prepared.units.fingerprint, stages, "sequential"))
    made["main"] = module["main"]
    with refused(ModuleError, "relax.nn.conv2d"):
        read_scheduled_module(made)


def test_an_operator_without_a_kernel_is_refused_by_name() -> None:
    """TVM does not lower it either."""

    def body(s: RelaxSketch, x: Any) -> Any:
        return s.emit(op.nn.conv2d(x, s.normal(4, 6, 3, 3), out_layout="NHWC"))

    made = IOSSchedule("sequential")(module_of([(1, 6, 8, 8)], body))
    with refused(NoKernelError, "relax.nn.conv2d"):
        build(made, lanes=LANES)


@pytest.mark.parametrize("axis", [0, 1, 2, 4])
@pytest.mark.parametrize("batch", [1, 2])
def test_an_axis_more_anywhere(batch: int, axis: int) -> None:
    """Pairs of numbers are turned like this, where attention knows positions."""

    def body(s: RelaxSketch, x: Any) -> Any:
        parts = (s.emit(op.expand_dims(s.emit(call(x, x)), axis)) for call in (op.add, op.multiply))
        return s.emit(op.concat(list(parts), axis))

    module = module_of([(batch, 4, 4, 4)], body)
    inputs = inputs_of(module)
    found = outputs_of(built(prepare(module), SCHEDULERS["sequential"]), inputs)
    assert relative_error(found, run(module, inputs)) < 1e-6


def test_a_constant_output() -> None:
    module = module_of([(4,)], lambda s, x: (s.emit(op.exp(x)), s.normal(3)))
    made = IOSSchedule("sequential")(module)
    inputs = inputs_of(module)
    expected = run(module, inputs)
    assert relative_error(run(made, inputs), expected) == 0
    assert relative_error(outputs_of(build(made, lanes=LANES), inputs), expected) < 1e-6


def test_what_has_no_elements_is_folded_away() -> None:
    def body(s: RelaxSketch, x: Any, past: Any) -> Any:
        none = s.emit(op.strided_slice(x, [1], [2], [2]))
        flat = s.emit(op.reshape(none, (3, 0)))
        wide = s.emit(op.permute_dims(flat))
        return (
            s.emit(op.concat([past, none, x, past], axis=1)),
            s.emit(op.sum(none, [1])),
            s.emit(op.max(past, [1])),
            s.emit(op.matmul(flat, wide)),
            s.emit(op.nn.relu(past)),
        )

    module = module_of([(3, 4), (3, 0)], body)
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal((3, 4), np.float32), np.zeros((3, 0), np.float32)]
    found = outputs_of(build(IOSSchedule("sequential")(module), lanes=LANES), inputs)
    ends = [np.zeros(3), np.full(3, -np.inf), np.zeros((3, 3)), np.zeros((3, 0))]
    for ours, expected in zip(found, [inputs[0], *ends], strict=True):
        np.testing.assert_array_equal(ours, expected)
