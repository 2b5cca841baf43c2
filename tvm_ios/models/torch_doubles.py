"""Keep Python numbers exact beside float64 tensors; torch's ONNX exporter makes them float32."""

# Torch is an extra, and its types are incomplete where it is installed.
# pyright: basic, reportMissingImports=warning

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

#: The number of float64 in ONNX.
_DOUBLE = 11


def exact_numbers() -> dict[Any, Callable[..., Any]]:
    """Return translations to ONNX, by operator, of those that make tensors of numbers."""
    import torch
    from onnxscript.function_libs.torch_lib.ops import core

    def scalar_tensor(number: Any, dtype: int = 1, **how: Any) -> Any:
        return core.aten_scalar_tensor(_exact(number, dtype), dtype, **how)

    def full(size: Any, number: Any, dtype: int = -1, **how: Any) -> Any:
        return core.aten_full(size, _exact(number, dtype), dtype, **how)

    aten: Any = torch.ops.aten
    return {aten.scalar_tensor.default: scalar_tensor, aten.full.default: full}


def _exact(number: Any, dtype: int) -> Any:
    import onnx_ir as ir
    from onnxscript import opset18

    if not isinstance(number, float) or dtype != _DOUBLE:
        return number
    constant: Any = ir.tensor(number, ir.DataType.DOUBLE)
    return opset18.Constant(value=constant)


def is_double(node: Any) -> bool:
    """Return whether a node of a program makes a tensor of float64."""
    import torch

    return getattr(node.meta.get("val"), "dtype", None) == torch.float64


def decompositions() -> dict[Any, Callable[..., Any]]:
    """Return decompositions of operators whose numbers would be rounded to float32."""
    import torch
    from torch._decomp import decomposition_table

    aten: Any = torch.ops.aten
    by_torch = (
        aten.addcmul.default,
        aten.addcdiv.default,
        aten.linalg_vector_norm.default,
        aten.masked_fill.Scalar,
    )
    return {
        **{operator: decomposition_table[operator] for operator in by_torch},
        aten.arange.start: _range,
        aten.arange.start_step: _range,
        aten.full_like.default: lambda like, number, **how: _full(like, like.shape, number, **how),
        aten.new_full.default: _full,
        aten.pow.Scalar: _power,
        aten.sub.Tensor: _subtract,
    }


def _range(start: Any, end: Any, step: Any = 1, *, dtype: Any = None, **how: Any) -> Any:
    import torch

    if dtype != torch.float64 or not all(isinstance(n, int | float) for n in (start, end, step)):
        return NotImplemented
    return torch.arange(math.ceil((end - start) / step)).to(dtype) * step + start


def _full(like: Any, shape: Any, number: Any, *, dtype: Any = None, **how: Any) -> Any:
    import torch

    return torch.full(shape, number, dtype=dtype or like.dtype)


def _power(base: Any, exponent: Any) -> Any:
    import torch

    kind = torch.result_type(base, exponent)
    return torch.pow(torch.full((), base, dtype=kind), exponent.to(kind))


def _subtract(left: Any, right: Any, *, alpha: Any = 1) -> Any:
    return left - right * alpha if isinstance(alpha, float) else NotImplemented
