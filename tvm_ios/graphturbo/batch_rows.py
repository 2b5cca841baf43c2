"""A proof that a model computes every row of its batch independently of the others."""

from __future__ import annotations

from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.graphturbo.access import needed
from tvm_ios.graphturbo.box import Box, hull, whole


def treats_rows_alone(graph: OpGraph) -> bool:
    """Return whether each row of every output depends only on the same row of the inputs.

    Then rows that nobody reads may hold anything, and a smaller batch can be computed among them.
    It is proven row by row, from the outputs back to the inputs, by the access rules of the
    operators. An unknown operator is taken to need all of its inputs, so False proves nothing.
    ``graph`` is one of operators, not units, with the batch as the leading axis of inputs and
    outputs.
    """
    inputs = [t for t in graph.inputs if not graph.tensors[t].constant]
    batches = {graph.tensors[t].shape[:1] for t in (*inputs, *graph.outputs)}
    if not inputs or len(batches) != 1 or batches & {(), (0,)}:
        return False
    ((batch,),) = batches
    return all(_needs_this_row_alone(graph, inputs, row) for row in range(batch))


def _needs_this_row_alone(graph: OpGraph, inputs: list[int], row: int) -> bool:
    boxes: dict[int, Box] = {}
    for output in graph.outputs:
        boxes[output] = ((row, row + 1), *whole(graph.tensors[output].shape[1:]))
    for op in reversed(range(len(graph))):
        operator = graph.operators[op]
        for position, output in enumerate(operator.outputs):
            if output not in boxes:
                continue
            needs = needed(graph, op, position, boxes[output])
            for tensor, box in zip(operator.inputs, needs, strict=True):
                if box is not None and not graph.tensors[tensor].constant:
                    boxes[tensor] = hull(boxes.get(tensor), box)
    return all(t not in boxes or boxes[t][:1] == ((row, row + 1),) for t in inputs)
