"""Random graphs of units with schedules, and code for them that is easy to check.

Every tensor is a vector of integers. A unit's value depends on whole inputs, rolled by an
offset, so that a tile needs what other lanes have computed: a missing wait gives a wrong
number as soon as the order of launches changes.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tvm_ios.graph.elements import Operator, Tensor
from tvm_ios.graph.op_graph import OpGraph, bits
from tvm_ios.program.program import BufferType, PhaseCall, UnitCode
from tvm_ios.schedule.placement import Placement, Share
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Stage, Strategy
from tvm_ios.schedule.streams import stage_of_streams

LENGTH = 12
VECTOR = BufferType((LENGTH,), "int64")
MODULUS = 1_000_003


@dataclass(frozen=True)
class Case:
    """A graph, a schedule, and code with its functions."""

    graph: OpGraph
    schedule: Schedule
    code: dict[int, UnitCode]
    merged: dict[Stage, UnitCode]
    constants: dict[str, np.ndarray]

    def functions(self, delays: random.Random | None = None) -> dict[str, Callable[..., None]]:
        """The kernels; with ``delays`` some launches sleep for a moment first."""
        functions: dict[str, Callable[..., None]] = {}
        for unit, code in self.code.items():
            functions |= _unit_functions(self.graph, unit, code, delays)
        for stage, code in self.merged.items():
            functions |= _merged_functions(self.graph, stage, code.calls[0].tiles, delays)
        return functions

    def expected(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """What the graph computes, unit by unit."""
        values = {t: inputs[self.graph.tensors[t].name] for t in self.graph.inputs}
        for unit, op in enumerate(self.graph.operators):
            mixed = _mix(unit, [values[t] for t in dict.fromkeys(op.inputs)], _constant(unit))
            for place, tensor in enumerate(op.outputs):
                values[tensor] = _finish(unit, place, mixed)
        return {self.graph.tensors[t].name: values[t] for t in self.graph.outputs}

    def schedule_on(self, lanes: int) -> Schedule:
        """The schedule with what is placed on other lanes folded onto so many."""

        def folded(placement: Placement) -> Placement:
            return tuple(replace(share, lane=share.lane % lanes) for share in placement)

        stages = (
            stage if stage.placement is None else replace(stage, placement=folded(stage.placement))
            for stage in self.schedule.stages
        )
        return replace(self.schedule, stages=tuple(stages))


@st.composite
def cases(draw: st.DrawFn, max_units: int = 6, *, whole: bool = False) -> Case:
    """Random cases, with stages of all strategies.

    With ``whole`` as CUDA has them: kernels of one tile, and no merge stages.
    """
    graph = draw(graphs(max_units))
    unplaced = draw(stage_lists(graph, merges=not whole))
    code = {unit: draw(unit_codes(graph, unit, 1 if whole else 7)) for unit in range(len(graph))}
    stages = tuple(
        replace(stage, placement=draw(placements(graph, stage.units, code)))
        if stage.strategy is Strategy.CO_SCHEDULE
        else stage
        for stage in unplaced
    )
    merged = {
        stage: _merged_code(graph, stage, draw(st.integers(1, 5)))
        for stage in stages
        if stage.strategy is Strategy.MERGE and len(stage.groups) > 1
    }
    constants = unit_constants(graph)
    for stage in merged:
        name = "+".join(graph.operators[unit].name for unit in stage.units)
        first = _data_inputs(graph, stage.units)
        for place, unit in enumerate(stage.units):
            constants[f"{name}/{first + place}"] = _constant(unit)
    schedule = Schedule(graph.fingerprint, stages, policy="random")
    return Case(graph, schedule, code, merged, constants)


def unit_constants(graph: OpGraph) -> dict[str, np.ndarray]:
    """The constants of units that run by themselves."""
    return {
        f"{graph.operators[unit].name}/{_data_inputs(graph, (unit,))}": _constant(unit)
        for unit in range(len(graph))
    }


@st.composite
def graphs(draw: st.DrawFn, max_units: int = 6) -> OpGraph:
    """Random graphs of units with one or two inputs and outputs each."""
    tensors = [Tensor(f"in{i}", (LENGTH,), "int64") for i in range(draw(st.integers(1, 2)))]
    inputs = tuple(range(len(tensors)))
    operators: list[Operator] = []
    for unit in range(draw(st.integers(1, max_units))):
        reads = draw(st.lists(st.integers(0, len(tensors) - 1), min_size=1, max_size=3))
        outputs = tuple(range(len(tensors), len(tensors) + draw(st.integers(1, 2))))
        tensors += [Tensor(f"t{t}", (LENGTH,), "int64") for t in outputs]
        operators.append(Operator(f"u{unit}", "mix", tuple(reads), outputs, flops=unit + 1))
    read = {t for op in operators for t in op.inputs}
    outputs = tuple(t for op in operators for t in op.outputs if t not in read)
    return OpGraph("random", tuple(operators), tuple(tensors), inputs, outputs)


@st.composite
def stage_lists(draw: st.DrawFn, graph: OpGraph, *, merges: bool = True) -> tuple[Stage, ...]:
    """Random legal stages.

    Groups are the connected components of what a stage takes; co-scheduled, all of it; or any
    streams.
    """
    stages: list[Stage] = []
    done = 0
    while done != graph.all_operators:
        taken: list[int] = []
        for unit in bits(graph.all_operators & ~done):
            within = done | sum(1 << t for t in taken)
            if not graph.predecessors[unit] & ~within and (not taken or draw(st.booleans())):
                taken.append(unit)
        groups = _components(graph, taken)
        possible = [Strategy.CONCURRENT, Strategy.CO_SCHEDULE, Strategy.STREAMS]
        if merges and len(groups) > 1 and all(len(g) == 1 for g in groups):
            possible.append(Strategy.MERGE)
        strategy = draw(st.sampled_from(possible))
        if strategy is Strategy.CO_SCHEDULE:
            groups = (tuple(taken),)
        stages.append(Stage(strategy, groups))
        if strategy is Strategy.STREAMS:
            streams = st.integers(0, len(taken) - 1)
            stages[-1] = stage_of_streams(taken, {unit: draw(streams) for unit in taken})
        done |= stages[-1].mask
    return tuple(stages)


@st.composite
def placements(
    draw: st.DrawFn, graph: OpGraph, units: tuple[int, ...], code: dict[int, UnitCode]
) -> Placement:
    """Random legal placements on up to four lanes: any ranges, phases of units in any order."""
    shares: list[Share] = []
    left = {unit: len(code[unit].calls) for unit in units}
    while any(left.values()):
        # Units begin in their order, and after what they read from.
        waiting = next((u for u in units if left[u] == len(code[u].calls)), None)
        ready = [u for u in units if 0 < left[u] < len(code[u].calls)]
        if waiting is not None and not any(left.get(p) for p in bits(graph.predecessors[waiting])):
            ready.append(waiting)
        unit = draw(st.sampled_from(ready))
        phase = len(code[unit].calls) - left[unit]
        left[unit] -= 1
        tiles = code[unit].calls[phase].tiles
        cuts = sorted({0, tiles, *draw(st.lists(st.integers(0, tiles), max_size=4))})
        ranges = [
            Share(unit, phase, draw(st.integers(0, 3)), begin, end)
            for begin, end in itertools.pairwise(cuts)
        ]
        shares += draw(st.permutations(ranges))
    return tuple(shares)


@st.composite
def unit_codes(draw: st.DrawFn, graph: OpGraph, unit: int, most_tiles: int = 7) -> UnitCode:
    """Code of one phase, or of two with scratch between them."""
    data = _data_inputs(graph, (unit,))
    outputs = len(graph.operators[unit].outputs)
    inputs = tuple(range(data + 1))
    results = tuple(range(data + 1, data + 1 + outputs))
    tiles = st.integers(1, most_tiles)
    if not draw(st.booleans()):
        calls = (PhaseCall(f"u{unit}", draw(tiles), (*inputs, *results)),)
        return UnitCode((VECTOR,) * (data + 1 + outputs), outputs, (), calls)
    scratch = data + 1 + outputs
    calls = (
        PhaseCall(f"u{unit}.mix", draw(tiles), (*inputs, scratch)),
        PhaseCall(f"u{unit}.finish", draw(tiles), (scratch, *results)),
    )
    return UnitCode((VECTOR,) * (data + 1 + outputs), outputs, (VECTOR,), calls)


def random_inputs(graph: OpGraph, seed: int) -> dict[str, np.ndarray]:
    """Values for the graph's inputs."""
    generator = np.random.default_rng(seed)
    return {graph.tensors[t].name: generator.integers(0, MODULUS, LENGTH) for t in graph.inputs}


