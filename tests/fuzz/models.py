"""What is sound before it is damaged: a small network, its graph, schedule and executable."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SHAPE = (1, 4, 6, 6)


def small_network(channels: int = 4) -> Any:
    """Two branches, a join, a head: most of what units are made of, in 2 KiB."""
    rng = np.random.default_rng(0)
    nodes: list[Any] = []
    constants: list[Any] = []

    def constant(array: np.ndarray) -> str:
        constants.append(numpy_helper.from_array(array, f"c{len(constants)}"))
        return constants[-1].name

    def normal(*shape: int) -> str:
        return constant(rng.standard_normal(shape, np.float32))

    def op(kind: str, *inputs: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(kind, inputs, [f"v{len(nodes)}"], **attributes))
        return nodes[-1].output[0]

    first = op("Conv", "x", normal(channels, 4, 3, 3), normal(channels), pads=[1, 1, 1, 1])
    one = op("Relu", first)
    two = op("Conv", "x", normal(4, 4, 1, 1))
    statistics = [constant(np.full(4, 1 + i / 8, np.float32)) for i in range(4)]
    two = op("BatchNormalization", two, *statistics)
    pooled = op("MaxPool", "x", kernel_shape=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1])
    joined = op("Concat", one, op("Add", two, pooled), axis=1)
    head = op("GlobalAveragePool", joined)
    flat = op("Reshape", head, constant(np.array([1, channels + 4], np.int64)))
    op("Softmax", op("Gemm", flat, normal(5, channels + 4), normal(5), transB=1), axis=1)
    tensor = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "small",
        [tensor("x", TensorProto.FLOAT, SHAPE)],
        [
            tensor(nodes[-1].output[0], TensorProto.FLOAT, (1, 5)),
            tensor(one, TensorProto.FLOAT, (1, channels, 6, 6)),
        ],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model)


def write_sound_files(folder: Path) -> None:
    """``model.onnx``, ``graph.json``, ``schedule.json``; folders ``executable``, ``deployment``."""
    import json

    import tvm

    from relay_passes.ios_schedule import IOSSchedule
    from relay_passes.relax.importer import import_onnx
    from runtime_ext.build import build
    from tvm_ios.models.load import load_graph, load_onnx

    from .deployments import write_sound_deployment

    path = folder / "model.onnx"
    onnx.save(small_network(), path)
    graph = load_graph(str(path))
    (folder / "graph.json").write_text(json.dumps(graph.to_json()))
    module: Any = tvm.transform.Sequential([IOSSchedule("greedy")])(
        import_onnx(load_onnx(str(path)))
    )
    build(module, lanes=2, name="small").save(folder / "executable")
    shutil.copyfile(folder / "executable" / "schedule.json", folder / "schedule.json")
    write_sound_deployment(folder / "executable", folder / "deployment")
