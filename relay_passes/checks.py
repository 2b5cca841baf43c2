"""Checks on the way from a module to its program: of modules, states and parts of schedules."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest

import tvm

from relay_passes.dialect import Dialect, DialectError
from relay_passes.prepared import Prepared
from runtime_ext.execution.buffers import is_numpy_type
from runtime_ext.execution.ports import Port, bound_states, require_not_read
from runtime_ext.ir_form import output_names
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.onnx.tail import Tail
from tvm_ios.schedule.schedule import Schedule


def require_numpy_types(prepared: Prepared) -> None:
    """Raise DialectError if a tensor of the module has a type that NumPy lacks (bfloat16)."""
    graph = prepared.outliner.extraction.graph
    for tensor in graph.tensors:
        if not is_numpy_type(tensor.dtype):
            raise DialectError(
                f"value {tensor.name!r} of {graph.name} is of type {tensor.dtype}, which TVM alone "
                "can run: export the model in float32 or float16"
            )


def require_states(prepared: Prepared, states: Mapping[str, str], tail: Tail | None) -> None:
    """Raise SessionError if a session could not bind these states.

    They map names of outputs to the inputs of the next run. The model's tail must not read one.
    """
    graph = prepared.units
    names = output_names(prepared.module, len(graph.outputs))
    inputs, outputs = (
        [
            Port(name, "", graph.tensors[t].shape, graph.tensors[t].dtype)
            for t, name in zip(tensors, wanted, strict=True)
        ]
        for tensors, wanted in (
            (graph.inputs, [graph.tensors[t].name for t in graph.inputs]),
            (graph.outputs, names),
        )
    )
    bound = bound_states(states, inputs, outputs)
    if tail is not None:
        read = (value.name for value in tail.model.graph.input)
        require_not_read({state.input.name for state in bound}, read)


def require_same_interface(dialect: Dialect, before: tvm.IRModule, after: tvm.IRModule) -> None:
    """Raise DialectError if the parameters or results of ``main`` differ between two modules."""
    for old, new in zip_longest(dialect.interface(before), dialect.interface(after)):
        if old != new:
            raise DialectError(
                f"scheduling would make {_described(old)} of main {_described(new)}: report this "
                "as a bug, with the module"
            )


def _described(entry: tuple[str, tuple[int, ...], str] | None) -> str:
    if entry is None:
        return "nothing"
    name, shape, dtype = entry
    return f"{name} of shape {list(shape)} and type {dtype}"


def without_elements(graph: OpGraph) -> str | None:
    """Return a sentence that says why all outputs of a graph are empty, or None if some are not."""
    empty = [graph.tensors[t] for t in graph.inputs if 0 in graph.tensors[t].shape]
    if not empty or not all(0 in graph.tensors[t].shape for t in graph.outputs):
        return None
    name, extents = empty[0].name, ",".join(str(extent or "N") for extent in empty[0].shape)
    return (
        f"the outputs have no elements, because input {name!r} of shape {list(empty[0].shape)} has "
        f"none: if its 0 stands for any extent, give --shape {name}:{extents} with a number for N"
    )


def left_out_of(schedule: Schedule, dialect: Dialect) -> str | None:
    """Return a sentence on the parts of a schedule that a dialect's programs ignore, or None.

    Programs of Relay ignore kernel choices and tile placements.
    """
    if dialect.places_tiles or schedule.of_stages_alone == schedule:
        return None
    return (
        f"of the schedule {schedule.policy!r} the stages and groups apply, but the kernels that it "
        f"names of {len(schedule.kernels)} units and the places of tiles in "
        f"{sum(s.placement is not None for s in schedule.stages)} stages are for Relax"
    )
