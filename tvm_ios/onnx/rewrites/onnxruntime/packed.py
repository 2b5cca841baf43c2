"""Products with weights of a few bits, several in a byte."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tvm_ios.onnx.rewrites.steps import Steps

PACKED: Mapping[str, Callable[[Steps], None]] = {}
