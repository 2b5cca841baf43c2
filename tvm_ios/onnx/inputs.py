"""The inputs of an ONNX model."""

from __future__ import annotations

from typing import Any

from onnx import TensorProto

from tvm_ios.shapes.input_shapes import Extent

FLOAT = TensorProto.FLOAT


def free_inputs(model: Any) -> list[Any]:
    """Return the inputs of a model that are not weights (old files list weights as inputs too)."""
    weights = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in weights]


def declared_extents(model: Any) -> dict[str, list[Extent] | None]:
    """Return the extents of each free input as the model declares them; None if it does not."""
    return {value.name: _extents(value) for value in free_inputs(model)}


def _extents(value: Any) -> list[Extent] | None:
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return None
    return [
        extent.dim_value if extent.HasField("dim_value") else extent.dim_param or None
        for extent in tensor.shape.dim
    ]


def position_rows(model: Any) -> int | None:
    """Return the positions that a model has a table of, by the table's name; None without one."""
    tables = [t for t in model.graph.initializer if "position" in t.name.lower() and t.dims]
    # Numbers of positions lie in a row, their vectors in a column.
    rows = [t.dims[0] if t.data_type == FLOAT else t.dims[-1] for t in tables]
    return min((row for row in rows if row > 1), default=None)
