"""The work of merged convolutions, whose kernels are padded to a common window."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tvm_ios.graph.merge_rule import plan_merge
from tvm_ios.graph.op_graph import OpGraph


@dataclass(frozen=True, slots=True)
class MergedWork:
    """The work of a merged convolution that writes its outputs to separate tensors.

    ``flops`` include the zeros of padded kernels. ``bytes`` count the shared input, the stacked
    weights and the outputs once each. ``output_elements`` are those of all outputs.
    """

    flops: int
    bytes: int
    output_elements: int


def merged_work(graph: OpGraph, units: Sequence[int]) -> MergedWork | None:
    """Return the work of two or more units merged into one, or None if they cannot be merged."""
    plan = plan_merge(graph, units)
    if plan is None:
        return None
    window = math.prod(plan.kernel)
    flops = total_bytes = output_elements = 0
    for unit in plan.units:
        op = graph.operators[unit]
        output = graph.tensors[op.outputs[0]]
        weight = graph.tensors[op.inputs[1]]
        _, channels, *kernel = weight.shape
        taps = math.prod(kernel)
        elements = math.prod(output.shape)
        convolution = 2 * elements * channels * taps
        flops += op.flops - convolution + convolution * window // taps
        grown = weight.nbytes * window // taps
        constants = sum(graph.tensors[t].nbytes for t in dict.fromkeys(op.inputs[2:]))
        total_bytes += grown + constants + output.nbytes
        output_elements += elements
    shared = graph.tensors[graph.operators[plan.units[0]].inputs[0]]
    return MergedWork(flops, total_bytes + shared.nbytes, output_elements)
