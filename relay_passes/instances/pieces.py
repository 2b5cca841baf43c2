"""What instances make of tensors and read of them: pieces, cut and joined along one axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relay_passes.emitter import Emitter
from relay_passes.instances.part import cut
from tvm_ios.graphturbo.box import Box, common, whole
from tvm_ios.graphturbo.instances import Instances


class Pieces:
    """The tensors between the instances in a ``main`` that is being built."""

    def __init__(
        self,
        emitter: Emitter,
        instances: Instances,
        values: Sequence[Any],
        given: Sequence[Any],
    ) -> None:
        """Begin with the values of the old function and with those of the graph's inputs."""
        self._emitter = emitter
        self._graph = instances.layers.graph
        self._instances = instances
        self._values = values
        self._given = dict(zip(self._graph.inputs, given, strict=True))
        self._made: dict[tuple[int, int], Any] = {}
        #: What is read on all lanes, by tensor and box.
        self._shared: dict[tuple[int, Box], Any] = {}

    def put(self, number: int, tensor: int, value: Any, held: Box) -> None:
        """An instance has made a box of a tensor, of which its own piece is kept."""
        owned = self._instances.instances[number].owned[tensor]
        self._made[tensor, number] = cut(self._emitter, value, held, owned)

    def read(self, number: int, tensor: int) -> Any:
        """What an instance reads of a tensor."""
        instance = self._instances.instances[number]
        if self._instances.subgraphs[instance.subgraph].split is None:
            key = tensor, instance.needs[tensor]
            if key not in self._shared:
                self._shared[key] = self._read(number, tensor)
            return self._shared[key]
        return self._read(number, tensor)

    def _read(self, number: int, tensor: int) -> Any:
        need = self._instances.instances[number].needs[tensor]
        if tensor not in self._instances.makers:
            shape = self._graph.tensors[tensor].shape
            return cut(self._emitter, self._given[tensor], whole(shape), need)
        parts: list[Any] = []
        for maker in self._instances.sources(number, tensor):
            owned = self._instances.instances[maker].owned[tensor]
            shared = common(owned, need)
            parts.append(cut(self._emitter, self._made[tensor, maker], owned, shared))
        return self._join(tensor, parts)

    def results(self) -> list[Any]:
        """The graph's outputs."""
        return [
            self._join(tensor, [self._made[tensor, m] for m in self._instances.makers[tensor]])
            if tensor in self._instances.makers
            else self._given.get(tensor, self._values[tensor])
            for tensor in self._graph.outputs
        ]

    def _join(self, tensor: int, parts: list[Any]) -> Any:
        if len(parts) == 1:
            return parts[0]
        maker = self._instances.instances[self._instances.makers[tensor][0]]
        split = self._instances.subgraphs[maker.subgraph].split
        assert split is not None
        return self._emitter.joined(parts, split.axes[tensor])
