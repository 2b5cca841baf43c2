"""The tensors that instances exchange: pieces, cut and joined along one axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relay_passes.emitter import Emitter
from relay_passes.instances.part import cut
from tvm_ios.graphturbo.box import Box, common, whole
from tvm_ios.graphturbo.instances import Instances


class Pieces:
    """The pieces of tensors that instances have computed, in a ``main`` that is being built."""

    def __init__(
        self, emitter: Emitter, instances: Instances, values: Sequence[Any], inputs: Sequence[Any]
    ) -> None:
        """Start with all values of the old function, and the values of the graph's inputs."""
        self._emitter = emitter
        self._graph = instances.layers.graph
        self._instances = instances
        self._values = values
        self._inputs = dict(zip(self._graph.inputs, inputs, strict=True))
        #: The pieces that instances have made, by tensor and instance.
        self._pieces: dict[tuple[int, int], Any] = {}
        #: Parts that instances of unsplit sub-graphs read, by tensor and box.
        self._shared: dict[tuple[int, Box], Any] = {}

    def put(self, number: int, tensor: int, value: Any, box: Box) -> None:
        """Store an instance's own piece of a tensor, cut from the box that it computed."""
        owned = self._instances.instances[number].owned[tensor]
        self._pieces[tensor, number] = cut(self._emitter, value, box, owned)

    def read(self, number: int, tensor: int) -> Any:
        """Return the part of a tensor that an instance reads, joined from its sources.

        Instances of a sub-graph that is not split share equal parts.
        """
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
            return cut(self._emitter, self._inputs[tensor], whole(shape), need)
        parts: list[Any] = []
        for maker in self._instances.sources(number, tensor):
            owned = self._instances.instances[maker].owned[tensor]
            shared = common(owned, need)
            parts.append(cut(self._emitter, self._pieces[tensor, maker], owned, shared))
        return self._join(tensor, parts)

    def results(self) -> list[Any]:
        """Return the values of the graph's outputs, joined from their pieces."""
        return [
            self._join(tensor, [self._pieces[tensor, m] for m in self._instances.makers[tensor]])
            if tensor in self._instances.makers
            else self._inputs.get(tensor, self._values[tensor])
            for tensor in self._graph.outputs
        ]

    def _join(self, tensor: int, parts: list[Any]) -> Any:
        if len(parts) == 1:
            return parts[0]
        maker = self._instances.instances[self._instances.makers[tensor][0]]
        split = self._instances.subgraphs[maker.subgraph].split
        assert split is not None
        return self._emitter.joined(parts, split.axes[tensor])
