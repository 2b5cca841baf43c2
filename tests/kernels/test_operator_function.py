"""Functions of one operator."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from tvm import relax

from runtime_ext.kernels.generic import Generic
from runtime_ext.kernels.operator_function import astype, outlined


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("hasty_threads")
def test_threads_make_them_at_once() -> None:
    with ThreadPoolExecutor(8) as pool:
        functions = [pool.submit(astype, (2, n), "float16", "float32") for n in range(1, 65)]
    shapes = [tuple(map(int, f.result().params[0].ty.shape)) for f in functions]
    assert shapes == [(2, n) for n in range(1, 65)]


@pytest.mark.parametrize(("dtype", "numbers"), [("int64", (-1, 3)), ("int32", (-1, 1))])
def test_kernels_of_other_constants_have_other_names(dtype: str, numbers: tuple[int, int]) -> None:
    """TVM's structural hash of these is the same."""

    def name(number: int) -> str:
        x = relax.Var("x", relax.TensorType((6,), dtype))
        call = relax.BlockBuilder().normalize(relax.op.equal(x, relax.const(number, dtype)))
        return repr(Generic(outlined(call, [x]), (((6,), dtype), ((6,), "bool"))))

    assert len({name(number) for number in numbers}) == 2
    assert name(numbers[0]) == name(numbers[0])
