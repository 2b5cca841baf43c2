"""The schedules that the authors of IOS found for Inception V3 on a V100, as graphs with stages.

Each file has a network whose convolutions are merged already, and its stages block by block. What
their engine copies is an operator here: values that are joined, and, in batches of more than one,
a part of a merged convolution's channels.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from tvm_ios.graph.elements import AttrValue, Operator, Tensor
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.schedule.stage import Stage, Strategy

from .latencies import SCHEDULES

#: The batches that they have schedules for.
BATCHES = (1, 32, 128)


def authors_schedule(optimised_for: int, batch: int) -> tuple[OpGraph, list[Stage]]:
    """The graph of a schedule, with the stages in which it runs.

    Parameters
    ----------
    optimised_for
        The batch that it was found for, one of :data:`BATCHES`.
    batch
        The batch that it is to run.
    """
    path = SCHEDULES / f"inception_v3-v100-batch{optimised_for}.json"
    data = json.loads(path.read_text())
    graph = _Graph(batch)
    graph.values["0"] = graph.tensor("0", data["input"]["output_shape"])
    stages: list[Stage] = []
    for block in data["blocks"]:
        nodes = {node["name"]: node for node in (*block["inner_nodes"], block["exit_node"])}
        for groups in block["stages"]:
            units = [
                [unit for name in group for unit in graph.add(nodes[name])] for group in groups
            ]
            stages.append(Stage(Strategy.CONCURRENT, tuple(map(tuple, units))))
    last = graph.operators[-1].outputs
    return OpGraph(path.stem, tuple(graph.operators), tuple(graph.tensors), (0,), last), stages


@dataclass
class _Graph:
    batch: int
    operators: list[Operator] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)
    values: dict[str, int] = field(default_factory=dict)

    def tensor(self, name: str, shape: Sequence[int]) -> int:
        self.tensors.append(Tensor(name, (self.batch, *shape)))
        return len(self.tensors) - 1

    def add(self, node: Mapping[str, Any]) -> list[int]:
        """The operators of a node: copies of what it reads, if need be, and itself."""
        first = len(self.operators)
        parts = [self._part(*value) for term in node["inputs"] for value in term]
        shape = node["output_shape"]
        if node["type"] == "identity":
            output = self._operator("concat", parts, shape, node["name"])
        elif node["type"] == "pool":
            flops = math.prod(node["kernel"]) * math.prod(shape) * self.batch
            output = self._operator("avg_pool2d", parts, shape, node["name"], flops)
        else:
            read = sum(end - begin for term in node["inputs"] for _, begin, end in term)
            window = (read // node["groups"], *node["kernel"])
            self.tensors.append(Tensor("w", (shape[0], *window), constant=True))
            flops = 2 * math.prod(window) * math.prod(shape) * self.batch
            weight = len(self.tensors) - 1
            output = self._operator("conv2d", [*parts, weight], shape, node["name"], flops, node)
        self.values[node["name"]] = output
        return list(range(first, len(self.operators)))

    def _part(self, name: str, begin: int, end: int) -> int:
        """Some channels of a value; in one image they lie together and nothing is copied."""
        value = self.values[name]
        whole = self.tensors[value].shape
        if self.batch == 1 or (begin, end) == (0, whole[1]):
            return value
        return self._operator("slice", [value], (end - begin, *whole[2:]), f"{name}[{begin}:{end}]")

    def _operator(
        self,
        kind: str,
        inputs: Sequence[int],
        shape: Sequence[int],
        name: str,
        flops: int = 0,
        convolution: Mapping[str, Any] = MappingProxyType({}),
    ) -> int:
        output = self.tensor(name, shape)
        attributes: dict[str, AttrValue] = {}
        if convolution:
            attributes = {
                "kernel": tuple(convolution["kernel"]),
                "strides": tuple(convolution["stride"]),
                "group": convolution["groups"],
            }
        self.operators.append(
            Operator(name, kind, tuple(inputs), (output,), MappingProxyType(attributes), flops)
        )
        return output
