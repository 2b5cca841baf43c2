"""Count the steps of a ``Loop``, where its data do not decide them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx.reference import ReferenceEvaluator

from tvm_ios.onnx.edit import constant
from tvm_ios.onnx.rewrites.control.bodies import LARGEST, values_read

#: The library's own types are incomplete.
_helper: Any = onnx.helper


def trip_count(node: Any, opset: int) -> int | None:
    """Return the number of steps of a ``Loop``, or None if its data decide it.

    The part of the body that the condition depends on is run by ``onnx.reference`` for as long as
    the condition holds, at most as often as the largest graph has operators. If the count or the
    condition is an input that no step changes, the number is taken from the declared shapes of
    stacked results.
    """
    counted = _counted(node, opset)
    if counted is not None:
        return counted
    body = node.attributes["body"].as_graph()
    goes_on = body.outputs[0]
    while (maker := goes_on.producer()) is not None and maker.op_type == "Identity":
        goes_on = maker.inputs[0]
    if goes_on is not body.inputs[1] and constant(goes_on) is None:
        return None
    stacked = node.outputs[len(node.inputs) - 2 :]
    counts = {count for output in stacked if (count := _declared_extent(output)) is not None}
    return counts.pop() if len(counts) == 1 else None


def _declared_extent(value: Any) -> int | None:
    """Return the leading extent that the model declares of a value or of its cast, or None."""
    while value.shape is None or not isinstance(value.shape[0], int):
        readers = [use.node for use in value.uses()]
        if len(readers) != 1 or readers[0].op_type not in ("Cast", "Identity"):
            return None
        (value,) = readers[0].outputs
    return value.shape[0]


def _counted(node: Any, opset: int) -> int | None:
    """Return the number of steps that constants decide, or None."""
    limit, condition, *carried = node.inputs
    most = None if limit is None else constant(limit)
    holds = None if condition is None else constant(condition)
    if (limit is not None and most is None) or (condition is not None and holds is None):
        return None
    if holds is not None and not holds.item():
        return 0
    # A larger count is refused by whoever writes the steps.
    ceiling = LARGEST + 1 if most is None else min(int(most.item()), LARGEST + 1)
    body = node.attributes["body"].as_graph()
    if body.outputs[0] is body.inputs[1]:
        return max(ceiling, 0)
    slice_of_condition = _Condition(body, carried)
    if not slice_of_condition.is_known:
        return None
    trips = slice_of_condition.trips(ceiling, opset)
    # Without a condition the standard ignores what the body says of it, and runtimes do not.
    return None if condition is None and trips < ceiling else trips


class _Condition:
    """The part of a loop's body that its condition depends on."""

    def __init__(self, body: Any, carried: list[Any]) -> None:
        self.body, self.carried = body, carried
        #: The places, among what is carried, of what the condition depends on.
        self.places: list[int] = []
        #: Constants around the body and in it.
        self.constants: dict[str, Any] = {}
        self.is_known = True
        self.nodes = self._nodes()

    def trips(self, ceiling: int, opset: int) -> int:
        """Run the condition until it is false; return the number of steps, at most ``ceiling``."""
        body = self.body
        inputs = [body.inputs[0], body.inputs[1], *(body.inputs[2 + p] for p in self.places)]
        outputs = [body.outputs[0], *(body.outputs[1 + p] for p in self.places)]
        kinds = [_helper.make_empty_tensor_value_info(v.name) for v in (*inputs, *outputs)]
        graph = _helper.make_graph(
            [ir.serde.serialize_node(node) for node in self.nodes],
            "condition",
            kinds[: len(inputs)],
            kinds[len(inputs) :],
            [onnx.numpy_helper.from_array(array, name) for name, array in self.constants.items()],
        )
        opsets = [_helper.make_opsetid("", opset)]
        evaluator: Any = ReferenceEvaluator(_helper.make_model(graph, opset_imports=opsets))
        state = [constant(self.carried[place]) for place in self.places]
        for step in range(ceiling):
            values = [np.array(step, np.int64), np.array(True), *state]
            names = [value.name for value in inputs]
            holds, *state = evaluator.run(None, dict(zip(names, values, strict=True)))
            if not np.asarray(holds).item():
                return step + 1
        return max(ceiling, 0)

    def _nodes(self) -> list[Any]:
        wanted, needed = [self.body.outputs[0]], set[Any]()
        inner = {value for node in self.body for value in node.outputs}
        inputs = list(self.body.inputs)
        while wanted:
            value = wanted.pop()
            if value in inner:
                node = value.producer()
                if node not in needed:
                    needed.add(node)
                    wanted.extend(values_read(node))
            elif value in inputs:
                place = inputs.index(value) - 2
                if place >= 0 and place not in self.places:
                    self.places.append(place)
                    wanted.append(self.body.outputs[1 + place])
                    self.is_known &= constant(self.carried[place]) is not None
            else:
                array = constant(value)
                self.is_known &= array is not None
                self.constants[value.name] = array
        return [node for node in self.body if node in needed]