def _merged_code(graph: OpGraph, stage: Stage, tiles: int) -> UnitCode:
    data = _data_inputs(graph, stage.units)
    count = len(stage.units)
    outputs = [len(graph.operators[u].outputs) for u in stage.units]
    everything = tuple(range(data + count + sum(outputs)))
    name = "+".join(f"u{u}" for u in stage.units)
    return UnitCode(
        (VECTOR,) * len(everything), sum(outputs), (), (PhaseCall(name, tiles, everything),)
    )


def _unit_functions(
    graph: OpGraph, unit: int, code: UnitCode, delays: random.Random | None
) -> dict[str, Callable[..., None]]:
    data = _data_inputs(graph, (unit,))

    def whole(*arguments: Any) -> None:
        *buffers, begin, end = arguments
        arrays = [np.from_dlpack(b) for b in buffers]
        tile = _tile(code.calls[0].tiles, begin, end, delays)
        mixed = _mix(unit, arrays[:data], arrays[data])
        for place, output in enumerate(arrays[data + 1 :]):
            output[tile] = _finish(unit, place, mixed)[tile]

    def mix(*arguments: Any) -> None:
        *buffers, begin, end = arguments
        arrays = [np.from_dlpack(b) for b in buffers]
        tile = _tile(code.calls[0].tiles, begin, end, delays)
        arrays[-1][tile] = _mix(unit, arrays[:data], arrays[data])[tile]

    def finish(*arguments: Any) -> None:
        mixed, *buffers, begin, end = arguments
        tile = _tile(code.calls[1].tiles, begin, end, delays)
        for place, output in enumerate(buffers):
            np.from_dlpack(output)[tile] = _finish(unit, place, np.from_dlpack(mixed))[tile]

    if len(code.calls) == 1:
        return {f"u{unit}": whole}
    return {f"u{unit}.mix": mix, f"u{unit}.finish": finish}


