"""Every point of a contraction's design space computes the same, here and by TVM alone."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import tvm
from hypothesis import given
from hypothesis import strategies as st
from tvm import relax

from runtime_ext.cpu.kernel_build import build_kernel
from runtime_ext.cpu.vector_space import VectorSpace, sampled
from runtime_ext.isa.levels import isa_of
from runtime_ext.kernels.spec import Contraction
from runtime_ext.tuning_log.folder import workload_name
from runtime_ext.tuning_log.space import noted, recut
from runtime_ext.tuning_log.workload import contraction_workload
from runtime_ext.units.plans import plan_unit
from runtime_ext.units.unit import UnitSource
from tests.fast_run import examples
from tests.kernels.kernel_harness import host_target, make_unit, random_tensors
from tvm_ios.files.array_files import Array
from tvm_ios.program.constant_transform import packing

op = relax.op
TARGET = tvm.target.Target(host_target())
UNIT = isa_of(TARGET)
SPACE = VectorSpace(UNIT)

#: Input, weights, and attributes of a convolution.
SHAPES: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "padded": ((1, 12, 7, 9), (40, 12, 3, 3), {"padding": 1}),
    "one row": ((1, 24, 9, 13), (56, 24, 1, 1), {}),
    "first layer": ((1, 3, 17, 19), (32, 3, 5, 5), {"strides": 2}),
    "groups": ((1, 16, 6, 11), (32, 8, 3, 3), {"groups": 2, "padding": 1}),
    "batch": ((2, 8, 5, 6), (20, 8, 2, 2), {}),
    "a pixel": ((1, 32, 1, 1), (72, 32, 1, 1), {}),
}


@cache
def contraction(name: str) -> Contraction:
    """The convolution's kernel, with a bias and an activation."""
    data, weight, attributes = SHAPES[name]

    def body(emit: Any, x: Any, w: Any, b: Any) -> Any:
        y = emit(op.nn.conv2d(x, w, **attributes))
        return op.nn.relu(emit(op.add(y, b)))

    function = make_unit([data], [weight, (1, weight[0], 1, 1)], body)
    (kernel,) = plan_unit(UnitSource(function, ("NHWC", "NHWC")), SPACE).kernels
    assert isinstance(kernel.spec, Contraction)
    return kernel.spec


def run(spec: Contraction, tensors: list[Array], weight: Array) -> Array:
    """What the hand-written kernel computes."""
    width = spec.blocking.vectors * UNIT.lanes
    packed = packing(weight.shape, spec.parts, width).apply(weight)
    artefact, module = build_kernel(spec, "test", TARGET, UNIT)
    (phase,) = artefact.phases
    buffers = [packed if i == spec.weight else t for i, t in enumerate(tensors)]
    arguments = [tvm.runtime.tensor(b) for b in buffers]
    module[phase.symbol](*arguments, 0, phase.tiles)
    return arguments[-1].numpy()


def inputs(name: str) -> tuple[list[Array], Array]:
    """The tensors of a contraction in physical form, and its weights as in the model."""
    spec = contraction(name)
    tensors = random_tensors(spec.buffers)
    (weight,) = random_tensors([SHAPES[name][1]], seed=1)
    return tensors, weight


@cache
def expected(name: str) -> Array:
    return run(contraction(name), *inputs(name))


@examples(12)
@given(name=st.sampled_from(sorted(SHAPES)), data=st.data())
def test_every_point_computes_the_same(name: str, data: st.DataObject) -> None:
    spec = contraction(name)
    every = SPACE.points(spec)
    point = every[data.draw(st.integers(0, len(every) - 1))]
    got = run(recut(spec, point, SPACE), *inputs(name))
    scale = np.abs(expected(name)).max()
    np.testing.assert_allclose(got, expected(name), rtol=0, atol=2e-5 * scale)


@pytest.mark.parametrize("name", SHAPES)
def test_the_default_is_the_first_point_and_traces_keep_points(name: str) -> None:
    spec = contraction(name)
    every = SPACE.points(spec)
    assert every[0] == SPACE.explicit(spec)
    assert len(set(every)) == len(every) > 1
    workload = contraction_workload(spec)
    for point in every[:: max(1, len(every) // 7)]:
        trace = SPACE.schedule(spec, workload, point).trace
        notes = noted(trace.as_json())
        assert notes is not None
        assert SPACE.point(notes) == point


def test_what_is_in_the_space() -> None:
    spec = contraction("one row")
    assert all(SPACE.holds(spec, point) for point in SPACE.points(spec))
    default = SPACE.explicit(spec)
    for wrong in ({"pixels": 10**6}, {"vectors": 0}, {"unroll": 5}, {"tiles": -1}):
        assert not SPACE.holds(spec, replace(default, **wrong))


def test_a_trace_without_notes_is_none_of_ours() -> None:
    schedule = tvm.s_tir.Schedule(contraction_workload(contraction("padded")))
    schedule.parallel(schedule.get_loops(schedule.get_sblock("sum"))[1])
    assert noted(schedule.trace.as_json()) is None


def test_metaschedule_can_draw_from_the_space() -> None:
    spec = contraction("one row")
    choices = SPACE.choices(spec)
    workload = contraction_workload(spec)
    drawn = {
        noted(sampled(tvm.s_tir.Schedule(workload, seed=seed + 1), c, UNIT.lanes).trace.as_json())
        for seed, c in enumerate(choices)
    }
    cuts = {(p.pixels, p.vectors) for p in SPACE.points(spec)}
    assert {notes[:2] for notes in drawn if notes is not None} <= cuts
    assert len(drawn) == len(choices)


@pytest.mark.parametrize("name", ["padded", "groups", "one row"])
def test_tvm_alone_computes_the_workload(name: str) -> None:
    """A record's schedule, applied by MetaSchedule without any kernel of ours."""
    spec = contraction(name)
    point = SPACE.points(spec)[-1]
    module = SPACE.schedule(spec, contraction_workload(spec), point).mod
    function = tvm.compile(module, target=TARGET)["main"]
    tensors, weight = inputs(name)
    tensors[spec.weight] = weight.transpose(2, 3, 1, 0)
    arguments = [tvm.runtime.tensor(np.ascontiguousarray(t).reshape(-1)) for t in tensors]
    function(*arguments)
    got = arguments[-1].numpy().reshape(expected(name).shape)
    scale = np.abs(expected(name)).max()
    np.testing.assert_allclose(got, expected(name), rtol=0, atol=2e-5 * scale)


def test_workloads_are_named_by_what_they_compute() -> None:
    spec = contraction("padded")
    name = workload_name(contraction_workload(spec))
    again = recut(spec, SPACE.points(spec)[-1], SPACE)
    assert workload_name(contraction_workload(again)) == name
    window = replace(spec.window, strides=(2, 2))
    assert workload_name(contraction_workload(replace(spec, window=window))) != name
    assert workload_name(contraction_workload(replace(spec, statements=()))) != name
    names = {workload_name(contraction_workload(contraction(n))) for n in SHAPES}
    assert len(names) == len(SHAPES)
