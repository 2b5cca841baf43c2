"""Load the model that a user names as ONNX, a graph of operators or a graph of units.

Modules that rewrite models are imported only once a model was read, so that a wrong name is
reported without delay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import onnx

from tvm_ios import zoo
from tvm_ios.errors import ModelError
from tvm_ios.graph.blocks import cut_blocks
from tvm_ios.graph.elements import GraphError
from tvm_ios.graph.op_graph import OpGraph, bits
from tvm_ios.graph.units import form_units
from tvm_ios.models.bare_graph import bare_graph
from tvm_ios.models.source import AnyModel, Form, ModelSource, read_json

if TYPE_CHECKING:
    from tvm_ios.onnx.tail import Tail


def load_onnx(model: AnyModel) -> onnx.ModelProto:
    """Load a zoo network or a file as a simplified ONNX model, without its tail.

    Raise ModelError, InputShapeError, BatchError or GraphError if there is no such model, it is
    malformed, or it cannot be scheduled.
    """
    source = ModelSource.of(model)
    return simplified(source, read_model(source)).model


@dataclass(frozen=True)
class SimplifiedModel:
    """A simplified model that can be scheduled, and the tail that runs after it."""

    #: The simplified model, without the tail.
    model: onnx.ModelProto
    #: The model that was read, and the shapes of its inputs.
    original: onnx.ModelProto
    shapes: Mapping[str, Sequence[int]]
    #: The part before the tail, with its constants folded, and the end of the model whose shapes
    #: depend on the data; None if there is none.
    head: onnx.ModelProto | None = None
    tail: Tail | None = None

    @property
    def written(self) -> onnx.ModelProto:
        """The model as written, with static input shapes.

        If there is a tail, only the part before it, which may have its constants folded and its
        quantised operators in floats.
        """
        from tvm_ios.onnx.as_written import beginning_as_written, with_static_inputs

        whole = with_static_inputs(self.original, self.shapes)
        return whole if self.head is None else beginning_as_written(whole, self.head)


def simplified(
    source: ModelSource,
    model: onnx.ModelProto,
    *,
    is_open: bool = False,
    keep_shaped: bool = False,
) -> SimplifiedModel:
    """Simplify a model that was read, and split off a tail whose shapes depend on the data.

    With ``is_open`` the model is read at other shapes, too, and compared; with ``keep_shaped``
    what these shapes alone do not need stays, as of :func:`~tvm_ios.onnx.simplify.simplify`. Raise
    InputShapeError if shapes are missing, GraphError if it cannot be scheduled.
    """
    from tvm_ios.models.torch_conditions import require_conditions
    from tvm_ios.onnx.known_shapes import known_shapes
    from tvm_ios.onnx.simplify import before_tail, simplify
    from tvm_ios.onnx.supported import require_supported, require_tensors

    require_tensors(source.name, model)
    shapes = known_shapes(source.name, model, source.shapes)
    require_conditions(model, shapes)
    cells = source.cells or source.dialect != "relax"
    try:
        simple = simplify(model, shapes, cells=cells, is_open=is_open, keep_shaped=keep_shaped)
        require_supported(source.name, simple)
        return SimplifiedModel(simple, model, shapes)
    except GraphError:
        # The parts would be compared with the exported model, not with what torch computes.
        cut = None if source.form is Form.TORCH else before_tail(model, shapes)
        if cut is None:
            raise
        if source.beside:
            raise ModelError(
                f"the end of one of {source.name} has shapes that depend on the data "
                f"({cut[1].sentence}): such a model runs alone"
            ) from None
    head, tail = cut
    simple = simplify(head, cells=cells)
    require_supported(source.name, simple)
    return SimplifiedModel(simple, model, shapes, head, tail)


def read_model(source: ModelSource) -> onnx.ModelProto:
    """Return a source's ONNX model as written, with its batch, random weights and random numbers.

    Raise ModelError or BatchError if there is no such model, or it is malformed.
    """
    if not source.is_onnx:
        raise ModelError(f"{source.model} is {source.form.value}, which holds no ONNX model")
    proto = _read(source)
    if source.random_seed is not None:
        from tvm_ios.onnx.as_written import with_static_inputs
        from tvm_ios.onnx.known_shapes import known_shapes
        from tvm_ios.onnx.rewrites.random import draw_once

        shapes = known_shapes(source.name, proto, source.shapes)
        proto = draw_once(with_static_inputs(proto, shapes), source.random_seed)
    return proto


def _read(source: ModelSource) -> onnx.ModelProto:
    """Read a source's ONNX model; its random operators are not replaced yet."""
    if source.form is Form.TORCH:
        for option, given in (
            ("--random-weights", source.random_weights),
            ("--random-seed", source.random_seed),
            ("--batch", source.batch),
        ):
            if given is not None:
                raise ModelError(
                    f"{source.model} is {source.form.value}, which is taken as it is: "
                    f"leave out {option}"
                )
        from tvm_ios.models.torch_program import onnx_from_torch

        proto = onnx_from_torch(source.path, source.shapes)
        proto.graph.name = source.name
        return proto
    if source.form is Form.TOGETHER:
        from tvm_ios.onnx.join import join

        return join({part.name: read_model(part) for part in source.parts})
    if source.form is Form.ZOO:
        proto = zoo.build(source.model, source.random_weights or 0)
    else:
        from tvm_ios.onnx.file import read_onnx

        proto = source.written or read_onnx(source.path)
        proto.graph.name = source.name
        if source.random_weights is not None:
            from tvm_ios.models.random_weights import randomize_constant_weights

            proto = randomize_constant_weights(proto, source.random_weights)
    if source.batch is not None:
        from tvm_ios.onnx.batch import with_batch

        proto = with_batch(proto, source.batch)
    return proto


