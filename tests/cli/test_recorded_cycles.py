"""Cycles of our own kernels in a simulator, replayed by the device that docs/devices.md shows.

The programs are lowered as today, of kernels with the recorded blocks: they need no compiler.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runtime_ext.cuda.launch_graphs import launch_graph
from runtime_ext.cuda.machine_code.launchable import Launchable
from tests.device_packages import install
from tests.refusals import refused
from tvm_ios.api.units import load_units
from tvm_ios.extensions import extensions
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.measuring.launch_graph import LaunchGraph
from tvm_ios.measuring.timing_device import TimingDevice, UntimedError, open_timing_device, timed
from tvm_ios.policies.greedy import greedy_schedule
from tvm_ios.program.lower import lower_stages
from tvm_ios.program.program import BufferType, Part, PhaseCall, UnitCode
from tvm_ios.program.program_builder import tensors_of
from tvm_ios.schedule.stage import Stage, Strategy, sequential_stages

SHARED = Path(os.environ.get("TVM_IOS_SHARED", Path(__file__).resolve().parents[3] / "shared"))
RECORDING = SHARED / "data" / "simulated_v100.json"
#: The recorded units, by our names: the same network as it was exported another time.
UNITS = {
    **{"conv": "lv", "conv_1": "lv3", "conv_2": "lv5", "conv_3": "lv7", "conv_4": "lv9"},
    **{"conv_5": "lv11", "conv_6": "lv14", "conv_7": "lv16", "conv_8": "lv20", "conv_9": "lv23"},
    **{"conv_10": "lv26", "conv_11": "lv28", "avg_pool": "lv32", "conv_12": "lv33"},
    **{"global_avg_pool": "lv43", "dense": "lv45"},
}
#: The stages of the recorded schedules; today's kernels are cut otherwise, these had older ones.
IOS_BOTH = (
    "conv",
    "conv_1 | conv_2 | conv_3 | conv_4 | conv_5 | conv_8 conv_9 | avg_pool conv_12",
    "conv_6 | conv_7 | conv_10 | conv_11",
    *("concat_2", "global_avg_pool", "dense"),
)
RAMMER = (
    "conv",
    "conv_1 conv_2 conv_3 conv_4 conv_5 conv_8 avg_pool conv_6 conv_7 conv_9 conv_12",
    "conv_10 conv_11",
    *("concat_2", "global_avg_pool", "dense"),
)
#: What the recorded lanes follow from: the longest group first on the lane that is free first.
WEIGHTS = {
    "greedy": {"avg_pool": 10.0, "conv_4": 9.0, "conv_2": 8.0, "conv_3": 7.0}
    | {"conv_5": 6.0, "conv_1": 5.0, "conv_8": 4.0},
    "ios-both": {"conv_8": 10.0, "conv_2": 10.0, "conv_3": 8.0, "conv_4": 7.0}
    | {"avg_pool": 5.0, "conv_5": 5.0, "conv_1": 3.0},
}

pytestmark = pytest.mark.skipif(
    not RECORDING.is_file(), reason="no recording here: set TVM_IOS_SHARED"
)


def rows_of(policy: str) -> dict[str, list[str]]:
    """For each recorded unit, or several as one kernel, its launches: blocks x threads."""
    (program,) = (
        p
        for p in json.loads(RECORDING.read_text())["programs"]
        if (p["model"], p["policy"]) == ("inception_block", policy)
    )
    rows: dict[str, list[str]] = {}
    for text, *_ in program["launches"]:
        if text != "memset":
            rows.setdefault(text.split(":")[0], []).append(text.split()[1])
    return rows


class Recorded:
    """Programs of the recorded kernels."""

    def __init__(self) -> None:
        self.graph: OpGraph = load_units("inception_block")
        self.number = {op.name: unit for unit, op in enumerate(self.graph.operators)}
        (joined,) = (op for op in self.graph.operators if op.name == "concat_2")
        self.parts: dict[int, Part] = {}
        begin = 0
        for tensor in joined.inputs:
            end = begin + self.graph.tensors[tensor].shape[1]
            self.parts[tensor] = Part(joined.outputs[0], 1, begin, end)
            begin = end

    def stages(self, strategy: Strategy, rows: Sequence[str]) -> tuple[Stage, ...]:
        groups = [[tuple(self.number[n] for n in g.split()) for g in r.split("|")] for r in rows]
        return tuple(Stage(strategy, tuple(of_stage)) for of_stage in groups)

    def code(self, units: Sequence[int], rows: Mapping[str, list[str]]) -> UnitCode:
        recorded = {UNITS.get(self.graph.operators[u].name, "") for u in units}
        sizes = [
            size for key, found in rows.items() for size in found if recorded == {*key.split("+")}
        ]
        data, outputs = tensors_of(self.graph, units)
        wholes = [self.parts[t].of if t in self.parts else t for t in (*data, *outputs)]
        types = tuple(BufferType(self.graph.tensors[t].shape) for t in wholes)
        # Joined in place, or of the network's end: what launches nothing.
        calls = (PhaseCall(f"{len(units)} {size}", 1, tuple(range(len(types)))) for size in sizes)
        return UnitCode(types, len(outputs), (), tuple(calls))

    def launches(self, policy: str, stages: Sequence[Stage]) -> LaunchGraph:
        sequential, weights = rows_of("sequential"), WEIGHTS.get(policy, {})
        names = [op.name for op in self.graph.operators]
        program = lower_stages(
            self.graph,
            stages,
            {u: self.code((u,), sequential) for u in range(len(self.graph))},
            {
                stage: self.code(stage.units, rows_of(policy))
                for stage in stages
                if stage.strategy is Strategy.CO_SCHEDULE
            },
            lanes=4,
            unit_latency=lambda unit, _: weights.get(names[unit], 1.0),
            parts=self.parts,
        )
        return launch_graph(program, kernel, "compute_75", model="inception_block", policy=policy)


def kernel(symbol: str) -> Launchable:
    units, size = symbol.split()
    blocks, threads = map(int, size.split("x"))
    # The recorded kernel of eleven units is persistent; that of two has blocks side by side.
    cleared = (0,) if int(units) > 2 else ()
    return Launchable("k", (blocks, 1, 1), (threads, 1, 1), 0, b"PTX", cleared)


@pytest.fixture
def device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TimingDevice]:
    install(tmp_path, monkeypatch)
    monkeypatch.setenv("RECORDING", str(RECORDING))
    monkeypatch.setenv("MAPPING", json.dumps({"model": "inception_block", "units": UNITS}))
    yield open_timing_device("recording")
    extensions.cache_clear()


def test_ios_and_rammer_are_ahead_of_greedy(device: TimingDevice) -> None:
    programs = Recorded()
    graph = programs.graph
    graphs = {
        "sequential": programs.launches("sequential", sequential_stages(graph)),
        "greedy": programs.launches("greedy", greedy_schedule(graph).stages),
        "ios-both": programs.launches("ios-both", programs.stages(Strategy.CONCURRENT, IOS_BOTH)),
        "rammer": programs.launches("rammer", programs.stages(Strategy.CO_SCHEDULE, RAMMER)),
    }
    seconds: dict[str, Any] = {p: timed(device, g).samples[0] for p, g in graphs.items()}
    recorded = {
        program["policy"]: program["cycles"]["1.0"] / 1132e6
        for program in json.loads(RECORDING.read_text())["programs"]
        if program["model"] == "inception_block"
    }
    assert seconds == pytest.approx(recorded, rel=1e-4)
    assert max(seconds["ios-both"], seconds["rammer"]) < seconds["greedy"] < seconds["sequential"]


def test_what_was_not_recorded_is_refused(device: TimingDevice) -> None:
    programs = Recorded()
    greedy = greedy_schedule(programs.graph).stages
    graph = programs.launches("greedy", greedy)
    with refused(UntimedError, f"'{graph.launches[1].unit}'", "9x128"):
        grid = replace(graph.launches[1], grid=(9, 1, 1))
        timed(device, replace(graph, launches=(graph.launches[0], grid, *graph.launches[2:])))
    with refused(UntimedError, "greedy", "waits"):
        timed(device, programs.launches("greedy", sequential_stages(programs.graph)))
    with refused(UntimedError, "greedy", "lv45"):
        timed(device, replace(graph, launches=graph.launches[:-1]))
    with refused(UntimedError, "greedy2"):
        timed(device, replace(graph, policy="greedy2"))
    # Parts of programs ran alone in the sequential one, and no two of them side by side.
    alone = replace(programs.launches("sequential", greedy[:1]), policy="")
    assert timed(device, alone).samples == pytest.approx((6278 / 1132e6,))
    with refused(UntimedError, "waits"):
        timed(device, replace(programs.launches("sequential", greedy[1:2]), policy=""))
