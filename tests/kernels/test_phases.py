"""Any scheduled PrimFunc splits into phases whose tiles compute the same bits."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, s_tir

from runtime_ext.kernels.default_schedule import default_schedule
from runtime_ext.kernels.generic import prim_func
from runtime_ext.kernels.phases import Phases, split_phases
from tests.kernels.kernel_harness import host_target, make_unit, random_tensors, shape_of

op = relax.op
TARGET = tvm.target.Target(host_target())


def padded_convolution() -> Any:
    def body(emit: Any, x: Any, w: Any) -> Any:
        return op.nn.relu(emit(op.nn.conv2d(x, w, padding=1)))

    return prim_func(make_unit([(1, 6, 9, 8)], [(10, 6, 3, 3)], body), TARGET)


def by_hand(function: Any) -> Any:
    """Padding as its own phase; the convolution's result stays local to a tile."""
    schedule = s_tir.Schedule(function.with_attr("global_symbol", "main"))
    blocks = schedule.get_child_blocks(schedule.get_sblock("root"))
    pad, conv, relu = blocks
    n, c, y, _ = schedule.get_loops(relu)
    outer = schedule.fuse(n, c, y)
    schedule.parallel(outer)
    schedule.compute_at(conv, outer)
    loops = schedule.get_loops(pad)
    schedule.parallel(schedule.fuse(loops[0], loops[1]))
    return schedule.mod["main"]


def run(phases: Phases, arguments: list[Any], cuts: Any) -> Any:
    buffers = [tvm.runtime.tensor(a) for a in arguments]
    buffers += [tvm.runtime.tensor(np.full(s, np.nan, d)) for s, d in phases.scratch]
    for i, phase in enumerate(phases.phases):
        name = f"phase{i}"
        module = tvm.IRModule({name: phase.function.with_attr("global_symbol", name)})
        function = tvm.compile(module, target=TARGET).mod[name]
        borders = cuts(phase.tiles)
        for begin, end in pairwise(borders):
            function(*(buffers[a] for a in phase.arguments), begin, end)
    return buffers[len(arguments) - 1].numpy()


@pytest.mark.parametrize("schedule", [default_schedule, by_hand, lambda f: f])
def test_phases_compute_what_the_whole_does(schedule: Any) -> None:
    function = padded_convolution()
    arguments = random_tensors([shape_of(p.ty) for p in function.params])
    module = tvm.IRModule({"whole": function.with_attr("global_symbol", "whole")})
    whole = tvm.compile(module, target=TARGET).mod["whole"]
    tensors = [tvm.runtime.tensor(a) for a in arguments]
    whole(*tensors)
    phases = split_phases(schedule(function))
    assert len(phases.phases) in (2, 3)
    got = run(phases, arguments, lambda tiles: [0, tiles])
    np.testing.assert_allclose(got, tensors[-1].numpy(), rtol=0, atol=1e-5)
    parts = run(phases, arguments, lambda tiles: [0, tiles // 3, tiles // 2, tiles])
    assert parts.tobytes() == got.tobytes()


def test_what_one_phase_alone_uses_stays_local() -> None:
    phases = split_phases(by_hand(padded_convolution()))
    assert [phase.tiles for phase in phases.phases] == [6, 90]
    assert phases.scratch == (((1, 6, 11, 10), "float32"),)
