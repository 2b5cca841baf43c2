"""Small ONNX networks, and what of their inputs decides what of their outputs, by running them."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tvm_ios.files.array_files import Array
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.graphturbo.box import Box
from tvm_ios.onnx.graph import graph_from_onnx


class Sketch:
    """An ONNX model of one input under construction."""

    def __init__(self, shape: tuple[int, ...], seed: int = 0) -> None:
        self.shape = shape
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.rng = np.random.default_rng(seed)

    def weight(self, *shape: int) -> str:
        return self.constant(self.rng.uniform(0.5, 1.5, shape).astype(np.float32))

    def constant(self, array: Array) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def op(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        names = [f"t{len(self.nodes)}.{i}" if i else f"t{len(self.nodes)}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names[0]

    def model(self, *outputs: str) -> Any:
        value = helper.make_tensor_value_info
        graph = helper.make_graph(
            self.nodes,
            "sketch",
            [value("x", TensorProto.FLOAT, self.shape)],
            [helper.make_empty_tensor_value_info(name) for name in outputs],
            self.weights,
        )
        for port in graph.output:
            port.type.tensor_type.elem_type = TensorProto.FLOAT
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


class Runner:
    """A model, its graph, and its outputs for inputs that are noise outside a box."""

    def __init__(self, model: Any) -> None:
        self.graph: OpGraph = graph_from_onnx(model)
        self._run = ReferenceEvaluator(model)
        self._rng = np.random.default_rng(1)
        self.x = self._normal()
        self.reference = self.outputs(self.x)

    def _normal(self) -> Array:
        shape = self.graph.tensors[self.graph.inputs[0]].shape
        return self._rng.standard_normal(shape).astype(np.float32)

    def outputs(self, x: Array) -> list[Array]:
        return self._run.run(None, {"x": x})

    def with_noise_outside(self, box: Box | None) -> list[Array]:
        x = self._normal()
        if box is not None:
            x[slices(box)] = self.x[slices(box)]
        return self.outputs(x)

    def with_noise_at(self, box: Box) -> list[Array]:
        x = self.x.copy()
        x[slices(box)] = self._normal()[slices(box)]
        return self.outputs(x)


def slices(box: Box) -> tuple[slice, ...]:
    return tuple(slice(begin, end) for begin, end in box)


@st.composite
def networks(draw: st.DrawFn, most: int = 6) -> Any:
    """Random image networks: convolutions, poolings, up-samplings, sums and joins."""
    batch = draw(st.sampled_from((1, 2, 4)))
    height = draw(st.sampled_from((8, 12, 16)))
    sketch = Sketch((batch, 2, height, 8), draw(st.integers(0, 9)))
    values = [("x", 2, height, 8)]
    for _ in range(draw(st.integers(1, most))):
        name, c, h, w = values[-1 - draw(st.integers(0, min(2, len(values) - 1)))]
        kind = draw(st.sampled_from(("conv", "conv", "pool", "relu", "up", "add", "concat")))
        twins = [v for v in values if v[2:] == (h, w)]
        if kind == "conv":
            k = draw(st.integers(1, 3))
            stride = draw(st.integers(1, 2)) if min(h, w) >= 4 else 1
            pads = [draw(st.integers(0, k - 1)) for _ in range(4)]
            if h + pads[0] + pads[2] < k or w + pads[1] + pads[3] < k:
                continue
            out = draw(st.sampled_from((2, 4)))
            name = sketch.op(
                "Conv",
                name,
                sketch.weight(out, c, k, k),
                strides=[stride] * 2,
                pads=pads,
                kernel_shape=[k, k],
            )
            h, w = (
                (n + p + q - k) // stride + 1
                for n, p, q in ((h, pads[0], pads[2]), (w, pads[1], pads[3]))
            )
            c = out
        elif kind == "pool" and min(h, w) >= 4:
            name = sketch.op("MaxPool", name, kernel_shape=[2, 2], strides=[2, 2])
            h, w = h // 2, w // 2
        elif kind == "up" and h * w <= 64:
            scales = sketch.constant(np.array([1, 1, 2, 2], np.float32))
            name = sketch.op(
                "Resize",
                name,
                "",
                scales,
                mode="nearest",
                nearest_mode="floor",
                coordinate_transformation_mode="asymmetric",
            )
            h, w = 2 * h, 2 * w
        elif kind == "add":
            other = draw(st.sampled_from([v for v in twins if v[1] == c]))
            name = sketch.op("Add", name, other[0])
        elif kind == "concat":
            other = draw(st.sampled_from(twins))
            name = sketch.op("Concat", name, other[0], axis=1)
            c += other[1]
        else:
            name = sketch.op("Relu", name)
        values.append((name, c, h, w))
    computed = [name for name, *_ in values[1:]]
    read = {name for node in sketch.nodes for name in node.input}
    if not computed:
        computed = [sketch.op("Relu", "x")]
    inner = draw(st.sets(st.sampled_from(computed), max_size=1))
    unread = [name for name in computed if name not in read]
    return sketch.model(*dict.fromkeys([*sorted(inner), *unread]))
