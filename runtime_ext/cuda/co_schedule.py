"""Co-scheduled stages on a GPU: rKernels for the search, and the code of what it finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from runtime_ext.cuda.compiler import CudaKernelCompiler
from runtime_ext.cuda.fused_kernel import FusedKernel, fuse
from runtime_ext.cuda.kernel import CudaKernel
from tvm_ios.devices import Device, device_names, load_device
from tvm_ios.errors import UserError
from tvm_ios.graph import OpGraph
from tvm_ios.persistent_lowering import lower_persistent
from tvm_ios.placement import Placement
from tvm_ios.program import BufferType, Part, PhaseCall, Role, UnitCode
from tvm_ios.program_builder import NO_PARTS, ConstantName, tensor_names, tensors_of
from tvm_ios.rkernel import RKernel
from tvm_ios.schedule import Stage

#: Assumed: what a block takes at least, to load, to compute in a chain and to store.
_SHORTEST_TASK = 1e-6


@dataclass(frozen=True)
class CoScheduledStage:
    """A stage as one kernel.

    Attributes
    ----------
    code
        Of all units together, as :func:`tvm_ios.lower.lower` takes it for merged ones: one call.
    constants
        For each of its constants a unit that has it, and which parameter of that unit's code.
    fused
        The kernel.
    """

    code: UnitCode
    constants: tuple[tuple[int, int], ...]
    fused: FusedKernel


def rtask_code(code: UnitCode, kernels: Mapping[str, CudaKernel]) -> UnitCode:
    """Code whose phases have a tile a block: the form that rTasks are placed in."""
    calls = tuple(replace(call, tiles=kernels[call.symbol].blocks) for call in code.calls)
    return replace(code, calls=calls)


def estimated_rkernel(
    name: str,
    code: UnitCode,
    kernels: Mapping[str, CudaKernel],
    flops: int,
    device: Device,
    veus: int,
) -> RKernel:
    """An rKernel whose rTasks take what the device's figures say, where nothing was measured.

    A vEU has its share of the device's operations and bytes a second. A phase moves the bytes of
    its arguments, and the unit's operations are divided among its phases like these. The estimate
    knows nothing of caches, of kernels that reach less than the peak, or of vEUs that idle.

    Parameters
    ----------
    name
        Of the rKernel.
    code, kernels
        Of a unit in one of its forms.
    flops
        Of the unit.
    device, veus
        The GPU, and how many vEUs share it.
    """
    buffers = (*code.parameters, *code.scratch)
    moved = [sum(buffers[a].nbytes for a in call.arguments) for call in code.calls]
    tasks = tuple(kernels[call.symbol].blocks for call in code.calls)
    seconds = tuple(
        max(
            _SHORTEST_TASK,
            veus
            / count
            * max(flops * nbytes / sum(moved) / device.peak_flops, nbytes / device.bandwidth),
        )
        for count, nbytes in zip(tasks, moved, strict=True)
    )
    waves = (-(-count // veus) * each for count, each in zip(tasks, seconds, strict=True))
    return RKernel(name, tasks, seconds, device.launch_overhead + sum(waves))


def fused_stages(
    graph: OpGraph,
    stages: Sequence[Stage],
    placements: Mapping[int, Placement],
    code: Mapping[int, UnitCode],
    compiler: CudaKernelCompiler,
    constant_name: ConstantName,
    parts: Mapping[int, Part] = NO_PARTS,
) -> tuple[dict[Stage, UnitCode], ConstantName]:
    """The code of all stages whose units' blocks are placed on vEUs.

    A co-scheduled stage whose units' kernels are placed whole runs on streams, as any other.

    Parameters
    ----------
    graph, stages, placements, code, constant_name, parts
        As for :func:`tvm_ios.lower.lower_stages`.
    compiler
        Has the units' kernels, and keeps those that are made here.

    Returns
    -------
    dict, function
        What ``lower_stages`` takes as ``merged``, and as ``constant_name`` with it.
    """
    device = device_of(compiler.arch)
    made: dict[Stage, CoScheduledStage] = {}
    for position, placement in placements.items():
        stage = stages[position]
        calls = {(u, phase): c for u in stage.units for phase, c in enumerate(code[u].calls)}
        symbols = {call.symbol for call in calls.values()}
        kernels = {symbol: compiler.kernel(symbol) for symbol in symbols}
        if all(
            share.end <= calls[share.unit, share.phase].tiles
            for share in placement
            if (share.unit, share.phase) in calls
        ):
            continue
        made[stage] = co_scheduled(
            graph,
            stage,
            placement,
            code,
            kernels,
            device,
            veus=1 + max(share.lane for share in placement),
            constant_name=constant_name,
            parts=parts,
        )
        compiler.add(made[stage].fused.kernel.symbol, made[stage].fused.launchable)
    by_units = {stage.units: found for stage, found in made.items()}

    def name(units: tuple[int, ...], parameter: int) -> str:
        found = by_units.get(units)
        if found is None:
            return constant_name(units, parameter)
        inputs = len(found.code.parameters) - found.code.outputs - len(found.constants)
        unit, own = found.constants[parameter - inputs]
        return constant_name((unit,), own)

    return {stage: found.code for stage, found in made.items()}, name


def device_of(arch: str) -> Device:
    """The GPU of the device files that has an architecture; of several the smallest."""
    gpus = [load_device(name) for name in device_names()]
    found = [d for d in gpus if d.multiprocessor and d.multiprocessor.arch == arch]
    if not found:
        raise UserError(f"no device file has the architecture {arch!r}: add one")
    return min(found, key=lambda device: device.processors)


def co_scheduled(
    graph: OpGraph,
    stage: Stage,
    placement: Placement,
    code: Mapping[int, UnitCode],
    kernels: Mapping[str, CudaKernel],
    device: Device,
    *,
    veus: int,
    constant_name: ConstantName | None = None,
    parts: Mapping[int, Part] = NO_PARTS,
) -> CoScheduledStage:
    """Compile a co-scheduled stage to one kernel and the code that launches it.

    Parameters
    ----------
    graph, stage, placement
        What runs on which vEU.
    code, kernels
        Of the units, and by symbol with their TIR.
    device, veus
        A GPU, and how many vEUs the placement is for.
    constant_name, parts
        As for :func:`tvm_ios.lower.lower`.

    Raises
    ------
    UserError
        If the placement does not fit, the device does not hold the vEUs, or nothing compiles.
    """
    constants: dict[str, tuple[int, int]] = {}

    def name(units: tuple[int, ...], parameter: int) -> str:
        own = f"{units[0]}/{parameter}"
        made = own if constant_name is None else constant_name(units, parameter)
        constants.setdefault(made, (units[0], parameter))
        return made

    program = lower_persistent(
        graph,
        stage,
        placement,
        {unit: rtask_code(code[unit], kernels) for unit in stage.units},
        lanes=veus,
        constant_name=name,
        parts=parts,
    )
    fused = fuse(program, kernels, device)
    names = tensor_names(graph)
    data, outputs = tensors_of(graph, stage.units)
    scratch = [b for b in program.buffers if b.role is Role.SCRATCH]
    order = [
        *(names[t] for t in data),
        *constants,
        *(names[t] for t in outputs),
        *(b.name for b in scratch),
    ]
    types = {b.name: b.type for b in program.buffers}
    place = {each: number for number, each in enumerate(order)}
    arguments = [place[program.buffers[b].name] for b in fused.buffers]
    counts: tuple[BufferType, ...] = fused.kernel.parameters[len(arguments) :]
    if counts:
        arguments.append(len(order))
    inside = len(order) - len(scratch)
    merged = UnitCode(
        parameters=tuple(types[each] for each in order[:inside]),
        outputs=len(outputs),
        scratch=(*(b.type for b in scratch), *counts),
        calls=(PhaseCall(fused.kernel.symbol, 1, tuple(arguments)),),
    )
    return CoScheduledStage(merged, tuple(constants.values()), fused)
