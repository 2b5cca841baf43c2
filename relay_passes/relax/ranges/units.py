"""One set of units for a range of shapes, from the units at some of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import onnx
from tvm import relax

from relay_passes.checks import require_numpy_types
from relay_passes.measured_module import MeasuredModule
from relay_passes.pipeline import applied, prepare_canonical
from relay_passes.prepared import Prepared
from relay_passes.relax.expressions import constant
from relay_passes.relax.importer import import_onnx
from relay_passes.relax.ranges.constants import OpenConstant, open_constants
from relay_passes.relax.ranges.function_data import function_data, with_extents
from relay_passes.relax.scheduled import scheduled_units
from relay_passes.relax.target_units import RelaxUnits
from relay_passes.search_options import SearchOptions
from runtime_ext.scheduled_units import ScheduledUnits
from tvm_ios.files.array_files import Array
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.graph.open_graph import open_graph
from tvm_ios.models.load import read_model, simplified
from tvm_ios.models.open_model import keeping_shaped_if_needed, require_onnx
from tvm_ios.models.source import AnyModel, Form, ModelSource
from tvm_ios.models.torch_conditions import require_conditions
from tvm_ios.onnx.inputs import declared_extents
from tvm_ios.policies.sequential import sequential_schedule
from tvm_ios.progress import Progress, silent
from tvm_ios.schedule.chained_schedule import best_disjoint, possible_chains, with_chains
from tvm_ios.schedule.chains import Chain
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.shapes.extent import OpenExtentError, at_values, end_values, is_open, symbols_in
from tvm_ios.shapes.fitting import Values
from tvm_ios.shapes.ranges import Ranges, open_shapes

#: Reads a model for these shapes of its inputs, as the units of a sequential schedule.
ReadUnits = Callable[[Mapping[str, tuple[int, ...]]], ScheduledUnits]
_FUNCTION = "function"


@dataclass(frozen=True)
class OpenUnits:
    """The units of a model for a range of shapes."""

    #: The units, whose types have variables for open extents.
    units: ScheduledUnits
    #: The shapes at which the model was read and had these units, as values of the symbols.
    points: tuple[Values, ...]
    #: Shapes at the ends of the range at which the model has other units, each with the reason.
    special: tuple[tuple[Values, str], ...]


@dataclass(frozen=True)
class OpenModel:
    """A model that was read for a range of shapes."""

    #: Its file, and how to read it.
    source: ModelSource
    #: The model as it is written, or as torch writes it.
    proto: onnx.ModelProto
    #: For each input, by name, its extents, open ones as expressions.
    shapes: Mapping[str, tuple[int, ...]]
    #: Its units.
    opened: OpenUnits


def load_open_model(
    model: AnyModel,
    ranges: Ranges,
    options: SearchOptions | None = None,
    progress: Progress = silent,
) -> OpenModel:
    """Read an ONNX model for all shapes in the ranges of its inputs.

    With ``options`` the units of each attention are one, a chain, if a kernel for their target
    computes all of it; where only the batch is open, so are units that are faster as a chain, as
    measured at the first shape that is read. Raise OpenExtentError if the model has no one set of
    units in the ranges, InputShapeError if these do not fit its inputs, and as
    :func:`relay_passes.load.load_model`.
    """
    source = ModelSource.of(model)
    require_onnx(source)
    proto = read_model(source)
    shapes = open_shapes(ranges, declared_extents(proto))
    require_conditions(proto, shapes)
    if source.form is Form.TORCH:
        from tvm_ios.models.torch_program import require_exported

        ends = end_values(symbols_in(tuple(shapes.values())))
        require_exported(
            source.path, ({n: at_values(s, end) for n, s in shapes.items()} for end in ends)
        )

    def opened(keep_shaped: bool) -> OpenUnits:
        first: list[tuple[OpGraph, list[Chain]]] = []
        return open_units(partial(read, first, keep_shaped), shapes, progress)

    def read(
        first: list[tuple[OpGraph, list[Chain]]],
        keep_shaped: bool,
        at: Mapping[str, tuple[int, ...]],
    ) -> ScheduledUnits:
        at_point = replace(source, shapes=at)
        simple = simplified(at_point, proto, is_open=True, keep_shaped=keep_shaped)
        if simple.tail is not None:
            raise OpenExtentError(
                f"{simple.tail.sentence}: only a model whose whole runs in the program has a range"
            )
        # Names are those of the first shape.
        module = import_onnx(simple.model, named=not first)
        prepared = prepare_canonical(module, source.name)
        require_numpy_types(prepared)
        graph, schedule = prepared.units, sequential_schedule(prepared.units)
        if not first:
            chains = list[Chain]()
            if options is not None:
                chains = _attentions(prepared, schedule, options)
                if not chains and _is_by_batch(shapes):
                    chains = _faster_chains(prepared, schedule, options)
            first.append((graph, chains))
        like, chains = first[0]
        if [op.inputs for op in like.operators] == [op.inputs for op in graph.operators]:
            schedule = with_chains(schedule, chains)
        return scheduled_units(applied(prepared, schedule))

    return OpenModel(source, proto, shapes, keeping_shaped_if_needed(opened))


def _attentions(prepared: Prepared, schedule: Schedule, options: SearchOptions) -> list[Chain]:
    """Return the chains of units that are an attention which one kernel computes."""
    units = RelaxUnits(prepared, options)
    kernels_of = units.backend.compiler.attention_kernels
    chains = possible_chains(
        prepared.units, schedule.stages, lambda chain: kernels_of(units.source(chain))
    )
    return best_disjoint({chain: float(len(chain)) for _, chain in chains})


def _is_by_batch(shapes: Mapping[str, Sequence[int]]) -> bool:
    """Return whether no axis of an input is open but the first."""
    return not any(is_open(extent) for extents in shapes.values() for extent in extents[1:])


def _faster_chains(
    prepared: Prepared, schedule: Schedule, options: SearchOptions
) -> Sequence[Chain]:
    """Return the chains of units that are measured to be faster than the units."""
    chains = MeasuredModule(RelaxUnits(prepared, options)).timer.chains
    return chains.chained(schedule, None).chains


def open_units(
    read: ReadUnits, shapes: Mapping[str, Sequence[int]], progress: Progress = silent
) -> OpenUnits:
    """Return the units of a model for all shapes in a range.

    ``shapes`` has for each input its extents, open ones as expressions. Raise OpenExtentError as
    :func:`tvm_ios.graph.open_graph.open_graph`, and if a constant depends on the shape in another
    way than :func:`~relay_passes.relax.ranges.constants.open_constants` knows.
    """
    at_hint: list[ScheduledUnits] = []
    arrays: dict[tuple[tuple[int, ...], ...], list[list[Array]]] = {}
    outputs: dict[tuple[tuple[int, ...], ...], list[Array]] = {}

    def graph(at: Mapping[str, tuple[int, ...]]) -> OpGraph:
        units = read(at)
        if not at_hint:
            at_hint.append(units)
        operators = tuple(
            replace(op, attrs={_FUNCTION: function_data(function)})
            for op, function in zip(units.graph.operators, units.functions, strict=True)
        )
        arrays[tuple(at.values())] = [
            [np.from_dlpack(value.value) for value in values] for values in units.constants
        ]
        known = units.constant_outputs
        outputs[tuple(at.values())] = [known[tensor].value.numpy() for tensor in sorted(known)]
        return replace(units.graph, operators=operators)

    opened = open_graph(graph, shapes, progress)
    units = at_hint[0]
    for place, tensor in enumerate(sorted(units.constant_outputs)):
        first, *others = (of_shape[place] for of_shape in outputs.values())
        if not all(np.array_equal(first, other, equal_nan=True) for other in others):
            name = units.graph.tensors[tensor].name
            raise OpenExtentError(
                f"output {name!r} depends on the shapes of inputs alone, and is another constant "
                "at each"
            )
    open_extents = list(dict.fromkeys(e for s in shapes.values() for e in s if is_open(e)))
    points = [arrays[at_values(tuple(map(tuple, shapes.values())), p)] for p in opened.points]
    functions: list[Any] = []
    constants: list[tuple[Any, ...]] = []
    for place, op in enumerate(units.graph.operators):
        data: Any = opened.attrs[place][_FUNCTION]
        at_points = [arrays_of[place] for arrays_of in points]
        known = open_constants(op.name, data, at_points, opened.points, open_extents)
        functions.append(_opened(units.functions[place], data, known, op.name))
        given = enumerate(units.constants[place])
        constants.append(tuple(constant(known[i].table) if i in known else v for i, v in given))
    tensors = tuple(
        replace(tensor, shape=shape)
        for tensor, shape in zip(units.graph.tensors, opened.shapes, strict=True)
    )
    units = replace(
        units,
        graph=replace(units.graph, tensors=tensors),
        functions=tuple(functions),
        constants=tuple(constants),
    )
    return OpenUnits(units, opened.points, opened.special)


def _opened(
    function: Any, data: tuple[Any, ...], known: Mapping[int, OpenConstant], unit: str
) -> Any:
    """Return a function with open extents, which makes its open constants of tables."""
    opened = with_extents(function, data, unit)
    if not known:
        return opened
    params, bindings = list(opened.params), list[Any]()
    first = int(opened.attrs["num_input"])
    for place, each in known.items():
        made, table = params[first + place], each.table
        ty = relax.TensorType(table.shape, str(table.dtype))
        params[first + place] = relax.Var(made.name, ty)
        bindings += each.bindings(made, params[first + place], data[0][first + place][1:])
    head, *others = opened.body.blocks
    blocks = [type(head)([*bindings, *head.bindings]), *others]
    body = relax.SeqExpr(blocks, opened.body.body)
    whole = relax.Function(params, body, opened.ret_ty, is_pure=True)
    return whole.with_attrs(dict(opened.attrs.items()))
