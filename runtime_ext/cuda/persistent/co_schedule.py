"""Co-scheduled stages on a GPU: one kernel each, and its code for lowering. Needs no TVM."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from runtime_ext.cuda.persistent.fused_kernel import FusedKernel, fuse, vdevice
from runtime_ext.cuda.persistent.rtask_library import RTaskLibrary
from runtime_ext.execution.buffers import content_key
from tvm_ios.devices.device import DeviceDescription
from tvm_ios.errors import UnfusedError, UserError
from tvm_ios.files.array_files import Array
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.measuring.stage_fuser import FusedStages
from tvm_ios.program.persistent_lowering import lower_persistent
from tvm_ios.program.program import BufferType, Part, PhaseCall, Role, UnitCode
from tvm_ios.program.program_builder import NO_PARTS, ConstantName, tensor_names, tensors_of
from tvm_ios.schedule.stage import Stage

#: Most different kernels in a fused one: compilers take minutes for more.
MOST_KERNELS = 48


@dataclass(frozen=True)
class CoScheduledStage:
    """A co-scheduled stage compiled to one kernel."""

    #: The code of all units together, in the form that :func:`tvm_ios.program.lower.lower` takes
    #: for merged ones: one call, or none if the units have nothing to launch.
    code: UnitCode
    #: For each of its constants a unit that has it, and the parameter of that unit's code. A table,
    #: if there is one, is one more constant, the last.
    constants: tuple[tuple[int, int], ...]
    #: The kernel; None if there is nothing to launch.
    fused: FusedKernel | None
    #: The steps of the kernel's vEUs, if they wait for each other.
    table: Array | None


def fused_stages(
    graph: OpGraph,
    stages: Iterable[Stage],
    code: Mapping[int, UnitCode],
    library: RTaskLibrary,
    device: DeviceDescription,
    constant_name: ConstantName | None = None,
    parts: Mapping[int, Part] = NO_PARTS,
) -> FusedStages:
    """Compile all co-scheduled stages, each to one kernel; return their code for lowering.

    ``library`` has the units' kernels, and gets the new ones. The others are as for
    :func:`tvm_ios.program.lower.lower_stages`. Raise UserError if a stage cannot be one kernel.
    """
    fused_by_stage = {
        stage: co_scheduled(graph, stage, code, library, device, parts) for stage in stages
    }
    unit_constant_name = constant_name or _own_name
    fused_by_units = {stage.units: fused for stage, fused in fused_by_stage.items()}

    def name(units: tuple[int, ...], parameter: int) -> str:
        fused = fused_by_units.get(units)
        if fused is None:
            return unit_constant_name(units, parameter)
        constants = len(fused.constants) + (fused.table is not None)
        place = parameter - (len(fused.code.parameters) - fused.code.outputs - constants)
        if fused.table is not None and place == len(fused.constants):
            return content_key(fused.table)
        unit, unit_parameter = fused.constants[place]
        return unit_constant_name((unit,), unit_parameter)

    return FusedStages(
        {stage: fused.code for stage, fused in fused_by_stage.items()},
        name,
        {content_key(f.table): f.table for f in fused_by_stage.values() if f.table is not None},
    )


def co_scheduled(
    graph: OpGraph,
    stage: Stage,
    code: Mapping[int, UnitCode],
    library: RTaskLibrary,
    device: DeviceDescription,
    parts: Mapping[int, Part] = NO_PARTS,
) -> CoScheduledStage:
    """Compile a co-scheduled stage to one kernel and the code that launches it.

    ``library`` has the units' kernels, and gets the new one. Raise UserError if the placement does
    not fit, the device does not hold the vEUs, or the compiler fails.
    """
    constants: dict[str, tuple[int, int]] = {}

    def name(units: tuple[int, ...], parameter: int) -> str:
        # Equal constants of two units are not shared: the kernel depends on the code only.
        constant = _own_name(units, parameter)
        constants[constant] = (units[0], parameter)
        return constant

    program = lower_persistent(
        graph,
        stage,
        {unit: rtask_code(code[unit], library.blocks) for unit in stage.units},
        lanes=1 + max((share.lane for share in stage.placement or ()), default=0),
        constant_name=name,
        parts=parts,
    )
    names = tensor_names(graph)
    data, outputs = tensors_of(graph, stage.units)
    types = {b.name: b.type for b in program.buffers}
    fused, tables = None, dict[str, BufferType]()
    if program.operators:
        if len(program.kernels) > MOST_KERNELS:
            raise UnfusedError(
                f"a stage of {len(program.kernels)} different kernels cannot be one, which holds "
                f"{MOST_KERNELS} at most: schedule smaller stages"
            )
        functions = {symbol: library.rtasks(symbol) for symbol in program.kernels}
        blocks = vdevice(map(library.footprint, program.kernels), device) // device.processors
        try:
            fused = fuse(program, functions, device, library.cubin, blocks)
        except UserError as error:
            raise UnfusedError(f"a stage of {len(stage.units)} units: {error}") from error
        library.add(fused.kernel.symbol, fused.launchable)
        if fused.table is not None:
            # No tensor has an empty name.
            tables = {"": fused.kernel.parameters[-2]}
    scratch = [b for b in program.buffers if b.role is Role.SCRATCH]
    order = [*(names[t] for t in data), *constants, *tables, *(names[t] for t in outputs)]
    inside = len(order)
    order += [b.name for b in scratch]
    place = {name_or_constant: number for number, name_or_constant in enumerate(order)}
    counts: tuple[BufferType, ...] = ()
    calls: tuple[PhaseCall, ...] = ()
    if fused is not None:
        arguments = [place[program.buffers[b].name] for b in fused.buffers]
        if fused.table is not None:
            arguments += [place[""], len(order)]
            counts = fused.kernel.parameters[-1:]
        calls = (PhaseCall(fused.kernel.symbol, 1, tuple(arguments)),)
    types |= tables
    merged = UnitCode(
        parameters=tuple(types[name_or_constant] for name_or_constant in order[:inside]),
        outputs=len(outputs),
        scratch=(*(b.type for b in scratch), *counts),
        calls=calls,
    )
    table = None if fused is None else fused.words
    return CoScheduledStage(merged, tuple(constants.values()), fused, table)


def _own_name(units: tuple[int, ...], parameter: int) -> str:
    return f"{units[0]}/{parameter}"


def rtask_code(code: UnitCode, blocks: Callable[[str], int]) -> UnitCode:
    """Return the code with one tile for each block of a kernel, so that rTasks can be placed."""
    calls = tuple(replace(call, tiles=blocks(call.symbol)) for call in code.calls)
    return replace(code, calls=calls)
