"""Sessions over their caller's memory: nothing is copied, and nothing is kept."""

from __future__ import annotations

import numpy as np
import pytest

from relay_passes.pipeline import apply_schedule, prepare
from relay_passes.relax.importer import import_onnx
from runtime_ext.build import build
from runtime_ext.execution.buffers import allocate, fits_kernels
from runtime_ext.execution.session import Session
from runtime_ext.native_errors import SessionError
from tests.onnx_sketch import Sketch
from tests.small_executable import small_model
from tvm_ios.policies.sequential import sequential_schedule
from tvm_ios.program.program import BufferType


def session_of(model: object) -> Session:
    prepared = prepare(import_onnx(model), "small")
    schedule = sequential_schedule(prepared.units)
    return build(apply_schedule(prepared, schedule), lanes=2).session()


def test_outputs_are_written_where_the_caller_says() -> None:
    model = small_model(residual=True)
    session, other = session_of(model), session_of(model)
    run = session.over_callers_memory()
    (port,), (result,) = session.inputs, session.outputs
    generator = np.random.default_rng(0)
    given, written = [], []
    for _ in range(3):
        x = allocate(BufferType(port.shape, port.dtype))
        x[...] = generator.standard_normal(port.shape)
        y = allocate(BufferType(result.shape, result.dtype))
        run(x.ctypes.data, y.ctypes.data)
        given.append(x)
        written.append(y)
    for x, y in zip(given, written, strict=True):
        other.run(**{port.name: x})
        np.testing.assert_array_equal(y, other.get_output())


def test_each_input_and_output_has_an_address() -> None:
    session = session_of(small_model())
    with pytest.raises(SessionError, match="an address for each"):
        session.over_callers_memory()(0)


def test_outputs_without_memory_of_their_own_are_refused() -> None:
    sketch = Sketch(1, 4)
    relu = sketch.op("Relu", "x")
    session = session_of(sketch.model(relu, "x"))
    with pytest.raises(SessionError, match="caller's memory"):
        session.over_callers_memory()


@pytest.mark.parametrize(
    ("address", "nbytes", "fits"),
    [
        (4096, 64, True),
        (4096 + 32, 64, False),
        (4096, 4096 - 64, True),
        (4096, 4096 - 63, False),
        (4096, 4096, False),
        (8192 - 64, 64 + 1, True),
    ],
)
def test_kernels_may_read_behind_the_end_within_a_page(
    address: int, nbytes: int, fits: bool
) -> None:
    assert fits_kernels(address, nbytes) is fits
