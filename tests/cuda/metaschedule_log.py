"""Writes ``metaschedule_log/``: records of MetaSchedule's own search for sm_90, of a convolution.

Nothing ran: the times are drawn. ``python -m tests.cuda.metaschedule_log`` takes minutes.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("metaschedule_log")
_TRIALS = 4


def main() -> None:
    """Search, and write a database anew."""
    import tvm
    from tvm.s_tir import meta_schedule

    from runtime_ext.cuda.machine_code.source import cuda_target
    from tests.tuning.tuned_database import convolution, fused

    target = cuda_target("sm_90")
    normalise = tvm.get_global_func("tvm.s_tir.meta_schedule.normalize_mod")
    module = normalise(fused(convolution(5), target))
    context: Any = meta_schedule.TuneContext(
        mod=module,
        target=target,
        space_generator="post-order-apply",
        search_strategy="replay-trace",
        num_threads=1,
        rand_state=7,
    )
    spaces = context.generate_design_space()
    print(f"{len(spaces)} sketches", flush=True)
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    database = meta_schedule.database.JSONDatabase(
        str(FOLDER / "database_workload.json"), str(FOLDER / "database_tuning_record.json")
    )
    context.pre_tuning(_TRIALS, _TRIALS, spaces, database, meta_schedule.cost_model.RandomModel())
    workload = database.commit_workload(module)
    drawn = random.Random(0)
    for candidate in context.generate_measure_candidates():
        record = meta_schedule.database.TuningRecord(
            candidate.sch.trace, workload, [drawn.uniform(1e-5, 1e-4)], target, candidate.args_info
        )
        database.commit_tuning_record(record)
        print("a candidate", flush=True)


if __name__ == "__main__":
    main()
