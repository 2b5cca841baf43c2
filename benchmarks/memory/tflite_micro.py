"""Memory: the arena of TensorFlow Lite Micro, of ten models as they came and as planned here.

Nothing is timed but the planning, so other work on the machine does no harm. The interpreter of
the ``tflite_micro`` package says what it needs, and outputs are compared.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from rich.table import Table

from benchmarks.report import write_result
from tests.memory.tiny_models import TINY_MODELS
from tests.tflite_sketch import run_micro
from tvm_ios.cli.frame.output import console
from tvm_ios.memory.formats.tflite.planning import plan_tflite


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
        "persistent_before_bytes": before.tail,
        "persistent_after_bytes": after.tail,
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
    table = Table(
        "model", "operators", "as it came", "planned", "no plan below", "of it", "written"
    )
    for row in rows:
        sizes = (row["before_bytes"], row["after_bytes"], row["bound_bytes"])
        written = ["order"] * row["reordered"] + ["plan"] * row["plan_written"]
        table.add_row(
            row["model"],
            str(row["operators"]),
            *(f"{size:,} B" for size in sizes),
            f"{row['after_bytes'] / row['before_bytes']:.3f}",
            " and ".join(written) or "nothing",
        )
    console().print(table)


if __name__ == "__main__":
    main()
