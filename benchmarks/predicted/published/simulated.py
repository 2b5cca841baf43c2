"""Cycles of this project's own CUDA kernels in a simulator, and what is predicted for them.

Two files have programs launch by launch (GPGPU-Sim 4.2, its QV100 configuration): of kernels before
they were cut to fill a GPU, and since. A program is predicted from the cycles of each kernel alone,
which the sequential program of its model has, and by the description of the device, with kernels
that are cut as they are today.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from typing import Any

from tvm_ios.api import load_units
from tvm_ios.costs.analytic import AnalyticCost
from tvm_ios.costs.contention import Launch, makespans
from tvm_ios.costs.cuda_kernels.block_work import grid_cycles
from tvm_ios.costs.cuda_kernels.matrix_product import MatrixProduct
from tvm_ios.costs.cuda_kernels.product_estimate import estimates
from tvm_ios.costs.cuda_kernels.target_gpu import target_gpu
from tvm_ios.costs.cuda_kernels.tile import GemmTile, tile_of
from tvm_ios.costs.cuda_kernels.unit_kernels import (
    Shape,
    estimate,
    grids_of,
    merged_cuda_kernels,
    shapes_of,
)
from tvm_ios.costs.cuda_kernels.window_estimate import SlidingWindow, WindowCut
from tvm_ios.costs.kernel_estimate import KernelEstimate
from tvm_ios.costs.named import described_costs
from tvm_ios.devices.device import DeviceDescription, load_device
from tvm_ios.graph.merge_rule import plan_merge
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.policies.policy import Limits, Problem
from tvm_ios.search import Search

from .latencies import SHARED

FILE, FILLED = SHARED / "simulated_v100.json", SHARED / "simulated_v100_filled.json"
#: Cycles a second of the simulated processors.
CLOCK = 1132e6
#: Cycles between the end of a launch and the first of one that waits for it: assumed, 1 us.
_EDGE = 1133
#: What units of the Inception block read from: persistent kernels have no launches that tell.
_BLOCK = {
    **dict.fromkeys(("lv3", "lv5", "lv7", "lv9", "lv11", "lv20", "lv32"), ("lv",)),
    **dict.fromkeys(("lv14", "lv16"), ("lv11",)),
    "lv23": ("lv20",),
    **dict.fromkeys(("lv26", "lv28"), ("lv23",)),
    "lv33": ("lv32",),
}
#: Of a model that is part of a network of the zoo: the network, and its units by the model's names.
_PARTS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "fire9": (
        "squeezenet",
        {"squeeze": "fire9/conv", "e1": "fire9/conv_2", "e3": "fire9/conv_1"},
    ),
}
#: Rows, columns and depth of the tiles that recorded kernels have, where they are not the usual.
_TILES = {
    **dict.fromkeys(("inception_block/conv", "nasnet_cell/conv"), (8, 16, 16)),
    **dict.fromkeys((f"inception_block/conv_{n}" for n in (2, 3, 4, 9)), (8, 16, 64)),
    **dict.fromkeys((f"inception_block/conv_{n}" for n in (6, 7, 10, 11)), (16, 8, 32)),
    "inception_block/dense": (1, 16, 32),
    "nasnet_cell/conv_1": (8, 16, 64),
    "nasnet_cell/cell1/conv_1": (16, 8, 32),
    "nasnet_cell/dense": (1, 32, 16),
    "fire9/squeeze": (8, 16, 64),
    "fire9/e1": (16, 32, 64),
    "fire9/e3": (8, 32, 64),
}
_USUAL_TILE, _TEAMS = (16, 8, 16), 4


@dataclass(frozen=True, slots=True)
class Simulated:
    """A program, simulated and predicted, in cycles."""

    #: What was scheduled, and how.
    model: str
    policy: str
    cycles: int
    #: From the cycles of kernels alone.
    from_kernels: float
    #: By the description of the device and the captured graph; None of what it cannot say.
    described: float | None = None


@dataclass(frozen=True, slots=True)
class SimulatedKernel:
    """A kernel alone, simulated and estimated, in cycles."""

    name: str
    cycles: float
    estimated: float

    @property
    def held_out(self) -> bool:
        """Whether the estimate was not fitted to it: of a third of the kernels."""
        return int(sha256(self.name.encode()).hexdigest(), 16) % 3 == 0


def simulated_device() -> DeviceDescription:
    """The simulator's GPU: a V100 at another clock."""
    device = load_device("v100")
    return replace(device, peak_flops=2 * 64 * device.processors * CLOCK)


def simulated_programs() -> list[Simulated]:
    """All programs of both files, those of a model together and its sequential one first."""
    return [*_earlier_programs(), *_filled_programs()]


