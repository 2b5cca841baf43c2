"""Integers of Relax modules that are divided by zero, which ends a process on most processors."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax

from tests.relax.relax_sketch import sequential_outputs


def quotients(operator: str, dtype: str) -> tvm.IRModule:
    x, y = (relax.Var(name, relax.TensorType((8,), dtype)) for name in "xy")
    builder = relax.BlockBuilder()
    with builder.function("main", [x, y]):
        with builder.dataflow():
            result = builder.emit_output(getattr(relax.op, operator)(x, y))
        builder.emit_func_output(result)
    return builder.finalize()


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
@pytest.mark.parametrize("operator", ["divide", "floor_divide", "mod", "floor_mod"])
def test_integers_are_divided_by_anything(operator: str, dtype: str) -> None:
    least = np.iinfo(dtype).min
    signed = np.array([7, -7, 7, least, least, 0, 9, 5])
    x = (signed if least else np.abs(signed)).astype(dtype)
    y = np.array([0, 2 if least else 3, 3, -1 if least else 0, 0, 5, 1, -1 if least else 4], dtype)
    (result,) = sequential_outputs(quotients(operator, dtype), [x, y])
    numbers = [(int(a), int(b)) for a, b in zip(x, y, strict=True)]
    whole = {"divide": lambda a, b: int(a / b), "floor_divide": lambda a, b: a // b}
    rest = {"mod": lambda a, b: a - int(a / b) * b, "floor_mod": lambda a, b: a % b}
    function = (whole | rest)[operator]
    expected = [function(a, b) if b else 0 for a, b in numbers]
    # The least number divided by -1 is itself.
    expected = [least if value > np.iinfo(dtype).max else value for value in expected]
    assert result.tolist() == expected
