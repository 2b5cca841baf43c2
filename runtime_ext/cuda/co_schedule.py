"""Co-scheduled stages on a GPU: what the search is told of rTasks, and the code of what it finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from runtime_ext.cuda.fused_kernel import FusedKernel, fuse
from runtime_ext.cuda.kernel import CudaKernel
from tvm_ios.devices import Device
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
