"""Dense layers of batches are contractions of packed weights, as those of a single matrix are."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from tvm import relax

from runtime_ext.kernels.spec import Contraction
from tests.fast_run import examples
from tests.kernels.kernel_harness import check, compiler, make_unit
from tvm_ios.program.compiled_unit import CompiledUnit

op = relax.op


def contraction_of(folder: Path, unit: CompiledUnit) -> Contraction:
    """The contraction that is the whole unit."""
    (call,) = unit.code.calls
    spec = compiler(str(folder), "host").workload(call.symbol)
    assert isinstance(spec, Contraction)
    return spec


@pytest.mark.parametrize(
    "shape",
    [(8, 31, 16), (2, 3, 5, 16), (4, 1, 16), (2, 3, 1, 16), (1, 7, 7, 16), (6, 16)],
    ids=str,
)
def test_all_rows_are_those_of_one_matrix(shape: Any, kernels_folder: Path) -> None:
    """Also where each matrix has one row, with a bias, a residual sum and an activation."""

    def body(emit: Any, x: Any, y: Any, w: Any, b: Any) -> Any:
        summed = emit(op.add(emit(op.add(emit(op.matmul(x, w)), b)), y))
        return op.nn.gelu(summed)

    columns = 21
    function = make_unit([shape, (*shape[:-1], columns)], [(16, columns), (columns,)], body)
    spec = contraction_of(kernels_folder, check(str(kernels_folder), function, ("",) * 3))
    assert (spec.batch, spec.window.output) == (1, (1, prod(shape[:-1])))


def test_what_is_added_to_every_matrix(kernels_folder: Path) -> None:
    """Vectors of places, the same for each text of a batch: rows stay those of their matrix."""

    def body(emit: Any, x: Any, places: Any, w: Any) -> Any:
        return op.add(emit(op.matmul(x, w)), places)

    function = make_unit([(3, 5, 16), (5, 9)], [(16, 9)], body)
    spec = contraction_of(kernels_folder, check(str(kernels_folder), function, ("",) * 3))
    assert (spec.batch, spec.window.output) == (1, (3, 5))


def test_a_product_of_moved_axes_and_its_parts(kernels_folder: Path) -> None:
    """Queries, keys and values of one product; heads that are read where attention left them."""

    def body(emit: Any, x: Any, w: Any, b: Any) -> Any:
        moved = emit(op.permute_dims(x, [0, 2, 1, 3]))
        parts = emit(op.split(emit(op.add(emit(op.matmul(moved, w)), b)), 3, axis=-1))
        query, key, value = (emit(relax.TupleGetItem(parts, n)) for n in range(3))
        return op.multiply(emit(op.add(query, key)), emit(op.tanh(value)))

    function = make_unit([(2, 3, 5, 8)], [(8, 36), (36,)], body)
    unit = check(str(kernels_folder), function, ("", ""))
    assert "contraction" in unit.forms
    assert "product" not in unit.forms


@examples(20, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    batch=st.lists(st.integers(1, 4), max_size=2),
    rows=st.integers(1, 9),
    depth=st.integers(1, 40),
    columns=st.integers(1, 40),
)
def test_batches_of_any_size(
    kernels_folder: Path, batch: list[int], rows: int, depth: int, columns: int
) -> None:
    def body(emit: Any, x: Any, w: Any) -> Any:
        return op.nn.relu(emit(op.matmul(x, w)))

    source = make_unit([(*batch, rows, depth)], [(depth, columns)], body)
    contraction_of(kernels_folder, check(str(kernels_folder), source, ("", "")))