def _merged_functions(
    graph: OpGraph, stage: Stage, tiles: int, delays: random.Random | None
) -> dict[str, Callable[..., None]]:
    units = stage.units
    inputs = list(dict.fromkeys(t for u in units for t in graph.operators[u].inputs))

    def merged(*arguments: Any) -> None:
        *buffers, begin, end = arguments
        arrays = [np.from_dlpack(b) for b in buffers]
        results = arrays[len(inputs) + len(units) :]
        tile = _tile(tiles, begin, end, delays)
        for number, unit in enumerate(units):
            reads = dict.fromkeys(graph.operators[unit].inputs)
            values = [arrays[inputs.index(t)] for t in reads]
            mixed = _mix(unit, values, arrays[len(inputs) + number])
            for place in range(len(graph.operators[unit].outputs)):
                results.pop(0)[tile] = _finish(unit, place, mixed)[tile]

    return {"+".join(f"u{u}" for u in units): merged}


def _tile(tiles: int, begin: int, end: int, delays: random.Random | None) -> slice:
    if delays is not None and delays.random() < 0.3:
        time.sleep(delays.random() * 2e-3)
    return slice(begin * LENGTH // tiles, end * LENGTH // tiles)


def _mix(unit: int, values: list[np.ndarray], constant: np.ndarray) -> np.ndarray:
    total = constant.copy()
    for place, value in enumerate(values):
        total += (place + 2) * np.roll(value, unit + 5)
    return total % MODULUS


def _finish(unit: int, place: int, mixed: np.ndarray) -> np.ndarray:
    return (np.roll(mixed, 7) * (unit + 3) + place) % MODULUS


def _constant(unit: int) -> np.ndarray:
    return np.random.default_rng(unit).integers(0, MODULUS, LENGTH)


def _data_inputs(graph: OpGraph, units: tuple[int, ...]) -> int:
    return len({t for u in units for t in graph.operators[u].inputs})


def _components(graph: OpGraph, units: list[int]) -> tuple[tuple[int, ...], ...]:
    groups: list[list[int]] = []
    for unit in units:
        linked = [g for g in groups if any(graph.predecessors[unit] >> m & 1 for m in g)]
        groups = [g for g in groups if g not in linked]
        groups.append([*sorted(m for g in linked for m in g), unit])
    return tuple(map(tuple, groups))
