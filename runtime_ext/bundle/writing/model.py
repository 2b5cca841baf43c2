"""The model from which a bundle is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import onnx
import tvm

from runtime_ext.backend import Backend
from runtime_ext.bundle.weights import Draw
from runtime_ext.units.unit import UnitSource
from runtime_ext.verification.expected import Original
from tvm_ios.files.array_files import Array
from tvm_ios.graph.blocks import cut_blocks
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.ios.ending_space import Pruning
from tvm_ios.program.program import Part


@dataclass(frozen=True)
class ModelToBundle:
    """A model, and the backend that compiles it."""

    name: str
    #: The canonical, unscheduled module; TVM's own build is made of it.
    module: tvm.IRModule

    graph: OpGraph
    #: Returns the function and layouts of a unit, or of merged ones.
    source: Callable[[tuple[int, ...]], UnitSource]
    #: Returns the values of a unit's function's parameters after the data.
    unit_constants: Callable[[int], Sequence[Array]]
    #: For each output of the graph that is a constant its value.
    constant_outputs: Mapping[int, Array]
    #: For each tensor of the graph that lies in another tensor's memory, its part of that.
    parts: Mapping[int, Part]
    #: The graph of operators that the units are made of.
    operators: OpGraph
    #: Returns the value of a constant tensor of that graph.
    operator_constant: Callable[[int], Array]

    output_names: Sequence[str]
    backend: Backend[Any]
    #: The precision of the programs: float32, tf32 or float16.
    precision: str
    #: Limits of the searches that the bundle is for.
    pruning: Pruning
    max_block: int
    #: The model in its own framework; None for TVM, or if the weights were replaced.
    original: Original | None = None
    #: The simplified ONNX model, if it came from one and has these weights.
    simple: onnx.ModelProto | None = None
    #: Recipes of random constants, by content key.
    drawn: Mapping[str, Draw] = field(default_factory=dict[str, Draw])

    @cached_property
    def blocks(self) -> Sequence[int]:
        """The blocks of the graph as bit sets of units, in the order of execution."""
        return cut_blocks(self.graph, self.max_block)

    @property
    def constant_operands(self) -> dict[int, Array]:
        """The values of all constant tensors of the graph of operators."""
        return {
            number: self.operator_constant(number)
            for number, tensor in enumerate(self.operators.tensors)
            if tensor.constant
        }
