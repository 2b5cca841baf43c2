"""The graph whose order is chosen, and the arena of an order."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given

from tests.fast_run import examples
from tests.memory.random_graphs import problems
from tvm_ios.graph.op_graph import bits
from tvm_ios.memory.arena import plan_order
from tvm_ios.memory.operators import with_activations, with_biases
from tvm_ios.memory.orders import reverse_post_order
from tvm_ios.memory.problem import MemoryProblem
from tvm_ios.onnx.graph import graph_from_onnx
from tvm_ios.program.arena.planner import PlannedMemory
from tvm_ios.zoo.cells.nasnet_a import build_nasnet_cell
from tvm_ios.zoo.small.ports import build_several_outputs
from tvm_ios.zoo.writing.network import ImageNetwork


def test_only_biases_are_joined() -> None:
    graph = graph_from_onnx(build_nasnet_cell())
    kinds = [op.kind for op in graph.operators]
    joined = with_biases(graph)
    assert len(joined) == len(graph) - kinds.count("bias_add")
    assert {op.kind for op in joined.operators if "+" in op.kind} == {
        "conv2d+bias_add",
        "dense+bias_add",
    }


def test_an_activation_goes_with_what_it_alone_reads() -> None:
    """Relu reads a sum alone; the second one reads what another operator reads too."""
    net = ImageNetwork("activations", 0, (4, 6, 6))
    shared = net.conv(net.input, 4, 3, bias=True)
    total = net.relu(net.add(shared, net.relu(shared)))
    joined = with_activations(graph_from_onnx(net.finish(total.value, (1, 4, 6, 6))))
    assert [op.kind for op in joined.operators] == ["conv2d+bias_add", "relu", "add+relu"]


def test_an_activation_of_an_input_or_of_an_output_stays_alone() -> None:
    net = ImageNetwork("ends", 0, (4, 6, 6))
    seen = net.conv(net.relu(net.input), 4, 3)
    last = net.relu(seen)
    model = net.finish_all({"seen": (seen.value, (1, 4, 6, 6)), "last": (last.value, (1, 4, 6, 6))})
    joined = with_activations(graph_from_onnx(model))
    assert [op.kind for op in joined.operators] == ["relu", "conv2d", "relu"]


def test_a_convolution_that_is_read_without_its_bias_stays_alone() -> None:
    graph = graph_from_onnx(build_several_outputs())
    producer = next(op for op in graph.operators if op.kind == "bias_add").inputs[0]
    outputs = (*graph.outputs, producer)
    seen = type(graph)(graph.name, graph.operators, graph.tensors, graph.inputs, outputs)
    assert len(with_biases(seen)) == len(with_biases(graph)) + 1


@given(problems(10))
@examples(150)
def test_an_arena_has_room_for_what_lives_at_once(problem: MemoryProblem) -> None:
    order = reverse_post_order(problem)
    planned = plan_order(problem, order)
    assert planned.plan.nbytes >= problem.footprints(order).peak
    check_overlaps(problem, order, planned)


def check_overlaps(problem: MemoryProblem, order: tuple[int, ...], planned: PlannedMemory) -> None:
    """Buffers of the plan that live at one step share no byte."""
    at = {operator: step for step, operator in enumerate(order)}
    for step in range(len(order)):
        taken: list[tuple[int, int]] = []
        for number, buffer in enumerate(problem.memory.buffers):
            if number not in planned.plan.offsets:
                continue
            begin = 0 if buffer.at_start else min(at[w] for w in bits(buffer.writers))
            end = len(order) if buffer.at_end else max(at[u] for u in bits(buffer.users))
            if begin <= step <= end:
                offset = planned.plan.offsets[number]
                taken.append((offset, offset + buffer.nbytes))
        taken.sort()
        for (_, end), (begin, _) in pairwise(taken):
            assert end <= begin
