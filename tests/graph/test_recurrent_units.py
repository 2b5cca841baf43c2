"""Recurrent cells are units, unless two of them would need each other."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from tests.graph_sketch import CHANNELS, GraphSketch
from tvm_ios import zoo
from tvm_ios.graph.elements import Operator, Tensor
from tvm_ios.graph.units import form_units
from tvm_ios.onnx.graph import graph_from_onnx

CELL = "split+sigmoid+sigmoid+multiply+sigmoid+tanh+multiply+add+tanh+multiply"


def test_a_cell_of_an_lstm_is_two_units() -> None:
    units = form_units(graph_from_onnx(zoo.build("lstm_small")))
    kinds = Counter(op.kind for op in units.operators)
    assert kinds == {
        f"dense+bias_add+add+{CELL}": 10,
        "dense+bias_add": 6,  # the second layer's input gates but the first, and the classifier
        "slice+reshape+dense+bias_add": 5,
        f"slice+reshape+dense+bias_add+{CELL}": 1,
        f"dense+bias_add+{CELL}": 1,
    }


class Gates(GraphSketch):
    """A sketch with products that are split in two."""

    def gates(self, x: int) -> tuple[int, int]:
        return self.split(self.op("dense", x, self.constant(CHANNELS, CHANNELS)))

    def split(self, x: int) -> tuple[int, int]:
        parts = (len(self.tensors), len(self.tensors) + 1)
        self.tensors += [Tensor(f"part{number}", (1, CHANNELS // 2, 8, 8)) for number in parts]
        attrs = {"axis": 1, "sizes": (2, 2)}
        self.operators.append(Operator(f"split{parts[0]}", "split", (x,), parts, attrs))
        return parts


def test_a_gated_unit_of_two_products_is_two_units() -> None:
    """The state of a GRU reads parts of two products; the first product takes all."""
    s = Gates(2)
    reset_x, new_x = s.gates(0)
    reset_h, new_h = s.gates(1)
    reset = s.op("sigmoid", s.op("add", reset_x, reset_h))
    units = form_units(s.graph(s.op("tanh", s.op("add", new_x, s.op("multiply", reset, new_h)))))
    assert sorted(op.kind for op in units.operators) == [
        "dense+split",
        "dense+split+add+sigmoid+multiply+add+tanh",
    ]


def test_cells_that_need_each_other_are_no_units() -> None:
    s = Gates(2)
    one, two = s.gates(0), s.gates(1)
    a, b = s.op("sigmoid", one[0]), s.op("sigmoid", two[0])
    sums = [s.op("multiply", s.op("tanh", x), y) for x, y in ((one[1], b), (two[1], a))]
    units = form_units(s.graph(*sums))
    # Whatever the units, forming them found no circle, and each of the six operators is in one.
    assert sum(len(op.members) for op in units.operators) == len(s.operators)


def test_a_split_of_a_constant_is_in_no_cell() -> None:
    s = Gates(1)
    one, two = s.split(s.constant(1, CHANNELS, 8, 8))
    units = form_units(s.graph(s.op("add", s.op("multiply", 0, one), two)))
    assert "split" in [op.kind for op in units.operators]


def test_an_output_inside_a_cell_stays_visible() -> None:
    graph = graph_from_onnx(zoo.build("lstm_small"))
    inner = next(op for op in graph.operators if op.kind == "sigmoid").outputs[0]
    units = form_units(replace(graph, outputs=(*graph.outputs, inner)))
    maker = units.producer[units.outputs[1]]
    assert maker is not None
    assert "split" in units.operators[maker].kind
