"""What instances make of tensors and read of them: pieces, cut and joined along one axis."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax

from relay_passes.relax.extract import Extraction
from relay_passes.relax.part import cut
from tvm_ios.graphturbo.box import Box, common, whole
from tvm_ios.graphturbo.instances import Instances


class Pieces:
    """The tensors between the instances in a ``main`` that is being built."""

    def __init__(
        self,
        builder: relax.BlockBuilder,
        extraction: Extraction,
        instances: Instances,
        given: dict[int, Any],
    ) -> None:
        """Begin with what the graph is ``given``, by tensor."""
        self._builder = builder
        self._extraction = extraction
        self._instances = instances
        self._given = given
        self._made: dict[tuple[int, int], Any] = {}
        #: Whole tensors, for those that read them whole on all lanes.
        self._whole: dict[int, Any] = {}

    def put(self, number: int, tensor: int, value: Any, held: Box, name: str = "") -> None:
        """An instance has made a box of a tensor, of which its own piece is kept."""
        owned = self._instances.instances[number].owned[tensor]
        self._made[tensor, number] = cut(self._builder, value, held, owned, name)

    def read(self, number: int, tensor: int, name: str = "") -> Any:
        """What an instance reads of a tensor."""
        instance = self._instances.instances[number]
        if self._instances.subgraphs[instance.subgraph].split is None:
            if tensor not in self._whole:
                self._whole[tensor] = self._read(number, tensor, name)
            return self._whole[tensor]
        return self._read(number, tensor, name)

    def _read(self, number: int, tensor: int, name: str) -> Any:
        need = self._instances.instances[number].needs[tensor]
        if tensor not in self._instances.makers:
            shape = self._extraction.graph.tensors[tensor].shape
            return cut(self._builder, self._given[tensor], whole(shape), need, name)
        parts: list[Any] = []
        for maker in self._instances.sources(number, tensor):
            owned = self._instances.instances[maker].owned[tensor]
            shared = common(owned, need)
            parts.append(cut(self._builder, self._made[tensor, maker], owned, shared, name))
        return self._join(tensor, parts, name)

    def emit_output(self, old: tvm.relax.Function) -> Any:
        """The end of ``main``: the graph's outputs, in a tuple if the old function has one."""
        results = [
            self._join(tensor, [self._made[tensor, m] for m in self._instances.makers[tensor]])
            if tensor in self._instances.makers
            else self._given.get(tensor, self._extraction.values[tensor])
            for tensor in self._extraction.graph.outputs
        ]
        return emit_results(self._builder, old, results)

    def _join(self, tensor: int, parts: list[Any], name: str = "") -> Any:
        if len(parts) == 1:
            return parts[0]
        maker = self._instances.instances[self._instances.makers[tensor][0]]
        split = self._instances.subgraphs[maker.subgraph].split
        assert split is not None
        return self._builder.emit(relax.op.concat(parts, axis=split.axes[tensor]), name)


def emit_results(builder: relax.BlockBuilder, old: tvm.relax.Function, results: list[Any]) -> Any:
    """The output of a function that returns the same as an old one."""
    several = len(results) > 1 or isinstance(old.ret_ty, relax.TupleType)
    return builder.emit_output(relax.Tuple(results) if several else results[0])
