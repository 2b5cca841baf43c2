"""Files as old and careless exporters write them, and forms of operators that few use."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from numpy.random import Generator
from onnx import helper, numpy_helper

from tests.outside.case import Case, floats, kind, node, onnx_model
from tvm_ios.files.array_files import Array


@kind("broadcasting before opset 7")
def _legacy_broadcast(rng: Generator) -> Case:
    x, channels = floats(rng, 2, 3, 4, 5), int(rng.integers(2, 5))
    weight, operator = floats(rng, channels, 3, 1, 1), str(rng.choice(["Add", "Mul", "Sub", "Div"]))
    first = int(rng.integers(0, 4))
    count = int(rng.integers(1, 5 - first))
    shape = (2, channels, 4, 5)[first : first + count]
    other = np.abs(floats(rng, *shape)) + 1
    nodes = [
        node("Conv", ["x", "w"], ["c"], kernel_shape=[1, 1]),
        node(operator, ["c", "b"], ["y"], broadcast=1, axis=first),
    ]
    model = onnx_model(nodes, {"x": x}, ["y"], {"w": weight, "b": other}, opset=6)
    convolved = np.einsum("oi,nihw->nohw", weight[:, :, 0, 0], x)
    right = other.reshape([*shape, *[1] * (4 - first - count)])
    numpy_: Any = {"Add": np.add, "Mul": np.multiply, "Sub": np.subtract, "Div": np.divide}
    return Case(model, {"x": x}, [numpy_[operator](convolved, right)])


@kind("attributes that are inputs today")
def _old_attributes(rng: Generator) -> Case:
    x = floats(rng, 2, 3, 4, 4)
    chosen = int(rng.integers(5))
    weights: dict[str, Array] = {}
    opset = int(rng.choice([1, 2, 4, 5, 6] if chosen < 1 else [2, 4, 6]))
    if chosen == 0:
        opset = min(opset, 4)
        made = node("Reshape", ["x"], ["y"], shape=[2, -1])
        right: Array = x.reshape(2, -1)
    elif chosen == 1:
        made = node("Clip", ["x"], ["y"], min=-0.5, max=0.5)
        opset, right = 6, np.clip(x, -0.5, 0.5)
    elif chosen == 2:
        made = node("Pad", ["x"], ["y"], pads=[0, 0, 1, 0, 0, 0, 2, 1], value=0.5)
        right = np.pad(x, [(0, 0), (0, 0), (1, 2), (0, 1)], constant_values=0.5)
    elif chosen == 3:
        weights = {"s": np.abs(floats(rng, 3)) if opset == 6 else np.array([0.25], np.float32)}
        made = node("PRelu", ["x", "s"], ["y"])
        slope = weights["s"].reshape(-1, 1, 1)
        right = np.where(x < 0, slope * x, x)
    else:
        made = node("Slice", ["x"], ["y"], starts=[1, 0], ends=[3, 2], axes=[1, 3])
        right = x[:, 1:3, :, :2]
    return Case(onnx_model([made], {"x": x}, ["y"], weights, opset), {"x": x}, [right])


@kind("outputs without a name")
def _unnamed_outputs(rng: Generator) -> Case:
    x, right = floats(rng, 2, 4, 5, 5), None
    chosen, weights = int(rng.integers(4)), dict[str, Array]()
    if chosen == 0:
        names = ["s", "b", "m", "v"]
        weights = {n: np.abs(floats(rng, 4)) + 0.5 for n in names}
        made = node("BatchNormalization", ["x", *names], ["y", "", ""], training_mode=1)
        # ONNX Runtime 1.32 ends the process where these outputs have no names.
        scale, bias = (weights[n].reshape(4, 1, 1) for n in "sb")
        normal = (x - x.mean((0, 2, 3), keepdims=True)) / np.sqrt(
            x.var((0, 2, 3), keepdims=True) + 1e-5
        )
        right = [-(normal * scale + bias)]
    elif chosen == 1:
        made = node("Dropout", ["x"], ["y", ""])
    elif chosen == 2:
        weights = {"k": np.array([3])}
        made = node("TopK", ["x", "k"], ["y", ""])
    else:
        made = node("MaxPool", ["x"], ["y", ""], kernel_shape=[2, 2])
    after = node("Neg", ["y"], ["z"])
    return Case(onnx_model([made, after], {"x": x}, ["z"], weights, 17), {"x": x}, right)


@kind("files that a checker refuses")
def _careless(rng: Generator) -> Case:
    x = floats(rng, 2, 6, 4)
    weight = floats(rng, 4, 4)
    nodes = [
        node("MatMul", ["x", "w"], ["a"]),
        node("Relu", ["a"], ["b"]),
        node("Add", ["b", "x"], ["y"]),
    ]
    right = np.maximum(x @ weight, 0) + x
    chosen = int(rng.integers(4))
    if chosen == 0:
        order = rng.permutation(3)
        model = onnx_model(nodes, {"x": x}, ["y"], {"w": weight})
        ordered = [model.graph.node[i] for i in order]
        del model.graph.node[:]
        model.graph.node.extend(ordered)
    elif chosen == 1:
        model = onnx_model(nodes, {"x": x}, ["y"], {"w": weight})
        model.graph.output[0].type.tensor_type.ClearField("shape")
    elif chosen == 2:
        weight = np.where(rng.random(weight.shape) < 0.3, weight, 0).astype(np.float32)
        right = np.maximum(x @ weight, 0) + x
        model = onnx_model(nodes, {"x": x}, ["y"])
        where = np.flatnonzero(weight)
        values = numpy_helper.from_array(weight.ravel()[where], "w")
        places = numpy_helper.from_array(where.astype(np.int64), "w_indices")
        model.graph.sparse_initializer.append(
            helper.make_sparse_tensor(values, places, weight.shape)
        )
    else:
        groups = {"scale": np.abs(floats(rng, 2)) + 0.5, "bias": floats(rng, 2)}
        made = node("GroupNormalization", ["x", "scale", "bias"], ["y"], num_groups=2)
        model = onnx_model([made], {"x": x}, ["y"], groups, opset=18)
        each = x.reshape(2, 2, -1)
        normal = (each - each.mean(2, keepdims=True)) / np.sqrt(each.var(2, keepdims=True) + 1e-5)
        right = normal * groups["scale"].reshape(1, 2, 1) + groups["bias"].reshape(1, 2, 1)
        right = right.reshape(x.shape)
    return Case(model, {"x": x}, [right])


@kind("pixels between pixels")
def _pixels(rng: Generator) -> Case:
    x, chosen = floats(rng, 1, 2, int(rng.integers(3, 8)), int(rng.integers(3, 8))), rng.integers(4)
    if chosen == 0:
        scales = np.array([1, 1, *rng.choice([0.6, 0.7, 1.3, 2.0, 2.5], 2)], np.float32)
        made = node("Resize", ["x", "s"], ["y"], mode=str(rng.choice(["nearest", "linear"])))
        return Case(onnx_model([made], {"x": x}, ["y"], {"s": scales}, opset=10), {"x": x})
    if chosen == 1:
        boxes = np.sort(rng.uniform(0, 12, (3, 2, 2)), axis=1).reshape(3, 4).astype(np.float32)
        made = node(
            "RoiAlign",
            ["x", "r", "b"],
            ["y"],
            output_height=int(rng.integers(1, 4)),
            output_width=2,
            sampling_ratio=int(rng.integers(0, 3)),
            spatial_scale=float(rng.choice([1.0, 0.5, 0.25])),
            coordinate_transformation_mode=str(rng.choice(["half_pixel", "output_half_pixel"])),
        )
        given = {"b": np.zeros(3, np.int64), "r": boxes}
        return Case(onnx_model([made], {"x": x}, ["y"], given), {"x": x})
    if chosen == 2:
        mode = str(rng.choice(["wrap", "reflect", "edge", "constant"]))
        pads = np.array([0, 0, *rng.integers(-1, 3, 2), 0, 0, *rng.integers(-1, 3, 2)])
        made = node("Pad", ["x", "p"], ["y"], mode=mode)
        return Case(onnx_model([made], {"x": x}, ["y"], {"p": pads}), {"x": x})
    mode = str(rng.choice(["nearest", "linear", "cubic"]))
    rounding = {"nearest_mode": str(rng.choice(["floor", "ceil", "round_prefer_floor"]))}
    made = node(
        "Resize",
        ["x", "", "", "z"],
        ["y"],
        mode=mode,
        coordinate_transformation_mode=str(
            rng.choice(["half_pixel", "asymmetric", "pytorch_half_pixel", "align_corners"])
        ),
        **(rounding if mode == "nearest" else {}),
    )
    sizes = np.array([1, 2, *rng.integers(2, 12, 2)])
    return Case(onnx_model([made], {"x": x}, ["y"], {"z": sizes}), {"x": x})


@kind("many inputs or outputs")
def _many(rng: Generator) -> Case:
    count = int(rng.choice([130, 260, 400]))
    chosen = str(rng.choice(["Concat", "Sum", "Max", "Mean", "Split"]))
    x = floats(rng, 2, count)
    sizes = {"sizes": np.ones(count, np.int64)}
    names = [f"p{i}" for i in range(count)]
    nodes = [node("Split", ["x", "sizes"], names, axis=1)]
    if chosen == "Split":
        nodes.append(node("Concat", names[::-1], ["y"], axis=1))
    else:
        attributes = {"axis": 0} if chosen == "Concat" else {}
        nodes.append(node(chosen, names, ["y"], **attributes))
    return Case(onnx_model(nodes, {"x": x}, ["y"], sizes, opset=13), {"x": x})


@kind("control flow")
def _control(rng: Generator) -> Case:
    x, trips = floats(rng, 3, 4), int(rng.integers(0, 4))
    info = helper.make_tensor_value_info
    number = onnx.TensorProto.FLOAT
    if rng.integers(2):
        body = helper.make_graph(
            [
                node("Identity", ["go"], ["on"]),
                node("Add", ["s", "x"], ["t"]),
                node("Mul", ["t", "half"], ["scan"]),
            ],
            "body",
            [
                info("i", onnx.TensorProto.INT64, []),
                info("go", onnx.TensorProto.BOOL, []),
                info("s", number, [3, 4]),
            ],
            [
                info("on", onnx.TensorProto.BOOL, []),
                info("t", number, [3, 4]),
                info("scan", number, [3, 4]),
            ],
        )
        outputs = ["y", "scans"] if trips and rng.integers(2) else ["y"]
        made = node("Loop", ["trips", "", "x"], [*outputs, "unread"][:2], body=body)
        weights = {"trips": np.array(trips), "half": np.float32(0.5)}
        return Case(onnx_model([made], {"x": x}, outputs, weights), {"x": x})
    branches = {
        name: helper.make_graph(
            [node(operator, ["x"], [name])], name, [], [info(name, number, [3, 4])]
        )
        for name, operator in (("then_branch", "Relu"), ("else_branch", "Neg"))
    }
    nodes = [
        node("ReduceSum", ["x"], ["sum"], keepdims=0),
        node("Greater", ["sum", "zero"], ["positive"]),
        node("If", ["positive"], ["y"], **branches),
    ]
    return Case(onnx_model(nodes, {"x": x}, ["y"], {"zero": np.float32(0)}), {"x": x})
