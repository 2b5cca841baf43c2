"""Memory: the arena of TensorFlow Lite Micro, of ten models as they came and as planned here.

Nothing is timed but the planning, so other work on the machine does no harm. The interpreter of
the ``tflite_micro`` package says what it needs, and outputs are compared.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import Any

import numpy as np
from rich.table import Table

from benchmarks.report import write_result
from tests.memory.tiny_models import TINY_MODELS
from tests.tflite_sketch import run_micro
from tvm_ios.cli.frame.output import console
from tvm_ios.memory.formats.tflite.planning import plan_tflite

#: Bytes that are enough for any of the models.
ENOUGH = 1 << 20


def least_arena(data: bytes) -> int:
    """The bytes with which the interpreter runs a model, and with 16 fewer it does not.

    Its own planner needs room at the start, which can be more than a small model's tensors take.
    """
    low, high = 0, ENOUGH
    while high - low > 16:
        middle = (low + high) // 32 * 16
        # Too small an arena can end the process.
        if child := os.fork():
            _, status = os.waitpid(child, 0)
            low, high = (middle, high) if status else (low, middle)
        else:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            try:
                run_micro(data, arena=middle)
            finally:
                os._exit(sys.exc_info()[0] is not None)
    return high


def measure(model: str) -> dict[str, Any]:
    data = TINY_MODELS[model]()
    begin = time.perf_counter()
    planned = plan_tflite(data)
    seconds = time.perf_counter() - begin
    before, after = run_micro(data), run_micro(planned.data)
    return {
        "model": model,
        "operators": len(planned.orders[0]),
        "before_bytes": before.head,
        "after_bytes": after.head,
        "bound_bytes": planned.bound,
        "arena_before_bytes": least_arena(data),
        "arena_after_bytes": least_arena(planned.data),
        "file_before_bytes": len(data),
        "file_after_bytes": len(planned.data),
        "reordered": planned.reordered,
        "plan_written": planned.offsets is not None,
        "outputs_equal": all(map(np.array_equal, before.outputs, after.outputs)),
        "seconds": seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=TINY_MODELS)
    rows = [measure(model) for model in parser.parse_args().models]
    write_result("tflite_micro", rows)
    table = Table("model", "operators", "tensors as it came", "planned", "bound", "ratio")
    for column in ("arena as it came", "planned", "written"):
        table.add_column(column)
    for row in rows:
        written = ["order"] * row["reordered"] + ["plan"] * row["plan_written"]
        table.add_row(
            row["model"],
            str(row["operators"]),
            *(f"{row[f'{size}_bytes']:,}" for size in ("before", "after", "bound")),
            f"{row['after_bytes'] / row['before_bytes']:.3f}",
            *(f"{row[f'{size}_bytes']:,}" for size in ("arena_before", "arena_after")),
            " and ".join(written) or "nothing",
        )
    console().print(table)


if __name__ == "__main__":
    main()