def load_operators(model: AnyModel) -> OpGraph:
    """Return the graph of a model's operators, before units are formed, without its tail.

    It needs no TVM. Raise as :func:`load_onnx`, and ModelError if only TVM can read the model or it
    has no graph of operators.
    """
    return operators_and_tail(model)[0]


def operators_and_tail(model: AnyModel) -> tuple[OpGraph, Tail | None]:
    """Return the graph of a model's operators, and its tail; raise as :func:`load_operators`."""
    source = ModelSource.of(model)
    if source.form is Form.BARE:
        raise ModelError(
            f"{source.model} is a bare block graph, of units without shapes: only "
            "`tvm-ios stats` reads it, and takes neither --shape nor --batch"
        )
    if source.form is Form.GRAPH:
        if source.shapes or source.batch is not None:
            option = "--shape" if source.shapes else "--batch"
            raise ModelError(
                f"{source.model} is a graph, whose shapes are fixed: leave out {option}"
            )
        return OpGraph.from_json(read_json(source.path)), None
    simple = simplified(source, read_model(source))
    from tvm_ios.onnx.graph import graph_from_onnx

    return graph_from_onnx(simple.model, already_simplified=True), simple.tail


def load_graph(model: AnyModel) -> OpGraph:
    """Return the graph of a model's units, without TVM; raise as :func:`load_operators`.

    A graph file is assumed to hold units already.
    """
    return graph_and_tail(model)[0]


def graph_and_tail(model: AnyModel) -> tuple[OpGraph, Tail | None]:
    """Return the graph of a model's units, and its tail; raise as :func:`load_graph`."""
    source = ModelSource.of(model)
    graph, tail = operators_and_tail(source)
    return (graph if source.form is Form.GRAPH else form_units(graph)), tail


def load_blocks(model: AnyModel, max_block: int) -> tuple[str, list[tuple[int, ...]]]:
    """Return a model's name and blocks, each as predecessor masks; also of bare block graphs."""
    source = ModelSource.of(model)
    if source.form is Form.BARE:
        bare = bare_graph(read_json(source.path), source.model)
        return bare.name, [block.predecessors for block in bare.blocks]
    graph = load_graph(source)
    return graph.name, blocks_of(graph, max_block)


def blocks_of(graph: OpGraph, max_block: int) -> list[tuple[int, ...]]:
    """Return the blocks of a graph of units, each as predecessor masks numbered from zero."""
    blocks: list[tuple[int, ...]] = []
    for mask in cut_blocks(graph, max_block):
        number = {unit: i for i, unit in enumerate(bits(mask))}
        blocks.append(
            tuple(
                sum(1 << number[p] for p in bits(graph.predecessors[unit] & mask))
                for unit in number
            )
        )
    return blocks
