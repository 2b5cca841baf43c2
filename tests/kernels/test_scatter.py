"""Rows that are scattered, in parallel over columns, are those of NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from runtime_ext.kernels.generic import Generic, lower_generic
from runtime_ext.kernels.scatter import scatter_of_rows
from tests.relax.relax_sketch import sequential_outputs

COMBINED: Mapping[str, Callable[[Any, Any], Any]] = {
    "update": lambda old, new: new,
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


def scattering(
    shape: tuple[int, ...], count: int, reduction: str, *, dtype: str = "float32", axes: int = 1
) -> tvm.IRModule:
    """Return a module that scatters parts of a tensor."""
    kinds = [(shape, dtype), ((count, axes), "int64"), ((count, *shape[axes:]), dtype)]
    data, places, added = (
        relax.Var(f"x{number}", relax.TensorType(*kind)) for number, kind in enumerate(kinds)
    )
    builder = relax.BlockBuilder()
    with builder.function("main", [data, places, added]):
        with builder.dataflow():
            result = builder.emit_output(relax.op.scatter_nd(data, places, added, reduction))
        builder.emit_func_output(result)
    return builder.get()


@pytest.mark.parametrize("reduction", COMBINED)
@pytest.mark.parametrize("shape", [(5, 64), (9, 200), (4, 3, 40), (6, 7)])
def test_rows(shape: tuple[int, ...], reduction: str) -> None:
    """Some several times, by indices from the end too; NaN stays in matrices."""
    draw = np.random.default_rng(0)
    data, added = (draw.standard_normal((n, *shape[1:])).astype("f") for n in (shape[0], 20))
    if shape[1] > 8:
        added[7, 0], data[2] = np.nan, np.nan
    places = draw.integers(-shape[0], shape[0], (20, 1))
    want = data.copy()
    for (place,), row in zip(places, added, strict=True):
        want[place] = COMBINED[reduction](want[place], row)
    for lanes in (1, 2):
        inputs = [data, places, added]
        (have,) = sequential_outputs(scattering(shape, 20, reduction), inputs, lanes)
        np.testing.assert_array_equal(have, want)


@pytest.mark.parametrize(
    ("module", "tiles"),
    [
        (scattering((300, 256), 50, "add"), [4]),
        (scattering((300, 24), 50, "max"), [1]),
        # Few columns, whole numbers, and single elements are left to TVM.
        (scattering((300, 7), 50, "add"), None),
        (scattering((300, 64), 50, "add", dtype="int32"), None),
        (scattering((300, 64), 50, "add", axes=2), None),
    ],
)
def test_tiles_are_of_columns(module: tvm.IRModule, tiles: list[int] | None) -> None:
    scatter = module["main"]
    assert (scatter_of_rows(scatter) is not None) == (tiles is not None)
    if tiles is not None:
        lowered = lower_generic(Generic(scatter, ()), tvm.target.Target("llvm"))
        assert [phase.tiles for phase in lowered.phases] == tiles
