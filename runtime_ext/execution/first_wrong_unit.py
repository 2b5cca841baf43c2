"""Find the first unit of a program whose results differ from those of a trusted program."""

from __future__ import annotations

from collections.abc import Mapping

from runtime_ext.execution.built_model import BuiltModel
from runtime_ext.execution.host_memory import HostMemory
from runtime_ext.execution.native_executor import NativeExecutor
from tvm_ios.contest.outputs import difference
from tvm_ios.contest.tolerance import Tolerance
from tvm_ios.files.array_files import Array
from tvm_ios.program.program import Launch


def first_wrong_unit(
    right: BuiltModel, wrong: BuiltModel, inputs: Mapping[str, Array], tolerance: Tolerance
) -> str | None:
    """Return the name of the first unit whose results differ between two CPU programs, or None.

    ``right`` runs one unit after another. Only buffers that both programs have are compared.
    """
    theirs = _results(wrong, inputs)
    program, ours = right.program, _results(right, inputs)
    for launch in (item for item in program.lanes[0] if isinstance(item, Launch)):
        for place in program.uses[launch.kernel].writes:
            name = program.buffers[launch.buffers[place]].name
            if name not in theirs or theirs[name].shape != ours[name].shape:
                continue
            if difference([theirs[name]], [ours[name]], tolerance):
                return program.units[launch.unit]
    return None


def _results(model: BuiltModel, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Run a model once without a memory plan, and return the content of each buffer by name."""
    program = model.program
    memory = HostMemory(program, model.constants, None)
    for port in model.inputs:
        memory.write(port.buffer, inputs[port.name])
    functions = {symbol: model.kernels.function(symbol) for symbol in program.kernels}
    executor = NativeExecutor(program, functions, memory.tensors)
    try:
        executor.run()
    finally:
        executor.close()
    return {
        buffer.name: array
        if buffer.part is None
        else array.take(range(buffer.part.begin, buffer.part.end), buffer.part.axis)
        for buffer, array in zip(program.buffers, memory.arrays, strict=True)
    }
