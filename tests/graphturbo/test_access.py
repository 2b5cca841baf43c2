from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fast_run import examples
from tests.graphturbo.onnx_networks import Runner, Sketch
from tvm_ios.graph.elements import Operator, Tensor
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.graph.operators import ELEMENT_WISE
from tvm_ios.graphturbo.access import needed
from tvm_ios.graphturbo.box import Box
from tvm_ios.graphturbo.dimensions import Dimensions
from tvm_ios.graphturbo.footprint import part_of
from tvm_ios.graphturbo.layers import form_layers
from tvm_ios.graphturbo.rows import cuts_rows

IMAGE = (2, 4, 6, 5)
WORDS = (2, 3, 8)


def window(kind: str, draw: Any) -> Any:
    sketch = Sketch(IMAGE)
    kernel = [draw(st.integers(1, 3)), draw(st.integers(1, 3))]
    strides = [draw(st.integers(1, 3)) for _ in range(2)]
    pads = [draw(st.integers(0, kernel[i % 2] - 1)) for i in range(4)]
    attributes: dict[str, Any] = {"kernel_shape": kernel, "strides": strides, "pads": pads}
    if kind == "AveragePool":
        return sketch.model(sketch.op(kind, "x", **attributes))
    group = draw(st.sampled_from((1, 2, 4)))
    attributes |= {"group": group, "dilations": [draw(st.integers(1, 2)), 1]}
    if kind == "Conv":
        weight = sketch.weight(4, 4 // group, *kernel)
        return sketch.model(sketch.op(kind, "x", weight, **attributes))
    # The reference evaluator gets groups of several channels wrong.
    attributes["group"] = group = 4 if group == 2 else group
    weight = sketch.weight(4, 4 // group, *kernel)
    return sketch.model(sketch.op(kind, "x", weight, **attributes))


def dilated(graph: OpGraph) -> bool:
    return graph.operators[0].attrs.get("dilations", (1, 1)) != (1, 1)


def others() -> dict[str, Any]:
    def of(shape: tuple[int, ...], kind: str, *inputs: Any, **attributes: Any) -> Any:
        sketch = Sketch(shape)
        names = [i if isinstance(i, str) else sketch.constant(np.asarray(i)) for i in inputs]
        return sketch.model(sketch.op(kind, "x", *names, **attributes))

    matmul, joined, parts = Sketch(WORDS), Sketch(IMAGE), Sketch(IMAGE)
    swapped = matmul.op("Transpose", "x", perm=[0, 2, 1])
    right = joined.op("Relu", "x")
    parts.op("Split", "x", parts.constant(np.array([1, 3])), axis=1, outputs=2)
    scales = np.array([1, 1, 2, 3], np.float32)
    half = np.array([1, 1, 0.5, 2], np.float32)
    return {
        "matmul": matmul.model(matmul.op("MatMul", "x", swapped)),
        "concat": joined.model(joined.op("Concat", "x", right, axis=2)),
        "split": parts.model("t0", "t0.1"),
        "dense": of(WORDS, "MatMul", np.ones((8, 4), np.float32)),
        "softmax": of(WORDS, "Softmax", axis=1),
        "layer_norm": of(WORDS, "LayerNormalization", np.ones(8, np.float32), axis=-1),
        "mean": of(IMAGE, "GlobalAveragePool"),
        "reduced": of(IMAGE, "ReduceMean", np.array([2]), keepdims=0),
        "lrn": of(IMAGE, "LRN", size=3),
        "slice": of(
            IMAGE, "Slice", np.array([1, 0]), np.array([6, 5]), np.array([2, 3]), np.array([2, 3])
        ),
        "pad": of(IMAGE, "Pad", np.array([0, 0, 2, 1, 0, 0, 1, 0])),
        "transpose": of(IMAGE, "Transpose", perm=[2, 0, 3, 1]),
        "heads": of(WORDS, "Reshape", np.array([2, 3, 2, 4])),
        "joined": of(IMAGE, "Reshape", np.array([2, 24, 5])),
        "recut": of(IMAGE, "Reshape", np.array([2, 3, 40])),
        "broadcast": of(WORDS, "Mul", np.ones((3, 1), np.float32)),
        "nearest": of(
            IMAGE,
            "Resize",
            "",
            scales,
            mode="nearest",
            nearest_mode="floor",
            coordinate_transformation_mode="asymmetric",
        ),
        "half": of(IMAGE, "Resize", "", half, mode="linear"),
        "cubic": of(IMAGE, "Resize", "", scales, mode="cubic"),
        "corners": of(
            IMAGE,
            "Resize",
            "",
            scales,
            mode="linear",
            coordinate_transformation_mode="align_corners",
        ),
    }


def a_box(draw: Any, shape: tuple[int, ...]) -> Box:
    ranges: list[tuple[int, int]] = []
    for extent in shape:
        begin = draw(st.integers(0, extent - 1))
        ranges.append((begin, draw(st.integers(begin + 1, extent))))
    return tuple(ranges)


def check_nothing_else_is_read(runner: Runner, draw: Any) -> tuple[Box, Box | None, int]:
    graph = runner.graph
    layers = form_layers(graph)
    place = draw(st.integers(0, len(graph.outputs) - 1))
    output = graph.outputs[place]
    box = a_box(draw, graph.tensors[output].shape)
    part = part_of(layers, (1 << len(layers)) - 1, {output: box})
    read = part.boxes.get(graph.inputs[0])
    values = runner.with_noise_outside(read)[place]
    cut = tuple(slice(*r) for r in box)
    np.testing.assert_array_equal(values[cut], runner.reference[place][cut])
    return box, read, place


@pytest.mark.parametrize("name", others())
@examples(8)
@given(data=st.data())
def test_nothing_outside_the_needed_box_is_read(name: str, data: st.DataObject) -> None:
    check_nothing_else_is_read(Runner(others()[name]), data.draw)


@pytest.mark.parametrize("kind", ["Conv", "AveragePool", "ConvTranspose"])
@examples(25)
@given(data=st.data())
def test_windows_need_exactly_their_box(kind: str, data: st.DataObject) -> None:
    runner = Runner(window(kind, data.draw))
    box, read, place = check_nothing_else_is_read(runner, data.draw)
    if kind == "ConvTranspose" or read is None or dilated(runner.graph):
        return  # these may step over the first row of their box
    cut = tuple(slice(*r) for r in box)
    for axis, (begin, end) in enumerate(read):
        for edge in {begin, end - 1}:
            strip = (*read[:axis], (edge, edge + 1), *read[axis + 1 :])
            changed = runner.with_noise_at(strip)[place]
            touched = not np.array_equal(changed[cut], runner.reference[place][cut])
            assert touched, (axis, edge, read)


@pytest.mark.parametrize("kind", sorted(ELEMENT_WISE))
def test_rows_go_through_whatever_is_element_wise(kind: str) -> None:
    tensors = (Tensor("x", IMAGE), Tensor("y", IMAGE))
    graph = OpGraph("one", (Operator("o", kind, (0,), (1,)),), tensors, (0,), (1,))
    box = ((1, 2), (0, 4), (2, 5), (0, 5))
    assert needed(graph, 0, 0, box) == (box,)
    dimensions = Dimensions(graph)
    assert cuts_rows(dimensions, dimensions.of(0)[2], 0)
