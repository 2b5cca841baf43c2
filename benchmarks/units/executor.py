"""What the executor itself costs: an empty step, a wait, a whole run of nothing; medians.

A *step and wait* is a launch of an empty kernel that waits for one on the lane before: a token
that goes round the lanes. The *fixed cost of a run* is a run of one empty launch a lane, back to
back, as the executor measures it in C++, and as a caller of ``run`` sees it. Kernels are compiled
functions of two integers, as real ones are. Samples are taken in turn; the figures are medians,
with the 10th and 90th percentile.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from rich.table import Table
from tvm.script import tirx as T

from benchmarks.report import write_result
from runtime_ext.execution.native_executor import NativeExecutor
from runtime_ext.machine.this_machine import available_lanes
from tvm_ios.cli.frame.output import console
from tvm_ios.program.program import Buffer, BufferType, Launch, Program, Role, Wait

STEPS = 2000
SAMPLES = 200
SCRATCH = BufferType((16,), "float32")


@T.prim_func
def nothing(x: T.Buffer((16,), "float32"), begin: T.int32, end: T.int32):  # pyright: ignore[reportInvalidTypeForm]
    T.func_attr({"global_symbol": "nothing", "tirx.noalias": True})
    for i in T.serial(end - begin):
        x[begin + i] = x[begin + i] + T.float32(1)


def compiled(folder: Path) -> Any:
    path = folder / "nothing.so"
    module = tvm.IRModule({"nothing": nothing})
    tvm.compile(module, target=tvm.target.Target("llvm")).export_library(str(path))
    return tvm_ffi.load_module(path)["nothing"]


def program(lanes: list[list[Launch | Wait]]) -> Program:
    buffers = tuple(Buffer(f"b{n}", SCRATCH, Role.SCRATCH) for n in range(len(lanes)))
    return Program(tuple(map(tuple, lanes)), ("nothing",), buffers, ("unit",))


def relay(lanes: int) -> Program:
    """``STEPS`` empty launches round the lanes, each waiting for the one before it."""
    items: list[list[Launch | Wait]] = [[] for _ in range(lanes)]
    for step in range(STEPS):
        if step and lanes > 1:
            items[step % lanes].append(Wait((step - 1) % lanes, (step - 1) // lanes + 1))
        items[step % lanes].append(Launch(0, (step % lanes,), 0, 1, 0))
    return program(items)


def one_step_each(lanes: int) -> Program:
    return program([[Launch(0, (lane,), 0, 1, 0)] for lane in range(lanes)])


def samples_of(lanes: int, kernel: Any) -> dict[str, list[float]]:
    """Seconds by what they are of."""
    executors = {}
    for name, work in (("relay", relay(lanes)), ("run", one_step_each(lanes))):
        tensors = [tvm_ffi.from_dlpack(np.zeros(16, "float32")) for _ in work.buffers]
        executors[name] = NativeExecutor(work, {"nothing": kernel}, tensors)
    samples: dict[str, list[float]] = {
        "step and wait": [],
        "run, in C++": [],
        "run, by a caller": [],
    }
    for _ in range(SAMPLES):
        (relayed,) = executors["relay"].benchmark(1, 1)
        samples["step and wait"].append(relayed / STEPS)
        samples["run, in C++"] += executors["run"].benchmark(100, 1)
        run = executors["run"].run
        begin = time.perf_counter()
        for _ in range(100):
            run()
        samples["run, by a caller"].append((time.perf_counter() - begin) / 100)
    for executor in executors.values():
        executor.close()
    return samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lanes", type=int, default=available_lanes(), help="the most lanes")
    most = parser.parse_args().lanes
    figures = []
    with tempfile.TemporaryDirectory() as folder:
        kernel = compiled(Path(folder))
        for lanes in sorted({1, most, *(n for n in (2, 4, 8, 16, 32, 64) if n < most)}):
            for what, samples in samples_of(lanes, kernel).items():
                low, median, high = np.percentile(samples, (10, 50, 90)) * 1e6
                row = {"what": what, "lanes": lanes, "microseconds": median, "low": low}
                figures.append(row | {"high": high})
    table = Table("lanes", "what", "median", "10 % to 90 %")
    for row in figures:
        table.add_row(
            str(row["lanes"]),
            row["what"],
            f"{row['microseconds']:.3f} µs",
            f"{row['low']:.3f} to {row['high']:.3f}",
        )
    console().print(table)
    print(write_result("executor", figures))


if __name__ == "__main__":
    main()
