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
    """A model, and the backend that compiles it.

    Attributes
    ----------
    module
        The canonical, unscheduled module; TVM's own build is made of it.
    source
        Returns the function and layouts of a unit, or of merged ones.
    unit_constants
        Returns the values of a unit's function's parameters after the data.
    constant_outputs
        For each output of the graph that is a constant its value.
    parts
        For each tensor of the graph that lies in another tensor's memory, its part of that.
    operators
        The graph of operators that the units are made of.
    operator_constant
        Returns the value of a constant tensor of that graph.
    precision
        The precision of the programs: float32, tf32 or float16.
    pruning, max_block
        Limits of the searches that the bundle is for.
    original
        The model in its own framework; None for TVM, or if the weights were replaced.
    simple
        The simplified ONNX model, if it came from one and has these weights.
    drawn
        Recipes of random constants, by content key.
    """

    name: str
    module: tvm.IRModule
    graph: OpGraph
    source: Callable[[tuple[int, ...]], UnitSource]
    unit_constants: Callable[[int], Sequence[Array]]
    constant_outputs: Mapping[int, Array]
    parts: Mapping[int, Part]
    operators: OpGraph
    operator_constant: Callable[[int], Array]
    output_names: Sequence[str]
    backend: Backend[Any]
    precision: str
    pruning: Pruning
    max_block: int
    original: Original | None = None
    simple: onnx.ModelProto | None = None
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
