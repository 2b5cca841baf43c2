"""A convolution after a concatenation becomes a sum of convolutions of its parts."""

from __future__ import annotations

from tvm_ios.graph.elements import Operator, Tensor
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.memory.footprint import Counting
from tvm_ios.memory.problem import memory_problem
from tvm_ios.memory.published.identity_rewriting import rewrite_concatenations
from tvm_ios.memory.schedulers import MEMORY_SCHEDULERS

CONV = {"strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1)}


def joined(group: int) -> OpGraph:
    """Three branches of one image, concatenated and convolved."""
    tensors = [Tensor("x", (1, 2, 8, 8)), Tensor("w", (4, 2, 1, 1), constant=True)]
    operators = []
    for i in range(3):
        tensors.append(Tensor(f"b{i}", (1, 4, 8, 8)))
        operators.append(Operator(f"b{i}", "conv2d", (0, 1), (2 + i,), {**CONV, "group": 1}))
    tensors += [
        Tensor("whole", (1, 12, 8, 8)),
        Tensor("v", (12, 1, 1, 1) if group > 1 else (2, 12, 1, 1), constant=True),
        Tensor("y", (1, 12 if group > 1 else 2, 8, 8)),
    ]
    operators.append(Operator("join", "concat", (2, 3, 4), (5,), {"axis": 1}))
    operators.append(Operator("conv", "conv2d", (5, 6), (7,), {**CONV, "group": group}, flops=9))
    return OpGraph("joined", tuple(operators), tuple(tensors), (0,), (7,))


def kinds(graph: OpGraph) -> list[str]:
    return [op.kind for op in graph.operators]


def test_it_becomes_a_sum_of_partial_convolutions() -> None:
    graph = rewrite_concatenations(joined(1))
    assert kinds(graph) == ["conv2d"] * 5 + ["add", "conv2d", "add"]
    assert graph.tensors[graph.outputs[0]].shape == (1, 2, 8, 8)
    parts = [graph.tensors[op.inputs[1]].shape for op in graph.operators if "part" in op.name]
    assert parts == [(2, 4, 1, 1)] * 3
    assert sum(op.flops for op in graph.operators if "part" in op.name) == 2 * 2 * 64 * 12


def test_a_depthwise_one_becomes_a_concatenation_of_parts() -> None:
    graph = rewrite_concatenations(joined(12))
    assert kinds(graph) == ["conv2d"] * 6 + ["concat"]
    assert [op.attrs["group"] for op in graph.operators if "part" in op.name] == [4, 4, 4]


def test_the_least_peak_falls() -> None:
    before, after = (
        MEMORY_SCHEDULERS["optimal"](memory_problem(g, Counting(in_place=True)), 10.0)
        for g in (joined(1), rewrite_concatenations(joined(1)))
    )
    assert after.proven
    assert before.peak == (12 + 12) * 64 * 4
    assert after.peak == (2 + 2 + 4 + 2) * 64 * 4


def test_what_others_read_stays() -> None:
    graph = joined(1)
    shared = OpGraph(graph.name, graph.operators, graph.tensors, graph.inputs, (5, 7))
    assert rewrite_concatenations(shared) is shared
