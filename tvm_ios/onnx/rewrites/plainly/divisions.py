"""Rewrite undefined integer divisions, at which the processor would kill the process."""

from __future__ import annotations

import numpy as np

from tvm_ios.onnx.edit import constant
from tvm_ios.onnx.rewrites.steps import Steps

#: Marks an operator whose divisor was made to fit.
_GUARDED = "tvm_ios.guarded"


def integer_division(steps: Steps) -> None:
    """Give ``Div`` and ``Mod`` of integers NumPy's results where they are undefined.

    Division by zero gives 0 for both, and the least number divided by -1 is itself.
    """
    dividend, divisor = steps.node.inputs
    if dividend.dtype is None or not dividend.dtype.is_integer():
        return
    if _GUARDED in steps.node.metadata_props:
        return
    kind = np.dtype(dividend.dtype.numpy())
    known = constant(divisor)
    if known is not None and not np.any((known == 0) | ((known == -1) & (kind.kind == "i"))):
        return
    one = steps.number(np.array(1, kind))
    unfit = steps.op("Equal", divisor, steps.number(np.array(0, kind)))
    if kind.kind == "i":
        is_negative = steps.op("Equal", divisor, steps.number(np.array(-1, kind)))
        unfit = steps.op("Or", unfit, is_negative)
    result = steps.op(
        steps.node.op_type, dividend, steps.op("Where", unfit, one, divisor), **steps.attributes
    )
    result.producer().metadata_props[_GUARDED] = "1"
    # Divided by 0 or -1 is multiplied by it; the remainder is that of a division by 1, 0.
    if steps.node.op_type == "Div":
        result = steps.op("Mul", result, steps.op("Where", unfit, divisor, one))
    steps.stand_for(result)
