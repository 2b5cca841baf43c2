"""Tensors of a ``.tflite`` model that may lie in the memory of others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm_ios.memory.formats.tflite.micro_arena import MicroArena, arena_bytes
from tvm_ios.memory.formats.tflite.model import TfliteModel
from tvm_ios.memory.formats.tflite.schema import Operation

#: Operators whose kernels read an element of an input before they write that of the result.
ELEMENT_WISE = {
    Operation.ADD,
    Operation.HARD_SWISH,
    Operation.LOGISTIC,
    Operation.MUL,
    Operation.RELU,
    Operation.RELU6,
    Operation.SUB,
    Operation.TANH,
}


@dataclass(frozen=True)
class Sharing:
    """Tensors of the first subgraph that may lie in the memory of others.

    What RESHAPE makes always lies in its input, which its kernel then leaves as it is; what
    element-wise operators make may do so. Subgraphs that others call share nothing, because their
    callers copy their inputs and outputs.
    """

    #: For each tensor that is another one in a different shape that other one.
    views: dict[int, int]
    #: For each operator the inputs that its result may be written over.
    over: dict[int, tuple[int, ...]]

    @classmethod
    def of(cls, model: TfliteModel, in_place: bool) -> Sharing:
        """Return what may be shared in a model."""
        views: dict[int, int] = {}
        over: dict[int, tuple[int, ...]] = {}
        sizes, tensors = arena_bytes(model), model.subgraphs[0].tensors
        for number, operator in enumerate(model.subgraphs[0].operators):
            if len(operator.outputs) != 1 or not sizes[operator.outputs[0]]:
                continue
            result = operator.outputs[0]
            fitting = tuple(
                tensor
                for tensor in dict.fromkeys(operator.inputs)
                if tensor >= 0
                and sizes[tensor]
                # One that is repeated is smaller, if only within the same 16 bytes.
                and tensors[tensor].nbytes == tensors[result].nbytes
            )
            if operator.code == Operation.RESHAPE and fitting[:1] == operator.inputs[:1] != ():
                views[result] = operator.inputs[0]
            elif in_place and operator.code in ELEMENT_WISE:
                over[number] = fitting
        return cls(views, over)

    def homes(self, model: TfliteModel, order: Sequence[int], arena: MicroArena) -> list[int]:
        """Return for each tensor of all subgraphs the one in whose memory it lies, or itself."""
        graph, homes = model.subgraphs[0], list(range(len(model.tensors)))
        shared = {*self.views, *self.views.values()}
        for number in order:
            for result in graph.operators[number].outputs[:1]:
                homes[result] = homes[self.views.get(result, result)]
                for tensor in self.over.get(number, ()):
                    dies = arena.tensors[tensor].last == arena.scope[0, number]
                    if dies and tensor not in graph.outputs and not {tensor, result} & shared:
                        homes[result] = homes[tensor]
                        break
        return homes
