"""A contraction as a product of two matrices."""

from __future__ import annotations

from math import prod

from runtime_ext.cuda.kernels.statements import is_wide, statement_width
from runtime_ext.kernels.spec import Contraction, Statement, Window
from tvm_ios.costs.cuda_kernels.matrix_product import VECTOR_ROWS, MatrixProduct
from tvm_ios.costs.cuda_kernels.tile import WIDE


def rows_of(spec: Contraction) -> int:
    """Return the rows of the matrix product: the output pixels of all images."""
    return spec.batch * spec.window.output[0] * spec.window.output[1]


def depth_of(spec: Contraction) -> int:
    """Return the length of the matrix product's reduction."""
    return spec.channels * spec.window.kernel[0] * spec.window.kernel[1]


def is_vector_product(spec: Contraction) -> bool:
    """Return whether there are so few rows that reading the weights dominates."""
    window = spec.window
    return rows_of(spec) <= VECTOR_ROWS and window.kernel == (1, 1) and not has_borders(window)


def has_borders(window: Window) -> bool:
    """Return whether a window reads beyond its input anywhere."""
    last = (
        (o - 1) * s + (k - 1) * d - p
        for o, s, k, d, p in zip(
            window.output, window.strides, window.kernel, window.dilations, window.pads, strict=True
        )
    )
    beyond = any(at >= extent for at, extent in zip(last, window.input, strict=True))
    return beyond or any(pad > 0 for pad in window.pads)


def product_of(spec: Contraction) -> MatrixProduct:
    """Return the matrix product of a contraction, however it is cut."""
    return MatrixProduct(
        rows_of(spec),
        spec.parts,
        depth_of(spec),
        spec.batch * prod(spec.window.input) * spec.channels * spec.groups,
        wide=reads_wide(spec),
        bordered=has_borders(spec.window),
        vectors=is_vector_product(spec),
        stores=tuple((s.count, stored_width(spec, s)) for s in spec.statements),
    )


def reads_wide(spec: Contraction) -> bool:
    """Return whether a thread can read four channels of a pixel at once."""
    return spec.channels % WIDE == 0 and is_wide(spec.data) and spec.data.strides[3] == 1


def stored_width(spec: Contraction, statement: Statement) -> int:
    """Return how many neighbouring channels a thread can store at once: four or one."""
    whole = spec.groups == 1 or spec.parts[0] % WIDE == 0
    return statement_width(statement) if whole else 1
