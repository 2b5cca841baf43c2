"""What TVM does on its own with a module: the baseline of every comparison."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tvm
from tvm import relax


def compile_baseline(
    module: tvm.IRModule, target: Any, path: Path, database: Path | None = None
) -> None:
    """Compile a module by TVM's default pipeline to a shared library.

    Parameters
    ----------
    module
        Unscheduled.
    target
        A TVM target.
    path
        The ``.so`` to write.
    database
        A MetaSchedule database (folder) whose kernels TVM applies, as it does on its own.
    """
    with target:
        lowered = relax.get_pipeline("zero")(module)
        if database is not None:
            lowered = relax.transform.MetaScheduleApplyDatabase(str(database))(lowered)
    relax.build(lowered, target=target).export_library(str(path))
