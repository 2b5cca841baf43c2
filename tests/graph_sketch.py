"""Operator graphs for tests: written by hand, or random."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tvm_ios.graph.elements import Operator, Tensor
from tvm_ios.graph.op_graph import OpGraph

CHANNELS = 4
SHAPE = (1, CHANNELS, 8, 8)


class GraphSketch:
    """An operator graph under construction; every feature map has the same shape."""

    def __init__(self, inputs: int = 1) -> None:
        self.tensors = [Tensor(f"in{i}", SHAPE) for i in range(inputs)]
        self.operators: list[Operator] = []
        self.inputs = inputs

    def constant(self, *shape: int) -> int:
        self.tensors.append(Tensor(f"w{len(self.tensors)}", shape, constant=True))
        return len(self.tensors) - 1

    def op(self, kind: str, *inputs: int, **attrs: Any) -> int:
        self.tensors.append(Tensor(f"t{len(self.tensors)}", SHAPE))
        output = len(self.tensors) - 1
        name = f"{kind}{len(self.operators)}"
        self.operators.append(
            Operator(name, kind, inputs, (output,), attrs, flops=len(self.operators))
        )
        return output

    def conv(self, x: int, kernel: int = 3, group: int = 1, bias: bool = True) -> int:
        weight = self.constant(CHANNELS, CHANNELS // group, kernel, kernel)
        pads = (kernel // 2,) * 4
        y = self.op("conv2d", x, weight, strides=(1, 1), pads=pads, dilations=(1, 1), group=group)
        return self.op("bias_add", y, self.constant(CHANNELS)) if bias else y

    def separable(self, x: int) -> int:
        return self.conv(self.conv(x, 3, CHANNELS, bias=False), 1)

    def graph(self, *outputs: int) -> OpGraph:
        return OpGraph(
            "sketch",
            tuple(self.operators),
            tuple(self.tensors),
            tuple(range(self.inputs)),
            outputs or (len(self.tensors) - 1,),
        )


UNARY = ("relu", "sigmoid", "reshape", "softmax", "mean", "lrn", "max_pool2d", "slice", "pad")
BINARY = ("add", "multiply", "concat")


@st.composite
def graphs(draw: st.DrawFn, most: int = 24) -> OpGraph:
    """A random graph of the kinds that the unit rule knows, with inner and unread outputs."""
    sketch = GraphSketch(draw(st.integers(1, 2)))
    values = list(range(sketch.inputs))
    for _ in range(draw(st.integers(1, most))):
        # Mostly recent values, so that chains are as common as joins.
        pick = st.integers(0, min(3, len(values) - 1)).map(lambda back: values[-1 - back])
        kind = draw(
            st.sampled_from(
                (*UNARY, *BINARY, "add", "relu", "conv", "pointwise", "depthwise", "bias", "scale")
            )
        )
        if kind in ("conv", "pointwise", "depthwise"):
            kernel, group = {"conv": (3, 1), "pointwise": (1, 1), "depthwise": (3, CHANNELS)}[kind]
            values.append(sketch.conv(draw(pick), kernel, group, draw(st.booleans())))
        elif kind in ("bias", "scale"):
            name = "bias_add" if kind == "bias" else "multiply"
            values.append(sketch.op(name, draw(pick), sketch.constant(CHANNELS)))
        elif kind in BINARY:
            values.append(sketch.op(kind, draw(pick), draw(pick)))
        else:
            values.append(sketch.op(kind, draw(pick)))
    chosen = draw(st.sets(st.sampled_from(values[sketch.inputs :]), max_size=2))
    return sketch.graph(*sorted({values[-1], *chosen}))
