"""The door of models: what a user names becomes ONNX, a graph of operators or one of units."""

from __future__ import annotations

import onnx

from tvm_ios import zoo
from tvm_ios.errors import ModelError
from tvm_ios.graph.blocks import cut_blocks
from tvm_ios.graph.op_graph import OpGraph, bits
from tvm_ios.graph.units import form_units
from tvm_ios.models.bare_graph import bare_graph
from tvm_ios.models.random_weights import randomize_constant_weights
from tvm_ios.models.source import AnyModel, Form, ModelSource, read_json
from tvm_ios.onnx.batch import with_batch
from tvm_ios.onnx.file import read_onnx
from tvm_ios.onnx.graph import graph_from_onnx
from tvm_ios.onnx.simplify import simplify
from tvm_ios.onnx.supported import require_supported


def load_onnx(model: AnyModel) -> onnx.ModelProto:
    """A simplified ONNX model from a zoo name or a file, named after it.

    Raises
    ------
    ModelError, InputShapeError, BatchError, GraphError
        If there is no such model, it is malformed, or it cannot be scheduled.
    """
    source = ModelSource.of(model)
    return simplified(source, read_model(source))


def simplified(source: ModelSource, model: onnx.ModelProto) -> onnx.ModelProto:
    """What a model that was read becomes before it is scheduled.

    Raises
    ------
    InputShapeError, GraphError
        If shapes are missing, or it cannot be scheduled.
    """
    simple = simplify(model, source.shapes)
    require_supported(source.model, simple)
    return simple


def read_model(source: ModelSource) -> onnx.ModelProto:
    """An ONNX model as it is written, but for its batch and random weights.

    Raises
    ------
    ModelError, BatchError
        If there is no such model, or it is malformed.
    """
    if source.form not in (Form.ZOO, Form.ONNX):
        raise ModelError(f"{source.model} is {source.form.value}, which holds no ONNX model")
    if source.form is Form.ZOO:
        proto = zoo.build(source.model, source.random_weights or 0)
    else:
        proto = read_onnx(source.path)
        proto.graph.name = source.name
        if source.random_weights is not None:
            proto = randomize_constant_weights(proto, source.random_weights)
    if source.batch is not None:
        proto = with_batch(proto, source.batch)
    return proto


def load_operators(model: AnyModel) -> OpGraph:
    """The graph of operators of a model, before units are formed, without TVM.

    Raises
    ------
    ModelError, InputShapeError, GraphError
        As :func:`load_onnx`; if only TVM can read the model, or it has no graph of operators.
    """
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
        return OpGraph.from_json(read_json(source.path))
    return graph_from_onnx(load_onnx(source), already_simplified=True)


def load_graph(model: AnyModel) -> OpGraph:
    """The graph of units of a model, without TVM; raises as :func:`load_operators`.

    A graph in a file of its own is taken for one of units.
    """
    source = ModelSource.of(model)
    graph = load_operators(source)
    return graph if source.form is Form.GRAPH else form_units(graph)


def load_blocks(model: AnyModel, max_block: int) -> tuple[str, list[tuple[int, ...]]]:
    """Name and blocks of a model, each as predecessor masks; reads bare block graphs too."""
    source = ModelSource.of(model)
    if source.form is Form.BARE:
        bare = bare_graph(read_json(source.path), source.model)
        return bare.name, [block.predecessors for block in bare.blocks]
    graph = load_graph(source)
    return graph.name, blocks_of(graph, max_block)


def blocks_of(graph: OpGraph, max_block: int) -> list[tuple[int, ...]]:
    """The blocks of a graph of units, each as predecessor masks numbered from zero."""
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
