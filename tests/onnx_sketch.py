"""Small ONNX models for tests, and what onnxruntime makes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from runtime_ext.verification.onnx_outputs import reference_session
from tvm_ios.files.array_files import Array
from tvm_ios.onnx.simplify import simplify


class Sketch:
    """An ONNX model under construction; constants are random unless given."""

    def __init__(self, *shape: int | str, opset: int = 17, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.opset = opset
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self.inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]

    def const(self, array: Any) -> str:
        name = f"c{len(self.initializers)}"
        array = np.asarray(array)
        array = array.astype(np.float32) if array.dtype.kind == "f" else array
        self.initializers.append(numpy_helper.from_array(array, name))
        return name

    def normal(self, *shape: int) -> str:
        return self.const(self.rng.standard_normal(shape))

    def positive(self, *shape: int) -> str:
        return self.const(self.rng.uniform(0.5, 1.5, shape))

    def op(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, names, **attributes))
        return names[0] if outputs == 1 else names

    def conv(self, x: str, before: int, after: int, kernel: int = 3, **attributes: Any) -> str:
        pad = kernel // 2
        group = attributes.get("group", 1)
        attributes.setdefault("pads", [pad, pad, pad, pad])
        weight = self.normal(after, before // group, kernel, kernel)
        return self.op("Conv", x, weight, **attributes)

    def norm(self, x: str, channels: int) -> str:
        inputs = (self.positive(channels), self.normal(channels), self.normal(channels))
        return self.op("BatchNormalization", x, *inputs, self.positive(channels))

    def model(self, *outputs: str) -> Any:
        graph = helper.make_graph(
            self.nodes,
            "sketch",
            self.inputs,
            [
                self.inputs[0]
                if name == "x"
                else helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
                for name in outputs
            ],
            self.initializers,
        )
        opset = helper.make_opsetid("", self.opset)
        model = helper.make_model(graph, opset_imports=[opset], ir_version=8)
        return onnx.shape_inference.infer_shapes(model)


def save_small(folder: Path) -> Path:
    """A file of a convolution of small images and a sigmoid."""
    sketch = Sketch(1, 3, 8, 8)
    path = folder / "small.onnx"
    onnx.save(sketch.model(sketch.op("Sigmoid", sketch.conv("x", 3, 4))), path)
    return path


def run(model: Any, seed: int = 0) -> list[Array]:
    """Outputs for a random input, by onnxruntime without its own rewriting."""
    return run_on(model, None, seed)


def run_on(model: Any, feeds: dict[str, Array] | None, seed: int = 0) -> list[Array]:
    """Outputs for given inputs, or for random ones."""
    pytest.importorskip("onnxruntime")
    session = reference_session(model)
    rng = np.random.default_rng(seed)
    if feeds is None:
        feeds = {
            value.name: rng.standard_normal(value.shape, dtype=np.float32)
            for value in session.get_inputs()
        }
    return session.run(None, feeds)


def relative_error(ours: Any, theirs: Any) -> float:
    """max|a-b| / max|ref|, over all outputs."""
    assert len(ours) == len(theirs)
    errors: list[float] = []
    for a, b in zip(ours, theirs, strict=True):
        assert a.shape == b.shape
        assert np.abs(b).max() > 0, "an output of zeros proves nothing"
        errors.append(float(np.abs(a - b).max() / np.abs(b).max()))
    return max(errors)


def simplify_checked(
    model: Any, feeds: dict[str, Array] | None = None, *, within: float = 1e-5, cells: bool = False
) -> Any:
    """Return the simplified model, whose outputs for given or random inputs are the model's."""
    simple = simplify(model, cells=cells)
    assert relative_error(run_on(simple, feeds), run_on(model, feeds)) <= within
    return simple


def kinds(model: Any) -> list[str]:
    """The operator types of a model, sorted."""
    return sorted(node.op_type for node in model.graph.node)
