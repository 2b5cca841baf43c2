"""From a schedule and the code of a model's units to a program with its weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from runtime_ext.execution.buffers import PackedConstants
from runtime_ext.execution.ports import Port
from runtime_ext.execution.session import Session
from tvm_ios.errors import UserError
from tvm_ios.files.array_files import Array
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.program.arena.planner import PlannedMemory
from tvm_ios.program.compiled_unit import CompiledUnit
from tvm_ios.program.constant_transform import ParamTransform
from tvm_ios.program.lower import UnitLatency, lower_stages
from tvm_ios.program.program import Part, Program
from tvm_ios.program.program_builder import ConstantName, tensor_names, work_name
from tvm_ios.progress import Steps
from tvm_ios.schedule.stage import Stage, Strategy

if TYPE_CHECKING:
    from runtime_ext.cuda.persistent.stage_fuser import GpuStageFuser

#: A unit, or several merged ones, in the order of their numbers.
Units = tuple[int, ...]


@dataclass(frozen=True)
class ModelProgram:
    """A program that computes a model.

    ``constants`` are the weights in the kernels' layout, by buffer name; ``memory`` plans
    intermediate buffers and scratch; inputs and outputs have the model's names.
    """

    program: Program
    constants: Mapping[str, Array]
    memory: PlannedMemory
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]

    def open(self, function: Callable[[str], Any], **options: Any) -> Session:
        """Open a session. ``function`` returns the function of a kernel's symbol.

        ``options`` are those of :class:`runtime_ext.execution.session.Session`.
        """
        functions = {symbol: function(symbol) for symbol in self.program.kernels}
        return Session(
            self.program,
            functions,
            self.constants,
            self.inputs,
            self.outputs,
            plan=self.memory.open_plan or self.memory.plan,
            **options,
        )


@dataclass(frozen=True)
class ModelUnits:
    """The units of a model, with the code and weights to compile them."""

    graph: OpGraph
    #: For each tensor that lies in another one's memory, its part of that.
    parts: Mapping[int, Part]
    #: Returns the compiler's source of a unit, or of merged units.
    source: Callable[[Units], Any]
    #: Returns the values of the parameters that follow the data in a unit's function.
    weights: Callable[[Units], Sequence[Array]]
    #: For each output of the graph that is a constant its value.
    constant_outputs: Mapping[int, Array]
    #: A cache of weights in the kernels' layout.
    packed: PackedConstants = field(default_factory=PackedConstants)


class Stages(Protocol):
    """The stages of a schedule; see :class:`tvm_ios.schedule.schedule.Schedule`."""

    @property
    def stages(self) -> Sequence[Stage]:
        """The stages, which run one after another."""
        ...

    @property
    def kernels(self) -> Mapping[int, str]:
        """The rKernel of each unit that is not computed by its default kernel."""
        ...


class UnitCodes(Protocol):
    """Compiles units; see :class:`runtime_ext.units.unit_compiler.UnitCompiler`."""

    @property
    def fuser(self) -> GpuStageFuser | None:
        """Fuses a co-scheduled stage into one kernel, on a GPU; None on a CPU."""
        ...

    def compile(
        self, units: Mapping[str, Any], progress: Steps | None = None
    ) -> dict[str, CompiledUnit]:
        """Compile the default kernel of each unit."""
        ...

    def rkernels(self, source: Any) -> tuple[str, ...]:
        """Return the names of the rKernels (alternative implementations) of a unit."""
        ...

    def compile_rkernels(
        self,
        units: Mapping[str, Any],
        progress: Steps | None = None,
        *,
        only: Mapping[str, str] | None = None,
    ) -> dict[str, dict[str, CompiledUnit]]:
        """Compile the rKernels of each unit, by their names; with ``only``, just the named one."""
        ...


@dataclass(frozen=True)
class LoweredUnits:
    """A program of compiled units, with its constants by buffer name.

    ``unit_notes`` has, by unit name, facts about the unit's code.
    """

    program: Program
    constants: dict[str, Array]
    unit_notes: dict[str, dict[str, Any]]


def lower_units(
    units: ModelUnits,
    schedule: Stages,
    compiler: UnitCodes,
    *,
    lanes: int,
    unit_latency: UnitLatency | None,
    progress: Steps | None = None,
) -> LoweredUnits:
    """Compile the units of a schedule, and lower the schedule to a program of this many lanes.

    ``unit_latency`` is as of :func:`tvm_ios.program.lower.lower_stages`; ``progress`` is called
    with the numbers of compiled and of all kernels. Raise UserError if the schedule names an
    rKernel that a unit does not have.
    """
    graph = units.graph
    compiled = _compiled(units, schedule, compiler, progress)
    constants = constant_outputs(graph, units.constant_outputs)
    names: dict[tuple[Units, int], str] = {}
    uses: list[tuple[tuple[Units, int], Array, ParamTransform]] = []
    for members, unit in compiled.items():
        weights = units.weights(members) if unit.constants else ()
        data = len(unit.code.parameters) - unit.code.outputs - len(unit.constants)
        for place, use in enumerate(unit.constants, data):
            uses.append(((members, place), weights[use.parameter - data], use.transform))
    # Copies and hashes leave Python to other threads.
    with ThreadPoolExecutor() as pool:
        packed = pool.map(lambda use: units.packed.packed(*use[1:]), uses)
        for (place, *_), (key, array) in zip(uses, packed, strict=True):
            constants[key] = array
            names[place] = key

    def own_constant(members: Units, parameter: int) -> str:
        return names[tuple(sorted(members)), parameter]

    constant_name: ConstantName = own_constant
    code = {members[0]: unit.code for members, unit in compiled.items() if len(members) == 1}
    whole_stages = {
        stage: compiled[_members(stage)].code for stage in schedule.stages if _is_merged(stage)
    }
    if compiler.fuser is not None:
        placed = [stage for stage in schedule.stages if stage.placement is not None]
        fused = compiler.fuser.fused(graph, placed, code, own_constant, units.parts)
        whole_stages |= fused.merged
        constants |= fused.tables
        constant_name = fused.constant_name
    program = lower_stages(
        graph,
        schedule.stages,
        code,
        whole_stages,
        lanes=lanes,
        unit_latency=unit_latency,
        constant_name=constant_name,
        parts=units.parts,
    )
    unit_notes = {work_name(graph, members): unit.notes for members, unit in compiled.items()}
    return LoweredUnits(program, constants, unit_notes)


def constant_outputs(graph: OpGraph, values: Mapping[int, Array]) -> dict[str, Array]:
    """Return the outputs of a graph that are constants, by the names of their buffers."""
    names = tensor_names(graph)
    return {names[tensor]: value for tensor, value in values.items()}


def compiled_pieces(stages: Sequence[Stage]) -> list[Units]:
    """Return the pieces to compile for some stages: single units, and units merged by a stage."""
    return [
        piece
        for stage in stages
        for piece in ([_members(stage)] if _is_merged(stage) else [(u,) for u in stage.units])
    ]


def _compiled(
    units: ModelUnits, schedule: Stages, compiler: UnitCodes, progress: Steps | None
) -> dict[Units, CompiledUnit]:
    """Compile each unit or merged stage of a schedule, by the rKernel that the schedule names."""
    pieces = sorted(compiled_pieces(schedule.stages))
    sources = {str(place): units.source(piece) for place, piece in enumerate(pieces)}
    compiled = compiler.compile(sources, progress)
    named: dict[str, str] = {}
    for place, piece in enumerate(pieces):
        kernel = schedule.kernels.get(piece[0])
        if kernel is None:
            continue
        names = compiler.rkernels(sources[str(place)])
        require_kernel(units.graph.operators[piece[0]].name, kernel, names)
        named[str(place)] = kernel
    chosen = compiler.compile_rkernels({place: sources[place] for place in named}, only=named)
    compiled |= {place: chosen[place][kernel] for place, kernel in named.items()}
    return {piece: compiled[str(place)] for place, piece in enumerate(pieces)}


def require_kernel(unit: str, kernel: str, names: Sequence[str]) -> None:
    """Raise UserError if a unit has kernels of these names alone, and not the one asked for."""
    if kernel not in names:
        raise UserError(
            f"unit {unit!r} has no kernel {kernel!r}, only {', '.join(names)}: schedule anew, with "
            "the tuning log if there was one"
        )


def _is_merged(stage: Stage) -> bool:
    return stage.strategy is Strategy.MERGE and len(stage.groups) > 1


def _members(stage: Stage) -> Units:
    return tuple(sorted(stage.units))
