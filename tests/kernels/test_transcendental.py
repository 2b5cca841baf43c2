"""Vectorised exp, sigmoid, tanh, erf against double precision, over all floats that matter."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import relax

from runtime_ext.units.unit import UnitSource
from tests.kernels.kernel_harness import compiler, make_unit, run_unit
from tvm_ios.files.array_files import Array

Function = Callable[[Any], Any]

FUNCTIONS: dict[str, tuple[Function, Function]] = {
    "exp": (relax.op.exp, np.exp),
    "sigmoid": (relax.op.sigmoid, lambda x: 1 / (1 + np.exp(-x))),
    "tanh": (relax.op.tanh, np.tanh),
    "erf": (relax.op.erf, np.vectorize(math.erf)),
}
#: Below this a float is subnormal, and counts as zero.
SMALLEST = float(np.finfo(np.float32).tiny)


def arguments() -> Array:
    """Floats of every size and either sign, densely where the functions bend; special ones."""
    rng = np.random.default_rng(0)
    sizes = np.concatenate([2.0 ** rng.uniform(-126, 127, 20_000), rng.uniform(0, 110, 40_000)])
    near = np.concatenate([rng.uniform(0, 5, 40_000), [0.625, 1.0, 4.0, 87.33654, 88.72283]])
    one_side = np.concatenate([sizes, near, np.nextafter(near.astype(np.float32), 9)])
    special = [0.0, np.inf, np.nan, SMALLEST, np.finfo(np.float32).max]
    return np.concatenate([one_side, -one_side, special, np.negative(special)]).astype(np.float32)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("target", ["host", "avx2", "sse"])
def test_error_is_below_one_millionth(name: str, target: str, kernels_folder: Path) -> None:
    x = arguments()
    ours, reference = FUNCTIONS[name]
    function = make_unit([x.shape], [], lambda emit, p: ours(p))
    kernels = compiler(str(kernels_folder), target)
    unit = kernels.compile({"unit": UnitSource(function, ("", ""))})["unit"]
    (output,) = run_unit(kernels, unit, ("", ""), [x], [])
    with np.errstate(over="ignore"):
        expected = reference(x.astype(np.float64)).astype(np.float32)
    assert np.array_equal(np.isnan(output), np.isnan(expected))
    infinite = np.isinf(expected)
    assert np.array_equal(output[infinite], expected[infinite])
    normal = np.isfinite(expected) & (np.abs(expected) >= SMALLEST)
    error = np.abs(output[normal].astype(np.float64) / expected[normal] - 1)
    worst = int(np.argmax(error))
    assert error[worst] < 5e-7, f"{name}({x[normal][worst]!r}) is off by {error[worst]:.1e}"
    rest = np.isfinite(expected) & ~normal
    assert np.all(np.abs(output[rest]) <= SMALLEST)


def test_gelu_is_that_of_the_error_function(kernels_folder: Path) -> None:
    # Far out erf has to be one exactly.
    x = np.append(np.linspace(-8, 8, 10_001, dtype=np.float32), np.float32([-1e6, 1e6]))
    function = make_unit([x.shape], [], lambda emit, p: relax.op.nn.gelu(p))
    kernels = compiler(str(kernels_folder), "host")
    unit = kernels.compile({"unit": UnitSource(function, ("", ""))})["unit"]
    (output,) = run_unit(kernels, unit, ("", ""), [x], [])
    expected = x / 2 * (1 + np.vectorize(math.erf)(x / np.sqrt(2)))
    assert np.abs(output - expected).max() < 1e-6


def test_no_function_of_the_library_is_called(kernels_folder: Path, tmp_path: Path) -> None:
    function = make_unit([(64,)], [], lambda emit, p: relax.op.tanh(emit(relax.op.exp(p))))
    kernels = compiler(str(kernels_folder), "host")
    unit = kernels.compile({"unit": UnitSource(function, ("", ""))})["unit"]
    library = tmp_path / "kernels.so"
    kernels.export(library, [call.symbol for call in unit.code.calls])
    assert not {b"expf", b"tanhf"} & set(library.read_bytes().split(b"\0"))
