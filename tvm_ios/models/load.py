"""Models as a user names them: a zoo name or a file, and what its kind is."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

import onnx

from tvm_ios import zoo
from tvm_ios.files.json_text import JsonError, json_object
from tvm_ios.graph.blocks import cut_blocks
from tvm_ios.graph.op_graph import OpGraph, bits
from tvm_ios.graph.units import form_units
from tvm_ios.models.bare_graph import bare_graph, is_bare_graph
from tvm_ios.models.random_weights import randomize_constant_weights
from tvm_ios.onnx.batch import with_batch
from tvm_ios.onnx.file import ModelError, read_onnx
from tvm_ios.onnx.graph import graph_from_onnx
from tvm_ios.onnx.simplify import simplify
from tvm_ios.onnx.supported import require_supported

__all__ = [
    "Form",
    "ModelError",
    "form_of",
    "load_blocks",
    "load_graph",
    "load_onnx",
    "load_operators",
    "read_json",
]

#: Shapes of inputs, by name.
Shapes = Mapping[str, Sequence[int]]


class Form(Enum):
    """What a model is given as."""

    ZOO = "a network of the zoo"
    ONNX = "an .onnx file"
    TORCH = "a .pt2 file of torch.export"
    MODULE = "a TVM module saved as JSON"
    GRAPH = "a graph .json"
    BARE = "a bare block graph .json"

    @property
    def needs_tvm(self) -> bool:
        """Whether only TVM can read it."""
        return self in (Form.TORCH, Form.MODULE)


def form_of(model: str) -> Form:
    """What a model is, by its name; of JSON files by their content.

    Raises
    ------
    ModelError
        If it is nothing that can be read.
    """
    if model in zoo.names():
        return Form.ZOO
    path = Path(model)
    if path.suffix == ".onnx":
        return Form.ONNX
    if path.suffix == ".pt2":
        return Form.TORCH
    if path.suffix == ".json":
        data = read_json(path)
        if is_bare_graph(data):
            return Form.BARE
        return Form.MODULE if "nodes" in data else Form.GRAPH
    near = difflib.get_close_matches(model, zoo.names(), 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ModelError(
        f"{model!r} is neither a model file (.onnx, .pt2, .json) nor one of the zoo: "
        f"{', '.join(zoo.names())}{hint}"
    )


def load_onnx(
    model: str,
    random_weights: int | None = None,
    shapes: Shapes | None = None,
    batch: int | None = None,
) -> onnx.ModelProto:
    """A simplified ONNX model from a zoo name or a file, named after it.

    Parameters
    ----------
    model
        Zoo name or path.
    random_weights
        Seed of the weights that replace constant-valued ones, or None to keep them; a network
        of the zoo is built with this seed.
    shapes
        Of inputs with dynamic dimensions.
    batch
        Another leading extent of all inputs.

    Raises
    ------
    ModelError, InputShapeError, BatchError, GraphError
        If there is no such model, it is malformed, or it cannot be scheduled.
    """
    form = form_of(model)
    if form not in (Form.ZOO, Form.ONNX):
        raise ModelError(f"{model} is {form.value}, which holds no ONNX model")
    if form is Form.ZOO:
        proto = zoo.build(model, random_weights or 0)
    else:
        path = Path(model)
        proto = read_onnx(path)
        proto.graph.name = path.stem
        if random_weights is not None:
            proto = randomize_constant_weights(proto, random_weights)
    if batch is not None:
        proto = with_batch(proto, batch)
    simple = simplify(proto, shapes)
    require_supported(model, simple)
    return simple


def load_operators(
    model: str,
    random_weights: int | None = None,
    shapes: Shapes | None = None,
    batch: int | None = None,
) -> OpGraph:
    """The graph of operators of a model, before units are formed, without TVM.

    Raises
    ------
    ModelError, InputShapeError, GraphError
        As :func:`load_onnx`; if only TVM can read the model, or it has no graph of operators.
    """
    form = form_of(model)
    if form is Form.BARE:
        raise ModelError(
            f"{model} is a bare block graph, of units without shapes: only `tvm-ios stats` reads "
            "it, and takes neither --shape nor --batch"
        )
    if form is Form.GRAPH:
        if shapes or batch is not None:
            option = "--shape" if shapes else "--batch"
            raise ModelError(f"{model} is a graph, whose shapes are fixed: leave out {option}")
        return OpGraph.from_json(read_json(Path(model)))
    return graph_from_onnx(load_onnx(model, random_weights, shapes, batch), already_simplified=True)


def load_graph(
    model: str,
    random_weights: int | None = None,
    shapes: Shapes | None = None,
    batch: int | None = None,
) -> OpGraph:
    """The graph of units of a model, without TVM; raises as :func:`load_operators`.

    A graph in a file of its own is taken for one of units.
    """
    graph = load_operators(model, random_weights, shapes, batch)
    return graph if form_of(model) is Form.GRAPH else form_units(graph)


def load_blocks(model: str, max_block: int) -> tuple[str, list[tuple[int, ...]]]:
    """Name and blocks of a model, each as predecessor masks; reads bare block graphs too."""
    if form_of(model) is Form.BARE:
        bare = bare_graph(read_json(Path(model)), model)
        return bare.name, [block.predecessors for block in bare.blocks]
    graph = load_graph(model)
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


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file.

    Raises
    ------
    ModelError
        If the file is not JSON, or something other than an object.
    """
    try:
        return json_object(path.read_bytes())
    except JsonError as error:
        raise ModelError(f"{path} is not a graph: {error}") from error
