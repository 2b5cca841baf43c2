"""Registry of the rewrites of operators that TVM reads wrongly or not at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tvm_ios.onnx.edit import is_of_onnx
from tvm_ios.onnx.rewrites.plainly.arithmetic import ARITHMETIC
from tvm_ios.onnx.rewrites.plainly.declared import DECLARED
from tvm_ios.onnx.rewrites.plainly.deform import deformable_convolution
from tvm_ios.onnx.rewrites.plainly.fourier import FOURIER
from tvm_ios.onnx.rewrites.plainly.misread import MISREAD
from tvm_ios.onnx.rewrites.plainly.n_grams import count_n_grams
from tvm_ios.onnx.rewrites.plainly.normalisations import NORMALISATIONS
from tvm_ios.onnx.rewrites.plainly.places import PLACES
from tvm_ios.onnx.rewrites.plainly.windows import WINDOWS
from tvm_ios.onnx.rewrites.steps import Steps

_WRITERS: Mapping[str, Callable[[Steps], None]] = {
    **MISREAD,
    **ARITHMETIC,
    **DECLARED,
    **FOURIER,
    **NORMALISATIONS,
    **PLACES,
    **WINDOWS,
    "DeformConv": deformable_convolution,
    "TfIdfVectorizer": count_n_grams,
}


def write_plainly(graph: Any, node: Any, opset: int) -> None:
    """Rewrite an operator that TVM reads wrongly, or raise GraphError if that is impossible."""
    if node.op_type in _WRITERS and is_of_onnx(node):
        _WRITERS[node.op_type](Steps(graph, node, opset))
