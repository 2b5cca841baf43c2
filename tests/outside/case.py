"""A case, the registry of kinds, and how an ONNX model is put together."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.random import Generator
from onnx import helper, numpy_helper

from tvm_ios.files.array_files import Array


@dataclass(frozen=True)
class Case:
    """A model and its inputs."""

    #: An ``onnx.ModelProto``, or a ``torch.nn.Module``.
    model: Any
    #: Inputs by name, in the model's order.
    feeds: Mapping[str, Array]
    #: The outputs, where no other runtime reads the model.
    expected: Sequence[Array] | None = None
    #: The relative difference that is allowed; wider where eight bits are rounded.
    rtol: float = 1e-3
    #: By how much integers may differ: of a number just between two either may be taken.
    steps: int = 0


Draw = Callable[[Generator], Case]
#: The function that draws a case, by kind.
KINDS: dict[str, Draw] = {}


def kind(name: str) -> Callable[[Draw], Draw]:
    """Add a function to :data:`KINDS`."""

    def add(draw: Draw) -> Draw:
        KINDS[name] = draw
        return draw

    return add


def drawn(name: str, number: int, seed: int) -> Case:
    """Return the case of a kind and a number; the same for the same seed."""
    return KINDS[name](np.random.default_rng([seed, zlib.crc32(name.encode()), number]))


def onnx_model(
    nodes: Sequence[Any],
    feeds: Mapping[str, Array],
    outputs: Mapping[str, Any] | Sequence[str],
    weights: Mapping[str, Array] | None = None,
    opset: int = 20,
    domains: Sequence[str] = (),
) -> onnx.ModelProto:
    """Return a model of nodes.

    Parameters
    ----------
    nodes
        As ``helper.make_node`` makes them, in order.
    feeds
        The inputs, with shapes and types as they are.
    outputs
        The types by name, by default float32; their shapes are not said.
    weights
        Constants by name.
    opset, domains
        ONNX's version, and domains of other operators, of version 1.
    """
    types = outputs if isinstance(outputs, Mapping) else dict.fromkeys(outputs, np.float32)
    graph = helper.make_graph(
        nodes,
        "drawn",
        [_described(name, array.dtype, array.shape) for name, array in feeds.items()],
        [_described(name, np.dtype(dtype), None) for name, dtype in types.items()],
        [numpy_helper.from_array(np.asarray(w), name) for name, w in (weights or {}).items()],
    )
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    return _with_shapes(helper.make_model(graph, opset_imports=imports, ir_version=8))


def _described(name: str, dtype: Any, shape: Any) -> Any:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(dtype), shape)


def _with_shapes(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with the shapes of outputs that ONNX infers."""
    try:
        inferred = onnx.shape_inference.infer_shapes(model)
    except onnx.shape_inference.InferenceError:
        return model
    for mine, theirs in zip(model.graph.output, inferred.graph.output, strict=True):
        if theirs.type.tensor_type.HasField("shape"):
            mine.CopyFrom(theirs)
    return model


def floats(rng: Generator, *shape: int) -> Array:
    """Return normally distributed numbers in float32."""
    return rng.standard_normal(shape).astype(np.float32)


node = helper.make_node
