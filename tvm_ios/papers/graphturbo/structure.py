"""What ResNet-50 is made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tvm_ios.models.load import load_operators
from tvm_ios.papers.row import How, Row
from tvm_ios.papers.steps import Steps


def second_stage(published: Mapping[str, Any], steps: Steps) -> Iterator[Row]:
    """Operators of the second stage of ResNet-50 (GraphTurbo, figures 2 and 10).

    A batch norm is an operator, here the addition that it becomes; a ReLU and the addition of
    both ways before it are one.
    """
    graph = load_operators("resnet50")
    stage = [op for op in graph.operators if op.name.startswith("layer2.")]
    sums = {op.outputs[0] for op in stage if op.kind == "add"}
    counted = {
        "operators": sum(op.kind != "relu" or op.inputs[0] not in sums for op in stage),
        "convolutions": sum(op.kind == "conv2d" for op in stage),
    }
    for stage_name, values in published.items():
        for label, value in values.items():
            yield Row(f"{stage_name}, {label}", value, counted[label], "", How.COUNTED)