def simulated_kernels() -> Iterator[SimulatedKernel]:
    """Every different kernel of the sequential programs, and one that is cut in other ways."""
    gpu = target_gpu(simulated_device(), _EDGE / CLOCK)
    for model, units in _alone().items():
        same: dict[str, list[_Alone]] = {}
        estimated: dict[str, float] = {}
        for unit, recorded in units.items():
            shapes = _shapes(model, unit)
            for alone, shape in zip(recorded, shapes, strict=False):
                same.setdefault(alone.code, []).append(alone)
                ((work, blocks, _),) = grids_of(shape, gpu, _recorded_cut(model, unit, shape))
                if isinstance(shape, MatrixProduct | SlidingWindow):
                    assert blocks == alone.blocks, f"{alone.name} was cut otherwise"
                estimated[alone.code] = grid_cycles(work, blocks, gpu)
        for code, launches in same.items():
            cycles = sum(launch.cycles for launch in launches) / len(launches)
            yield SimulatedKernel(f"{model}/{launches[0].name}", cycles, estimated[code])
    (product,) = _shapes("inception_block", "conv_2")
    assert isinstance(product, MatrixProduct)
    for splits, _, cycles in _filled()["tile_experiment"]["rows"][2:]:
        best = next(c for c, tile in estimates(product, gpu, "float32") if tile.splits == splits)
        yield SimulatedKernel(f"inception_block/conv_2 in {splits} slabs", cycles, best)


def found_programs() -> Iterator[tuple[str, Mapping[str, float]]]:
    """For each model the cycles of schedules that the described engine finds, by policy.

    They are computed from the recorded cycles of the units' kernels alone.
    """
    for model in _alone():
        graph = _graph(model)
        search = Search(Problem.of(graph, 40), described_costs(simulated_device()), Limits())
        recorded = _RecordedCost(model)
        yield (
            model,
            {
                policy: sum(
                    recorded.stage_latency(graph, stage)
                    for stage in search.find(policy, priced=True).schedule.stages
                )
                * CLOCK
                for policy in ("sequential", "greedy", "ios-both")
            },
        )


class _RecordedCost(AnalyticCost):
    """Costs of units whose kernels take what they take in the simulator, alone."""

    def __init__(self, model: str) -> None:
        super().__init__(simulated_device())
        self._model = model

    def _unit_kernels(self, graph: OpGraph, unit: int) -> tuple[KernelEstimate, ...]:
        recorded = _alone()[self._model].get(graph.operators[unit].name, [])
        return tuple(_kernel(alone.cycles, alone.blocks, self.device) for alone in recorded)


@dataclass(frozen=True, slots=True)
class _Alone:
    """A launch of a sequential program."""

    name: str
    cycles: int

    @property
    def blocks(self) -> int:
        return int(re.findall(r" (\d+)x\d+$", self.name)[0])

    @property
    def code(self) -> str:
        return re.findall(r":(\w+) ", self.name)[0]


@cache
def _filled() -> dict[str, Any]:
    return json.loads(FILLED.read_text())


@cache
def _alone() -> dict[str, dict[str, list[_Alone]]]:
    """For each model and unit the launches of the sequential program."""
    found: dict[str, dict[str, list[_Alone]]] = {}
    for program in _filled()["programs"]:
        if program["policy"] == "sequential":
            units = found.setdefault(program["model"], {})
            for name, begin, end in program["launches"]:
                units.setdefault(name.split(":")[0], []).append(_Alone(name, end - begin + 1))
    return found


@cache
def _graph(model: str) -> OpGraph:
    """The units of a model; of a part of a network those that have kernels today."""
    if model not in _PARTS:
        return load_units(model)
    network, names = _PARTS[model]
    whole = load_units(network)
    found = {op.name: op for op in whole.operators}
    units = tuple(replace(found[theirs], name=name) for name, theirs in names.items())
    made = {t for op in units for t in op.outputs}
    read = {t for op in units for t in op.inputs}
    inputs = tuple(t for t in sorted(read - made) if not whole.tensors[t].constant)
    return OpGraph(model, units, whole.tensors, inputs, tuple(sorted(made - read)))


def _shapes(model: str, unit: str) -> list[Shape]:
    """The shapes of a unit's kernels; none of a unit that the model's graph lacks."""
    graph = _graph(model)
    numbers = {op.name: number for number, op in enumerate(graph.operators)}
    return shapes_of(graph, numbers[unit]) if unit in numbers else []


def _recorded_cut(model: str, unit: str, shape: Shape) -> GemmTile | WindowCut | None:
    """The cut that a recorded kernel has."""
    if isinstance(shape, SlidingWindow):
        return WindowCut(1, 1, 1, 1)
    if not isinstance(shape, MatrixProduct):
        return None
    rows, columns, depth = _TILES.get(f"{model}/{unit}", _USUAL_TILE)
    return tile_of(rows, columns, depth, 1, 1 if shape.vectors else _TEAMS)


