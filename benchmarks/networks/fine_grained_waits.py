"""Random cells of NAS-Bench-101: fine-grained waits against one barrier a wave.

Each cell is scheduled by Rammer's wavefront policy as one rProgram of default kernels. The same
placement is lowered twice: with the waits that the data needs, and with a barrier of all lanes
after each wave. Both run in turn; below 1 the fine-grained waits are faster. A cell is
*heterogeneous* if a wave of it holds units of different code. What was measured is kept, so that
a run can be ended and begun again (``--again`` starts over).
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx
from rich.progress import track
from rich.table import Table

from benchmarks.report import read_figures, write_result
from relay_passes.load import load_model
from relay_passes.measured_module import MeasuredModule
from relay_passes.relax.target_units import RelaxUnits
from relay_passes.search_options import SearchOptions
from runtime_ext.cpu.device import random_buffers
from runtime_ext.execution.native_executor import NativeExecutor
from runtime_ext.machine.this_machine import available_lanes
from tvm_ios.cli.frame.output import console
from tvm_ios.contest.pairs import paired_ratio
from tvm_ios.program.lower import lower_stages
from tvm_ios.rammer.rprogram import RProgram, simulate
from tvm_ios.rammer.wavefront import schedule_wave
from tvm_ios.schedule.rkernel import RKernel
from tvm_ios.schedule.stage import Stage, Strategy
from tvm_ios.schedule.waves import waves
from tvm_ios.zoo.cells.nasbench import Cell, build_cell, random_cells

RESULT = "fine_grained_waits"
#: Runs that one sample is the mean of take about so many seconds.
_SAMPLE_SECONDS = 2e-3


def measure(cell: Cell, channels: int, size: int, lanes: int, pairs: int) -> dict[str, Any]:
    """Ratio of the two programs of a cell, and what they are."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cell.onnx"
        onnx.save(build_cell(cell, channels, size), path)
        loaded = load_model(str(path))
    prepared = loaded.prepared()
    graph = prepared.units
    search = MeasuredModule(RelaxUnits(prepared, SearchOptions(lanes=lanes)))
    timer = search.timer
    timer.compile_units()
    timer.measure_units()

    def default(unit: int) -> tuple[RKernel, ...]:
        return timer.rkernels(unit)[:1]

    wavefronts = waves(graph.predecessors, range(len(graph)))
    program = RProgram.empty(lanes)
    for wave in wavefronts:
        program = schedule_wave(graph, wave, program, default, simulate)
    stages = [
        Stage(
            Strategy.CO_SCHEDULE,
            (wave,),
            placement=tuple(share for share in program.placement if share.unit in wave),
        )
        for wave in wavefronts
    ]
    code = {unit: timer.forms((unit,)).code for unit in range(len(graph))}
    executors: list[NativeExecutor] = []
    for barriers in (False, True):
        lowered = lower_stages(
            graph,
            stages,
            code,
            lanes=lanes,
            barriers=barriers,
            parts=search.units.parts,
        )
        functions = {
            symbol: search.units.backend.compiler.function(symbol) for symbol in lowered.kernels
        }
        executors.append(NativeExecutor(lowered, functions, random_buffers(lowered)))
    fine, barrier = paired_samples(executors, pairs)
    for executor in executors:
        executor.close()
    keys = [[timer.unit_key(graph, unit) for unit in wave] for wave in wavefronts]
    return {
        "operations": cell.operations,
        "edges": cell.edges,
        "waves": len(wavefronts),
        "heterogeneous": any(len(set(wave)) > 1 for wave in keys),
        "microseconds": statistics.median(fine) * 1e6,
        "ratio": paired_ratio(fine, barrier).median,
    }


def paired_samples(executors: Sequence[NativeExecutor], pairs: int) -> list[list[float]]:
    """Seconds of each program, sample by sample in turn."""
    runs: list[int] = []
    for executor in executors:
        executor.benchmark(3, 1)
        (once,) = executor.benchmark(3, 1)
        runs.append(max(1, round(_SAMPLE_SECONDS / once)))
    samples: list[list[float]] = [[] for _ in executors]
    for pair in range(pairs):
        order = range(len(executors)) if pair % 2 else reversed(range(len(executors)))
        for number in order:
            samples[number] += executors[number].benchmark(runs[number], 1)
    return samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=300)
    parser.add_argument("--channels", type=int, default=256)
    parser.add_argument("--size", type=int, default=16)
    parser.add_argument("--pairs", type=int, default=21)
    parser.add_argument("--lanes", type=int, default=available_lanes())
    parser.add_argument("--again", action="store_true", help="forget what was measured before")
    given = parser.parse_args()
    settings = {"channels": given.channels, "size": given.size, "lanes": given.lanes}
    rows_by_cell: dict[str, dict[str, Any]] = {}
    for row in [] if given.again else read_figures(RESULT):
        if {name: row[name] for name in settings} == settings:
            rows_by_cell[json.dumps([row["operations"], row["edges"]])] = row
    rows: list[dict[str, Any]] = []
    for cell in track(random_cells(given.cells), "cells", console=console()):
        key = json.dumps([cell.operations, cell.edges])
        if key not in rows_by_cell:
            measured = measure(cell, given.channels, given.size, given.lanes, given.pairs)
            rows_by_cell[key] = {**settings, **measured}
            write_result(RESULT, list(rows_by_cell.values()))
        rows.append(rows_by_cell[key])
    table = Table("cells", "how many", "geometric mean", "median", "best", "worst")
    mixed = [row for row in rows if row["heterogeneous"]]
    for name, chosen in (("all", rows), ("heterogeneous", mixed)):
        ratios = [row["ratio"] for row in chosen]
        figures = (statistics.geometric_mean(ratios), statistics.median(ratios))
        texts = (f"{x:.3f}" for x in (*figures, min(ratios), max(ratios)))
        table.add_row(name, str(len(chosen)), *texts)
    console().print(table)


if __name__ == "__main__":
    main()
