"""Models of opsets whose ``Resize`` or ``Slice`` readers do not know, or that lack ``Round``."""

from __future__ import annotations

from typing import Any

import onnx
from onnx import version_converter

from tvm_ios.graph.elements import GraphError
from tvm_ios.onnx.rewrites.quantised.operators import QUANTISED

#: The first version whose ``Resize`` says how it maps coordinates, and that rounds numbers.
_MODERN = 11
_OLD = frozenset({"Upsample", "Resize", *QUANTISED["ai.onnx"]})
#: The first version whose ``Slice`` has its bounds as inputs, which TVM's importer wants.
_SLICE_OF_INPUTS = 10

#: The library's own types are incomplete.
_onnx: Any = onnx
_converter: Any = version_converter


def modernise(model: Any) -> Any:
    """The model in opset 11 if it resizes, quantises, or slices by attributes, in an older one.

    Raises
    ------
    GraphError
        If it resizes or quantises and cannot be converted.
    """
    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 1)
    kinds = {node.op_type for node in model.graph.node}
    needed = opset < _MODERN and not kinds.isdisjoint(_OLD)
    if not needed and not (opset < _SLICE_OF_INPUTS and "Slice" in kinds):
        return model
    try:
        converted = _converter.convert_version(model, _MODERN)
    except Exception as error:  # the converter's own error types are private
        if not needed:
            return model  # whoever reads it next may know its slices
        reason = (str(error).strip().splitlines() or [repr(error)])[0]
        raise GraphError(
            f"the model resizes or quantises by the rules of opset {opset}, and converting it "
            f"fails ({reason}); export it with opset {_MODERN} or later"
        ) from error
    for node in converted.graph.node:
        if node.op_type == "Resize":
            # What the old versions meant; the converter leaves it out.
            modes = [a for a in node.attribute if a.name == "mode"]
            del node.attribute[:]
            node.attribute.extend(modes)
            for name, value in (
                ("coordinate_transformation_mode", "asymmetric"),
                ("nearest_mode", "floor"),
            ):
                node.attribute.append(_onnx.helper.make_attribute(name, value))
    return converted