def _filled_programs() -> Iterator[Simulated]:
    device = simulated_device()
    programs = sorted(_filled()["programs"], key=lambda p: p["policy"] != "sequential")
    for program in programs:
        model = program["model"]
        if program["policy"] == "ios-both" and program["stages"] is None:
            continue  # The sequential program.
        launches: tuple[list[Launch], list[Launch]] = ([], [])
        ends: tuple[list[int], list[int]] = ([], [])
        counts: dict[str, int] = {}
        for (name, _, _), waits in zip(program["launches"], program["waits"], strict=True):
            unit = name.split(":")[0]
            number = counts[unit] = counts.get(unit, -1) + 1
            described = _described_kernels(model, unit, number, device)
            alone = _alone()[model].get(unit, [])[number : number + 1]
            recorded = tuple(_kernel(a.cycles, a.blocks, device) for a in alone) or described
            for which, kernels in enumerate((recorded, described)):
                after = tuple(ends[which][wait] for wait in waits)
                for kernel in kernels:
                    delay = _EDGE / CLOCK if after else 0.0
                    launches[which].append(Launch(kernel, after, delay))
                    after = (len(launches[which]) - 1,)
                ends[which].append(len(launches[which]) - 1)
        recorded_cycles, described_cycles = (makespans(launches, device) * CLOCK).tolist()
        policy = f"{program['policy']} by {program['searched_with']}"
        yield Simulated(
            model,
            "sequential" if program["policy"] == "sequential" else policy,
            program["cycles"]["1.0"],
            recorded_cycles,
            described_cycles,
        )


def _described_kernels(
    model: str, unit: str, number: int, device: DeviceDescription
) -> tuple[KernelEstimate, ...]:
    """The kernels that a unit, or a merged one, has today in the place of a recorded launch."""
    gpu = target_gpu(device, _EDGE / CLOCK)
    if "+" in unit:
        graph = _graph(model)
        numbers = [n for n, op in enumerate(graph.operators) if op.name in unit.split("+")]
        plan = plan_merge(graph, numbers)
        assert plan is not None, f"{unit} was merged"
        return merged_cuda_kernels(graph, plan, gpu)
    shapes = _shapes(model, unit)[number : number + 1]
    if not shapes:
        alone = _alone()[model][unit][number]
        return (_kernel(alone.cycles, alone.blocks, device),)
    return tuple(estimate(*grid, gpu) for grid in grids_of(shapes[0], gpu))


def _earlier_programs() -> Iterator[Simulated]:
    alone: dict[str, list[tuple[int, int]]] = {}
    for program in json.loads(FILE.read_text())["programs"]:
        if program["policy"] == "sequential":
            alone = {}
            for name, begin, end in program["launches"]:
                blocks = _Alone(name, 0).blocks
                alone.setdefault(name.split(":")[0], []).append((end - begin + 1, blocks))
        predict = _fused if program["policy"] == "rammer" else _launched
        cycles = predict(program["launches"], alone, simulated_device()) * CLOCK
        model = f"{program['model']}, earlier kernels"
        yield Simulated(model, program["policy"], program["cycles"]["1.0"], cycles)


def _launched(
    launches: Sequence[Any], alone: dict[str, list[tuple[int, int]]], device: DeviceDescription
) -> float:
    """Seconds of a program of streams: each launch waits for those that end an edge before it."""
    ordered = sorted(launches, key=lambda launch: launch[1])
    kernels = {unit: iter(of_unit) for unit, of_unit in alone.items()}
    program: list[Launch] = []
    for name, begin, _ in ordered:
        after = tuple(
            place
            for place, (*_, end) in enumerate(ordered[: len(program)])
            if abs(begin - _EDGE - end) <= 2
        )
        if not after and begin > _EDGE:
            ended = [place for place, (*_, end) in enumerate(ordered) if end + _EDGE <= begin]
            after = (max(ended, key=lambda place: ordered[place][2]),)
        kernel = _kernel(*next(kernels[name.split(":")[0]]), device)
        program.append(Launch(kernel, after, _EDGE / CLOCK if after else 0.0))
    return float(makespans([program], device)[0])


def _fused(
    launches: Sequence[Any], alone: dict[str, list[tuple[int, int]]], device: DeviceDescription
) -> float:
    """Seconds of persistent kernels one after another, in which tiles wait for tiles."""
    programs: list[list[Launch]] = []
    for name, *_ in launches:
        program: list[Launch] = []
        last: dict[str, int] = {}
        for unit in name.split(":")[0].split("+"):
            after = tuple(last[source] for source in _BLOCK.get(unit, ()) if source in last)
            for cycles, blocks in alone.get(unit, ()):
                wait = device.wait_overhead if after else 0.0
                program.append(Launch(_kernel(cycles, blocks, device), after, wait))
                after = (len(program) - 1,)
            last[unit] = len(program) - 1
        programs.append(program)
    return float(makespans(programs, device).sum()) + (len(launches) - 1) * _EDGE / CLOCK


def _kernel(cycles: int, blocks: int, device: DeviceDescription) -> KernelEstimate:
    """A kernel of blocks of 128 threads that takes so many cycles alone."""
    share = device.arithmetic_share(128)
    waves = max(1.0, share * math.ceil(blocks / device.processors))
    return KernelEstimate(blocks, cycles / CLOCK / waves, share, 0)
