"""Operators that TVM's importer misreads, against ONNX Runtime on the model as it is written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.onnx_sketch import Sketch, simplify_checked
from tests.refusals import refused
from tvm_ios.graph.elements import GraphError
from tvm_ios.onnx.rewrites.plainly import registry
from tvm_ios.onnx.simplify import simplify


def more_inputs(s: Sketch, *shape: int, name: str, kind: int = TensorProto.FLOAT) -> str:
    s.inputs.append(helper.make_tensor_value_info(name, kind, shape))
    return name


def unpooled(shape: tuple[int, ...] | None, **attributes: Any) -> Any:
    s = Sketch(1, 2, 2, 2)
    places = more_inputs(s, 1, 2, 2, 2, name="places", kind=TensorProto.INT64)
    size = () if shape is None else (s.const(np.array(shape)),)
    return s.model(
        s.op("MaxUnpool", "x", places, *size, kernel_shape=[2, 2], strides=[2, 2], **attributes)
    )


@pytest.mark.parametrize(
    ("shape", "attributes"),
    [(None, {}), ((1, 2, 4, 4), {}), (None, {"pads": [0, 0, 1, 0]})],
    ids=str,
)
def test_pixels_return_to_their_places(
    shape: tuple[int, ...] | None, attributes: dict[str, Any]
) -> None:
    model = unpooled(shape, **attributes)
    rng = np.random.default_rng(0)
    feeds = {
        "x": rng.standard_normal((1, 2, 2, 2), dtype=np.float32),
        "places": rng.permutation(24)[:8].reshape(1, 2, 2, 2),
    }
    simplify_checked(model, feeds, within=0)


def test_pixels_that_would_be_counted_otherwise_are_refused() -> None:
    with refused(GraphError, "MaxUnpool", "[1, 2, 4, 4]", "output_shape"):
        simplify(unpooled((1, 2, 5, 5)))


def test_axes_may_be_one_number() -> None:
    """PyTorch writes it for attention with groups."""
    s = Sketch(3, 4)
    model = s.model(s.op("Relu", s.op("Unsqueeze", "x", s.const(np.array(1)))))
    simple = simplify_checked(model, within=0)
    axes = {w.name: list(w.dims) for w in simple.graph.initializer}
    assert [axes[node.input[1]] for node in simple.graph.node if len(node.input) > 1] == [[1]]


def test_an_operator_has_one_writer() -> None:
    tables = [registry.MISREAD, registry.ARITHMETIC, registry.DECLARED, registry.FOURIER]
    tables += [registry.NORMALISATIONS, registry.PLACES, registry.WINDOWS]
    names = [name for table in tables for name in table]
    assert len(names) == len({*names})
