"""What a new shape costs a session of an open program, and one that it has run before; medians.

The program is a chain of empty kernels, each of three buffers and two scalars, on one lane; its
buffers live for some launches. A run of the same shape, of one of two shapes in turn, and of a
shape that was never run are timed as a caller sees them, with setting the input: what a shape costs
is the difference to the same one. Samples are taken in turn.
"""

# TIR's functions are no Python.
# pyright: reportInvalidTypeForm=false, reportUnknownMemberType=false
from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from rich.table import Table
from tvm.script import tirx as T

from benchmarks.report import write_result
from runtime_ext.execution.session import Session
from tvm_ios.cli.frame.output import console
from tvm_ios.program.lane_writer import LaneWriter
from tvm_ios.program.program import Buffer, BufferType, KernelUse, Launch, Program, Role
from tvm_ios.program.tile_ranges import cut
from tvm_ios.shapes.extent import Symbol, extent_of

ROWS, COLUMNS = Symbol("rows", 1, 32, 4), Symbol("columns", 1, 512, 128)
B, L = extent_of(ROWS), extent_of(COLUMNS)
#: Launches for which a buffer lives.
LIFETIME = 5


@T.prim_func
def nothing(
    px: T.handle,
    py: T.handle,
    pz: T.handle,
    rows: T.int64,
    columns: T.int64,
    begin: T.int64,
    end: T.int64,
):
    T.func_attr({"global_symbol": "nothing", "tirx.noalias": True})
    n = T.int64()
    m = T.int64()
    k = T.int64()
    x = T.match_buffer(px, (rows, n), "float32")
    y = T.match_buffer(py, (rows, m), "float32")
    z = T.match_buffer(pz, (rows, k), "float32")
    if begin + columns < end:
        z[0, 0] = x[0, 0] + y[0, 0]


def compiled(folder: Path) -> Any:
    path = folder / "nothing.so"
    module = tvm.IRModule({"nothing": nothing})
    tvm.compile(module, target=tvm.target.Target("llvm")).export_library(str(path))
    return tvm_ffi.load_module(path)["nothing"]


def program(launches: int, buffers: int, lanes: int) -> Program:
    """A chain: each launch reads two of the last buffers, and each lane has a cut of its tiles."""
    widths = [L * (1 + n % 7) + 16 * (n % 5) for n in range(buffers)]
    types = [BufferType((B, (width + 15) // 16 * 16)) for width in widths]
    made = [Buffer("x", BufferType((B, L)), Role.INPUT)]
    made += [Buffer(f"b{n}", kind, Role.INTERMEDIATE) for n, kind in enumerate(types)]
    made += [Buffer("y", BufferType((B, L)), Role.OUTPUT)]
    writer = LaneWriter(lanes)
    for launch in range(launches):
        # Of buffers that are near in time each is near in number.
        now = launch * (buffers - LIFETIME) // launches
        *read, written = (now + 1, now + 2 + launch % 2, now + LIFETIME)
        tiles = B * 8
        cuts = [cut(tiles, lane, lanes) for lane in range(lanes + 1)]
        writer.phase(
            [
                (lane, Launch(0, (*read, written), begin, end, 0))
                for lane, (begin, end) in enumerate(pairwise(cuts))
            ],
            reads=read,
            writes=[written],
        )
    use = KernelUse(B * 8, 3, (2,), ("rows", "columns"))
    return Program(writer.lanes(), ("nothing",), tuple(made), ("unit",), (use,))


def samples_of(session: Session, count: int) -> dict[str, list[float]]:
    """Seconds of a run, by what its shape is."""
    values = {
        (rows, columns): np.ones((rows, columns), "float32")
        for rows in range(1, 33)
        for columns in range(1, 513, 8)
    }
    new = itertools.cycle(values)

    def seconds(shape: tuple[int, int]) -> float:
        begin = time.perf_counter()
        session.run(x=values[shape])
        return time.perf_counter() - begin

    # Memory grows to the largest shape.
    seconds((32, 505))
    samples: dict[str, list[float]] = {
        "the same shape": [],
        "a shape run before": [],
        "a new shape": [],
    }
    for _ in range(count):
        shape = next(new)
        samples["a new shape"].append(seconds(shape))
        samples["the same shape"].append(seconds(shape))
        other = next(new)
        seconds(other)
        samples["a shape run before"].append(seconds(shape))
    return samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--launches", type=int, default=500, help="launches of each lane")
    parser.add_argument("--buffers", type=int, default=200)
    parser.add_argument("--samples", type=int, default=900)
    asked = parser.parse_args()
    figures = []
    with tempfile.TemporaryDirectory() as folder:
        kernel = compiled(Path(folder))
        for lanes in (1, 2):
            work = program(asked.launches, asked.buffers, lanes)
            session = Session(work, {"nothing": kernel}, {})
            samples = samples_of(session, asked.samples)
            session.close()
            same = np.array(samples.pop("the same shape"))
            for what, taken in samples.items():
                low, median, high = np.percentile(np.array(taken) - same, (10, 50, 90)) * 1e6
                row = {"what": what, "lanes": lanes, "microseconds": median, "low": low}
                figures.append(row | {"high": high, "run": np.median(same) * 1e6})
    table = Table("lanes", "what", "more than the same", "10 % to 90 %", "a run of the same")
    for row in figures:
        table.add_row(
            str(row["lanes"]),
            row["what"],
            f"{row['microseconds']:.1f} µs",
            f"{row['low']:.1f} to {row['high']:.1f}",
            f"{row['run']:.1f} µs",
        )
    console().print(table)
    print(write_result("open_shapes", figures))


if __name__ == "__main__":
    main()
