"""MetaSchedule databases of one record, and the units that they are for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import tvm
from tvm import relax, s_tir
from tvm.s_tir import meta_schedule

from tests.kernels.kernel_harness import make_unit

op = relax.op


def convolution(channels: int) -> Any:
    def body(emit: Any, x: Any, w: Any, b: Any) -> Any:
        return op.nn.relu(emit(op.add(emit(op.nn.conv2d(x, w, padding=1)), b)))

    return make_unit([(1, channels, 9, 10)], [(24, channels, 3, 3), (1, 24, 1, 1)], body)


def fused(function: Any, target: Any) -> Any:
    """The PrimFunc that TVM's own pipeline makes of a one-function module."""
    module = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
    with target:
        module = relax.get_pipeline("zero")(module)
    (primfunc,) = [f for f in module.functions.values() if isinstance(f, tvm.tirx.PrimFunc)]
    return primfunc


def parallel(schedule: s_tir.Schedule, block: Any) -> None:
    """The block's images and channels in parallel."""
    loops = schedule.get_loops(block)
    schedule.parallel(schedule.fuse(loops[0], loops[1]))


def tuned_database(
    folder: Path, function: Any, target: Any, cut: Callable[[s_tir.Schedule, Any], None] = parallel
) -> None:
    """A database with one record, as a tuner writes it, of each block cut alike."""
    normalise = tvm.get_global_func("tvm.s_tir.meta_schedule.normalize_mod")
    module = normalise(fused(function, target))
    schedule = s_tir.Schedule(module)
    for block in schedule.get_child_blocks(schedule.get_sblock("root")):
        cut(schedule, block)
    folder.mkdir(exist_ok=True)
    database = meta_schedule.database.JSONDatabase(
        str(folder / "database_workload.json"), str(folder / "database_tuning_record.json")
    )
    workload = database.commit_workload(module)
    arguments = meta_schedule.arg_info.ArgInfo.from_entry_func(module, False)
    database.commit_tuning_record(
        meta_schedule.database.TuningRecord(schedule.trace, workload, [1e-3], target, arguments)
    )
