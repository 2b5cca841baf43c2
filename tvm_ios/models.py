"""Models as a user names them: a zoo name, an ONNX file, a graph file, a bare block graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx

from tvm_ios import zoo
from tvm_ios.bare_graph import bare_graph, is_bare_graph
from tvm_ios.blocks import cut_blocks
from tvm_ios.errors import UserError
from tvm_ios.graph import OpGraph, bits
from tvm_ios.json_text import JsonError, json_object
from tvm_ios.onnx_graph import graph_from_onnx
from tvm_ios.onnx_simplify import simplify
from tvm_ios.random_weights import randomize_constant_weights
from tvm_ios.units import form_units


class ModelError(UserError):
    """A model that cannot be read."""


def load_onnx(model: str, random_weights: int | None = None) -> onnx.ModelProto:
    """A simplified ONNX model from a zoo name or a file.

    Parameters
    ----------
    model
        Zoo name or path.
    random_weights
        Seed of the weights that replace constant-valued ones, or None to keep them.

    Raises
    ------
    ModelError, GraphError
        If there is no such model or it is malformed.
    """
    if model in zoo.names():
        return simplify(zoo.build(model))
    path = Path(model)
    if path.suffix != ".onnx":
        known = ", ".join(zoo.names())
        raise ModelError(f"{model!r} is neither an .onnx file nor one of the zoo: {known}")
    try:
        library: Any = onnx
        loaded: onnx.ModelProto = library.load(path)
        library.checker.check_model(path)
    except FileNotFoundError:
        raise
    except Exception as error:
        reason = str(error).strip().splitlines()
        raise ModelError(
            f"{model} is not a valid ONNX model: {reason[0] if reason else repr(error)}"
        ) from error
    if not loaded.graph.name:
        loaded.graph.name = path.stem
    if random_weights is not None:
        loaded = randomize_constant_weights(loaded, random_weights)
    return simplify(loaded)


def load_graph(model: str, random_weights: int | None = None) -> OpGraph:
    """The graph of units of a model, without TVM."""
    if Path(model).suffix == ".json":
        return OpGraph.from_json(_read_json(Path(model)))
    return form_units(graph_from_onnx(load_onnx(model, random_weights)))


def load_blocks(model: str, max_block: int) -> tuple[str, list[tuple[int, ...]]]:
    """Name and blocks of a model, each as predecessor masks; reads bare block graphs too."""
    path = Path(model)
    if path.suffix == ".json":
        data = _read_json(path)
        if is_bare_graph(data):
            bare = bare_graph(data, model)
            return bare.name, [block.predecessors for block in bare.blocks]
    graph = load_graph(model)
    blocks: list[tuple[int, ...]] = []
    for mask in cut_blocks(graph, max_block):
        number = {unit: i for i, unit in enumerate(bits(mask))}
        blocks.append(
            tuple(
                sum(1 << number[p] for p in bits(graph.predecessors[unit] & mask))
                for unit in number
            )
        )
    return graph.name, blocks


def _read_json(path: Path) -> dict[str, Any]:
    try:
        return json_object(path.read_bytes())
    except JsonError as error:
        raise ModelError(f"{path} is not a graph: {error}") from error
