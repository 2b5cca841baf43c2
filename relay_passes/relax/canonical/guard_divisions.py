"""Integer divisions by what no integer is divided by, at which a processor ends the process."""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import relax

from relay_passes.relax.expressions import (
    constant_value,
    data_type,
    operator_name,
    rebuild,
    substitute,
)

_QUOTIENTS = {
    "relax.divide": relax.op.divide,
    "relax.floor_divide": relax.op.floor_divide,
}
_REMAINDERS = {"relax.mod": relax.op.mod, "relax.floor_mod": relax.op.floor_mod}


@tvm.transform.module_pass(opt_level=0, name="GuardDivisions")
class GuardDivisions:
    """Give quotients and remainders of integers by 0 the result 0, as NumPy has it.

    The least number divided by -1 is itself. ONNX models are read with such guards already
    (:mod:`tvm_ios.onnx.rewrites.plainly.divisions`).
    """

    def transform_module(self, mod: tvm.IRModule, ctx: Any) -> tvm.IRModule:
        """Guard; see :class:`tvm.transform.Pass`."""
        return rebuild(mod, "main", _emit, {*_QUOTIENTS, *_REMAINDERS})


def _emit(builder: relax.BlockBuilder, binding: relax.VarBinding, new: dict[Any, Any]) -> Any:
    call, name = binding.value, operator_name(binding.value)
    divide = (_QUOTIENTS | _REMAINDERS).get(name)
    if divide is None or np.dtype(data_type(call)).kind not in "iu":
        return None
    dividend, divisor = (substitute(argument, new) for argument in call.args)
    known = constant_value(divisor)
    if known is not None and not np.any((known == 0) | (known == -1)):
        return None
    one, zero, negative = (relax.const(n, data_type(call)) for n in (1, 0, -1))
    unfit = builder.emit(relax.op.equal(divisor, zero))
    if np.dtype(data_type(call)).kind == "i":
        is_negative = builder.emit(relax.op.equal(divisor, negative))
        unfit = builder.emit(relax.op.logical_or(unfit, is_negative))
    fitting = builder.emit(relax.op.where(unfit, one, divisor))
    result = builder.emit(divide(dividend, fitting))
    if name in _REMAINDERS:
        return result
    return builder.emit(
        relax.op.multiply(result, builder.emit(relax.op.where(unfit, divisor, one)))
    )
