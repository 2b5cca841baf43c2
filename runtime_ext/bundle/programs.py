"""From a schedule to a program of bundled kernels, its constants and its memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from runtime_ext.bundle.contents import Bundle
from runtime_ext.bundle.kernels import BundledKernels
from runtime_ext.bundle.place import Place, RunningSession
from runtime_ext.execution.buffers import content_key
from runtime_ext.execution.ports import Port, ports
from tvm_ios.errors import UserError
from tvm_ios.files.array_files import Array
from tvm_ios.graph.merge_rule import plan_merge
from tvm_ios.graph.merged_weights import merged_weights
from tvm_ios.measuring.stage_timer import StageTimer
from tvm_ios.program.arena.planner import plan_quickly
from tvm_ios.program.compiled_unit import CompiledUnit
from tvm_ios.program.happens_before import check_races
from tvm_ios.program.lower import lower
from tvm_ios.program.program import Program
from tvm_ios.program.program_builder import ConstantName
from tvm_ios.schedule.schedule import Schedule, Strategy


@dataclass(frozen=True)
class BundledProgram:
    """A schedule of a bundle, ready for a session.

    Attributes
    ----------
    program
        What runs.
    constants
        Packed weights by the names of their buffers.
    inputs, outputs
        As the model names them.
    """

    program: Program
    constants: Mapping[str, Array]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]

    def session(self, place: Place) -> RunningSession:
        """A new session."""
        plan = plan_quickly(self.program)
        return place.open_session(self.program, self.constants, self.inputs, self.outputs, plan)


def bundled_program(bundle: Bundle, timer: StageTimer, schedule: Schedule) -> BundledProgram:
    """Lower a schedule with the code that the timer chose.

    Raises
    ------
    UserError
        If the schedule is not one of the bundle's graph or names kernels that it has not.
    """
    graph = bundle.graph
    schedule.validate(graph)
    merged = {
        stage: _form(bundle, timer, schedule, tuple(sorted(stage.units)))
        for stage in schedule.stages
        if stage.strategy is Strategy.MERGE and len(stage.groups) > 1
    }
    gone = {unit for stage in merged for unit in stage.units}
    code = {u: _form(bundle, timer, schedule, (u,)) for u in range(len(graph)) if u not in gone}
    packed = _Packed(bundle)
    for unit, form in code.items():
        packed.add((unit,), form)
    for stage, form in merged.items():
        packed.add(tuple(sorted(stage.units)), form)
    codes = {unit: form.code for unit, form in code.items()}
    together = {stage: form.code for stage, form in merged.items()}
    constant_name: ConstantName = packed.name
    if timer.kernels.fuser is not None:
        placed = {schedule.stages[at]: where for at, where in schedule.placements.items()}
        fused = timer.kernels.fuser.fused(graph, placed, codes, packed.name, bundle.parts)
        together |= fused.merged
        packed.constants |= fused.tables
        constant_name = fused.constant_name
    program = lower(
        graph,
        schedule,
        codes,
        together,
        lanes=timer.lanes,
        unit_latency=timer.unit_latency if timer.unit_latencies else None,
        constant_name=constant_name,
        parts=bundle.parts,
    )
    check_races(program)
    return BundledProgram(
        program,
        packed.constants,
        ports(program, graph, graph.inputs, bundle.inputs),
        ports(
            program,
            graph,
            (tensor for _, tensor in bundle.outputs),
            (name for name, _ in bundle.outputs),
        ),
    )


def _form(
    bundle: Bundle, timer: StageTimer, schedule: Schedule, units: tuple[int, ...]
) -> CompiledUnit:
    """The code of one unit, or of several merged ones, that a schedule means."""
    name = schedule.kernels.get(units[0])
    if name is None:
        return timer.forms.generated(units)
    assert isinstance(timer.kernels, BundledKernels)
    without, which = timer.kernels.without_library, bundle.graph.operators[units[0]].name
    known = {form.library: form for form in bundle.forms.forms[units] if form.library}
    if len(units) == 1:
        known |= bundle.forms.rkernels[units[0]]
    if name not in known:
        raise UserError(
            f"unit {which!r} has no kernel {name!r} in the bundle, only "
            f"{', '.join(known) or 'the usual one'}: search again"
        )
    if known[name].library and without:
        raise UserError(
            f"unit {which!r} of the schedule is computed by cuDNN, and {without}, or search again"
        )
    return known[name]


class _Packed:
    """Constants as kernels want them, by content."""

    def __init__(self, bundle: Bundle) -> None:
        self.constants: dict[str, Array] = {}
        self._bundle = bundle
        self._names: dict[tuple[tuple[int, ...], int], str] = {}

    def add(self, units: tuple[int, ...], form: CompiledUnit) -> None:
        """Pack the constants of one unit, or of merged ones."""
        graph = self._bundle.graph
        weights = [[self._bundle.weights[k] for k in self._bundle.constants[u]] for u in units]
        tensors = graph.operators[units[0]].inputs
        values, data = weights[0], sum(not graph.tensors[t].constant for t in tensors)
        if len(units) > 1:
            plan = plan_merge(graph, units)
            assert plan is not None, "the bundle has their merged code"
            values = list(merged_weights(plan, weights))
        for place, use in enumerate(form.constants):
            array = use.transform.apply(values[use.parameter - data])
            key = content_key(array)
            self.constants[key] = array
            self._names[units, data + place] = key

    def name(self, units: tuple[int, ...], parameter: int) -> str:
        """The buffer of a parameter."""
        return self._names[tuple(sorted(units)), parameter]
