"""Kernels of open extents, each compiled once, against NumPy at many shapes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import tvm

from runtime_ext.cpu.vector_space import VectorSpace
from runtime_ext.isa.levels import isa_of
from runtime_ext.kernels.chain import Attention, Chain
from runtime_ext.kernels.cut import UNCUT, Blocking
from runtime_ext.kernels.expression import ACC, Access
from runtime_ext.kernels.spec import (
    Contraction,
    Finer,
    Mean,
    Normalisation,
    Pointwise,
    Pooling,
    Product,
    Statement,
    Window,
)
from tests.kernels.kernel_harness import AVX2
from tests.kernels.open_kernels import (
    TARGETS,
    OpenKernel,
    cases_on_targets,
    compared,
    kernel_of,
    nothing,
    on_targets,
    random,
)
from tvm_ios.errors import UserError
from tvm_ios.files.array_files import Array
from tvm_ios.program.constant_transform import packing
from tvm_ios.shapes.extent import Symbol, evaluate, extent_of

B = extent_of(Symbol("batch", 1, 8, hint=1))
L = extent_of(Symbol("length", 1, 512, hint=128))
#: A length that has a step.
LONG = extent_of(Symbol("step", 1, 16, hint=4), 32)
#: Rows of whole cache lines.
PADDED = (L + 15) // 16 * 16
ROWS = {"padded": PADDED, "exact": L}
HEADS = 3
#: All small lengths, of every remainder of vectors and register tiles, and some large ones.
SHAPES = [(1, length) for length in (*range(1, 60), 64, 200)] + [(3, 5), (8, 1), (2, 33)]


def in_rows(array: Array, row: int) -> Array:
    """The last axis in rows of memory; what is behind it is no number."""
    whole = np.full((*array.shape[:-1], row), np.nan, np.float32)
    whole[..., : array.shape[-1]] = array
    return whole


def shapes() -> Iterator[dict[str, int]]:
    for batch, length in SHAPES:
        yield {"batch": batch, "length": length}


def softmax_spec(row: int) -> Normalisation:
    access = Access(0, 0, (HEADS * L * row, L * row, row, 1))
    stored = Statement(ACC, Access(1, 0, access.strides), 0, L)
    buffers = ((B, HEADS, L, row),) * 2
    return Normalisation(buffers, "softmax", (B, HEADS, L), L, access, ACC, 0.0, (stored,))


def softmax(x: Array) -> Array:
    e = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@cases_on_targets(row=ROWS)
def test_softmax_of_any_length(row: int, target: str) -> None:
    kernel = kernel_of(softmax_spec(row), target)
    for values in shapes():
        batch, length = values.values()
        x, pitch = random(batch, HEADS, length, length) * 3, evaluate(row, values)
        arrays = [in_rows(x, pitch), nothing(batch, HEADS, length, pitch)]
        compared(kernel, values, arrays, softmax(x))


@on_targets
def test_softmax_of_a_length_in_steps(target: str) -> None:
    access = Access(0, 0, (0, 0, LONG, 1))
    stored = Statement(ACC, Access(1, 0, access.strides), 0, LONG)
    spec = Normalisation(
        ((5, LONG), (5, LONG)), "softmax", (1, 1, 5), LONG, access, ACC, 0.0, (stored,)
    )
    kernel = kernel_of(spec, target)
    for step in (1, 2, 3, 8):
        x = random(5, 32 * step)
        compared(kernel, {"step": step}, [x, nothing(*x.shape)], softmax(x))


@on_targets
def test_softmax_along_an_open_axis_that_is_not_innermost(target: str) -> None:
    """Elements of a row are apart, so that nothing behind the last one may be read."""
    access = Access(0, 0, (0, 0, 1, 4))
    stored = Statement(ACC, Access(1, 0, access.strides), 0, L)
    spec = Normalisation(((L, 4),) * 2, "softmax", (1, 1, 4), L, access, ACC, 0.0, (stored,))
    kernel = kernel_of(spec, target)
    for length in (1, 2, 7, 16, 17, 33):
        x = random(length, 4)
        compared(kernel, {"length": length}, [x, nothing(length, 4)], softmax(x.T).T)


@cases_on_targets(count={"384": 384, "37": 37, "open": L})
def test_layer_norm_of_any_rows(count: int, target: str) -> None:
    at = Access(0, 0, (L * count, 0, count, 1))
    value = ("add", ("mul", ACC, ("load", Access(1, 0, (0, 0, 0, 1)))), ("const", 0.5))
    stored = Statement(value, Access(2, 0, at.strides), 0, count)
    buffers = ((B, L, count), (count,), (B, L, count))
    spec = Normalisation(buffers, "layer_norm", (B, 1, L), count, at, ACC, 1e-5, (stored,))
    kernel = kernel_of(spec, target)
    for values in shapes():
        channels = evaluate(count, values)
        x = random(values["batch"], values["length"], channels) + 3
        scale, x64 = random(channels), x.astype(np.float64)
        centred = x64 - x64.mean(-1, keepdims=True)
        want = centred / np.sqrt(x64.var(-1, keepdims=True) + 1e-5) * scale + 0.5
        compared(kernel, values, [x, scale, nothing(*x.shape)], want, 2e-5)


@on_targets
def test_mean_of_any_pixels(target: str) -> None:
    data = Access(0, 0, (L * 100, 0, 100, 1))
    stored = Statement(ACC, Access(1, 0, (100, 0, 0, 1)), 0, 100)
    spec = Mean(((B, L, 100), (B, 100)), B, (1, L), 100, data, ACC, (stored,))
    kernel = kernel_of(spec, target)
    for values in shapes():
        x = random(values["batch"], values["length"], 100)
        compared(kernel, values, [x, nothing(len(x), 100)], x.mean(1, dtype=np.float64))


@cases_on_targets(row=ROWS)
def test_sums_of_rows_of_any_length_and_broadcasts(row: int, target: str) -> None:
    """A mask of each image is added to all rows, and a number of each row."""
    at = Access(0, 0, (HEADS * L * row, L * row, row, 1))
    mask, number = Access(1, 0, (row, 0, 0, 1)), Access(2, 0, (0, 1, 0, 0))
    value = ("add", ("add", ("load", at), ("load", mask)), ("exp", ("load", number)))
    stored = Statement(value, Access(3, 0, at.strides), 0, L)
    buffers = ((B, HEADS, L, row), (B, row), (HEADS,), (B, HEADS, L, row))
    kernel = kernel_of(Pointwise(buffers, (B, HEADS, L), (stored,)), target)
    for values in shapes():
        batch, length = values.values()
        pitch = evaluate(row, values)
        x, m, n = random(batch, HEADS, length, length), random(batch, length), random(HEADS)
        arrays = [in_rows(x, pitch), in_rows(m, pitch), n, nothing(batch, HEADS, length, pitch)]
        compared(kernel, values, arrays, x + m[:, None, None] + np.exp(n)[:, None, None])


@cases_on_targets(is_finer=[False, True])
def test_long_runs_of_any_number_of_elements(target: str, is_finer: bool) -> None:
    """Several tiles, of which the last is shorter."""
    count = B * L * 33
    at = Access(0, 0, (0, 0, 0, 1))
    stored = Statement(("mul", ("load", at), ("const", 2.0)), Access(1, 0, at.strides), 0, count)
    spec = Pointwise(((count,), (count,)), (1, 1, 1), (stored,))
    kernel = kernel_of(Finer(spec) if is_finer else spec, target)
    for values in shapes():
        x = random(evaluate(count, values))
        compared(kernel, values, [x, nothing(x.size)], x * 2)


@cases_on_targets(row=ROWS, size={"5": 5, "17": 17})
def test_transposed_copies(size: int, row: int, target: str) -> None:
    """Keys [B, L, heads * size] become [B, heads, size, L] and come back."""
    width = HEADS * size
    apart = Access(0, 0, (L * width, 1, 0, width))
    along = Access(1, 0, (width * row, row, 0, 1))
    there = Pointwise(
        ((B, L, width), (B, width, row)), (B, width, 1), (Statement(("load", apart), along, 0, L),)
    )
    back = Pointwise(
        ((B, width, row), (B, L, width)),
        (B, 1, L),
        (
            Statement(
                ("load", Access(0, 0, (width * row, 0, 1, row))),
                Access(1, 0, (L * width, 0, width, 1)),
                0,
                width,
            ),
        ),
    )
    for values in shapes():
        batch, length = values.values()
        x, pitch = random(batch, length, width), evaluate(row, values)
        turned = np.ascontiguousarray(x.transpose(0, 2, 1))
        arrays = [x, nothing(batch, width, pitch)]
        compared(kernel_of(there, target), values, arrays, turned)
        arrays = [in_rows(turned, pitch), nothing(batch, length, width)]
        compared(kernel_of(back, target), values, arrays, x)


@on_targets
def test_an_operand_in_place(target: str) -> None:
    """A tensor that is read and written: each element once."""
    at = Access(0, 0, (L * 40, 0, 40, 1))
    stored = Statement(("add", ("load", at), ("const", 1.0)), at, 0, 40)
    kernel = kernel_of(Pointwise(((B, L, 40),), (B, 1, L), (stored,)), target)
    for values in shapes():
        x = random(values["batch"], values["length"], 40)
        compared(kernel, values, [x], x + 1)


def scores_spec(row: int, depth: int, mask: bool = False) -> Product:
    """[B, H, L, depth] x [B, H, depth, L], keys and results in rows, and a mask of the columns."""
    value = ("mul", ACC, ("const", 0.125))
    if mask:
        value = ("add", value, ("load", Access(2, 0, (row, 0, 0, 1))))
    target = Access(3, 0, (HEADS * L * row, L * row, row, 1))
    return Product(
        ((B, HEADS, L, depth), (B, HEADS, depth, row), (B, row), (B, HEADS, L, row)),
        (B, HEADS, L),
        L,
        depth,
        Access(0, 0, (HEADS * L * depth, L * depth, depth, 1)),
        Access(1, 0, (HEADS * depth * row, depth * row, row, 1)),
        (Statement(value, target, 0, L),),
    )


def values_spec(row: int, columns: int) -> Product:
    """[B, H, L, L] x [B, H, L, columns] -> [B, L, H * columns]."""
    width = HEADS * columns
    return Product(
        ((B, HEADS, L, row), (B, HEADS, L, columns), (B, L, width)),
        (B, HEADS, L),
        columns,
        L,
        Access(0, 0, (HEADS * L * row, L * row, row, 1)),
        Access(1, 0, (HEADS * L * columns, L * columns, columns, 1)),
        (Statement(ACC, Access(2, 0, (L * width, columns, width, 1)), 0, columns),),
    )


def of_doubles(a: Array, b: Array) -> Array:
    return a.astype(np.float64) @ b


@cases_on_targets(row=ROWS, mask=[False, True])
def test_scores_of_any_length(row: int, mask: bool, target: str) -> None:
    depth = 20
    kernel = kernel_of(scores_spec(row, depth, mask), target)
    for values in shapes():
        batch, length = values.values()
        pitch = evaluate(row, values)
        q, k = random(batch, HEADS, length, depth), random(batch, HEADS, depth, length)
        m = random(batch, length) * mask
        arrays = [q, in_rows(k, pitch), in_rows(m, pitch), nothing(batch, HEADS, length, pitch)]
        compared(kernel, values, arrays, of_doubles(q, k) / 8 + m[:, None, None])


@cases_on_targets(row=ROWS, columns=[64, 20])
def test_values_of_any_length(row: int, columns: int, target: str) -> None:
    kernel = kernel_of(values_spec(row, columns), target)
    for values in shapes():
        batch, length = values.values()
        pitch = evaluate(row, values)
        p, v = random(batch, HEADS, length, length), random(batch, HEADS, length, columns)
        want = of_doubles(p, v).transpose(0, 2, 1, 3).reshape(batch, length, -1)
        compared(kernel, values, [in_rows(p, pitch), v, nothing(*want.shape)], want)


@on_targets
def test_products_with_open_columns_and_a_number_of_each_column_that_is_far_away(
    target: str,
) -> None:
    """Five rows; what is added to a column lies three elements from the next one's."""
    value = ("add", ACC, ("load", Access(2, 0, (0, 0, 0, 3))))
    spec = Product(
        ((5, 7), (7, PADDED), (L, 3), (5, PADDED)),
        (1, 1, 5),
        L,
        7,
        Access(0, 0, (0, 0, 7, 1)),
        Access(1, 0, (0, 0, PADDED, 1)),
        (Statement(value, Access(3, 0, (0, 0, PADDED, 1)), 0, L),),
    )
    kernel = kernel_of(spec, target)
    for length in (1, 2, 15, 16, 17, 33, 50):
        pitch = (length + 15) // 16 * 16
        a, b, c = random(5, 7), random(7, length), random(length, 3)
        arrays = [a, in_rows(b, pitch), c, nothing(5, pitch)]
        compared(kernel, {"length": length}, arrays, of_doubles(a, b) + c[:, 0])


def packed(spec: Contraction, weight: Array, target: str) -> tuple[Contraction, Array]:
    """The contraction with a register tile, and its weights as the tile reads them."""
    space = VectorSpace(isa_of(tvm.target.Target(dict(TARGETS[target]))))
    if spec.blocking is UNCUT:
        spec = replace(spec, blocking=space.blocking(spec))
    assert isinstance(spec.blocking, Blocking)
    pack = packing(weight.shape, spec.parts, space.width(spec.blocking))
    shapes = list(spec.buffers)
    shapes[spec.weight] = pack.shape(weight.shape)
    return replace(spec, buffers=tuple(shapes)), pack.apply(weight)


def dense_spec(
    batch: int, window: tuple[int, int], channels: int, data: Access, *statements: Statement
) -> Contraction:
    """Buffers are data, weights, and a bias; the caller adds those of statements."""
    of = Window(window, window, (1, 1), (1, 1), (0, 0), (1, 1))
    parts = tuple(statement.count for statement in statements)
    out = sum(parts)
    buffers = ((B, L, channels), (channels, out), (out,))
    return Contraction(
        buffers, batch, of, channels, 1, data, ACC, 1, parts, UNCUT, tuple(statements)
    )


BIAS = ("add", ACC, ("load", Access(2, 0, (0, 0, 0, 1))))


@cases_on_targets(out=[5, 32, 112], outer={"pixels outer": False, "weights outer": True})
def test_dense_layers_of_any_rows(out: int, outer: bool, target: str) -> None:
    """All tokens are rows of one matrix; with regions of rows where weights are the outer loop."""
    stored = Statement(BIAS, Access(3, 0, (0, 0, out, 1)), 0, out)
    spec = dense_spec(1, (1, B * L), 9, Access(0, 0, (0, 0, 9, 1)), stored)
    spec = replace(spec, buffers=(*spec.buffers, (B, L, out)))
    weight, bias = random(9, out), random(out)
    spec, pack = packed(spec, weight, target)
    spec = replace(spec, blocking=replace(spec.blocking, blocks_outer=outer))
    kernel = kernel_of(spec, target)
    for values in (*shapes(), {"batch": 8, "length": 210}):
        x = random(*values.values(), 9)
        arrays = [x, pack, bias, nothing(*values.values(), out)]
        compared(kernel, values, arrays, of_doubles(x, weight) + bias)


@on_targets
def test_dense_layers_that_activate_and_add_to_a_tensor_in_place(target: str) -> None:
    """What is added is read once where it is overwritten."""
    old = ("load", Access(3, 0, (0, 0, 40, 1)))
    value = ("add", ("sigmoid", BIAS), old)
    stored = Statement(value, Access(3, 0, (0, 0, 40, 1)), 0, 40)
    spec = dense_spec(1, (1, B * L), 20, Access(0, 0, (0, 0, 20, 1)), stored)
    spec = replace(spec, buffers=(*spec.buffers, (B, L, 40)), prologue=("max", ACC, ("const", 0.0)))
    weight, bias = random(20, 40), random(40)
    spec, pack = packed(spec, weight, target)
    kernel = kernel_of(spec, target)
    for values in shapes():
        x, y = random(*values.values(), 20), random(*values.values(), 40)
        want = y + 1 / (1 + np.exp(-of_doubles(np.maximum(x, 0), weight) - bias))
        compared(kernel, values, [x, pack, bias, y], want)


@cases_on_targets(is_batch={"images": True, "rows": False}, gap={"together": 0, "apart": 3})
def test_projections_that_are_stored_head_by_head(gap: int, is_batch: bool, target: str) -> None:
    """[B, L, channels] becomes [B, heads, L, depth]; sentences may be apart in memory."""
    depth, channels, out = 18, 10, HEADS * 18
    apart = L * channels + gap
    image = (HEADS * L * depth, depth)

    def strides(of_image: int, of_row: int, last: int) -> tuple[int, int, int, int]:
        return (of_image, 0, of_row, last) if is_batch else (0, of_image, of_row, last)

    statements = [
        Statement(
            ("add", ACC, ("load", Access(2, head * depth, (0, 0, 0, 1)))),
            Access(3, L * (head * depth), strides(*image, 1)),
            head * depth,
            depth,
        )
        for head in range(HEADS)
    ]
    data = Access(0, 0, strides(apart, channels, 1))
    batch, window = (B, (1, L)) if is_batch else (1, (B, L))
    spec = dense_spec(batch, window, channels, data, *statements)
    shapes_of = ((B, apart), *spec.buffers[1:], (B, HEADS, L, depth))
    weight, bias = random(channels, out), random(out)
    spec, pack = packed(replace(spec, buffers=shapes_of), weight, target)
    kernel = kernel_of(spec, target)
    for values in (*shapes(), {"batch": 8, "length": 1}, {"batch": 7, "length": 2}):
        sentences, length = values.values()
        x = random(sentences, length, channels)
        want = (of_doubles(x, weight) + bias).reshape(sentences, length, HEADS, depth)
        rows = in_rows(x.reshape(sentences, -1), evaluate(apart, values))
        arrays = [rows, pack, bias, nothing(sentences, HEADS, length, depth)]
        compared(kernel, values, arrays, want.transpose(0, 2, 1, 3))


@on_targets
def test_a_layer_whose_parts_are_unlike(target: str) -> None:
    """The first part is stored by token, the second transposed into the same buffer."""
    width, channels = 60, 8
    parts = [
        Statement(BIAS, Access(3, 0, (width * PADDED, 0, 20, 1)), 0, 20),
        Statement(ACC, Access(3, 20 * PADDED, (width * PADDED, 0, 1, PADDED)), 20, 40),
    ]
    data = Access(0, 0, (L * channels, 0, channels, 1))
    spec = dense_spec(B, (1, L), channels, data, *parts)
    spec = replace(spec, buffers=(*spec.buffers, (B, width * PADDED)))
    weight, bias = random(channels, width), random(width)
    spec, pack = packed(spec, weight, target)
    kernel = kernel_of(spec, target)
    for batch, length in SHAPES:
        values = {"batch": batch, "length": length}
        x, pitch = random(batch, length, channels), evaluate(PADDED, values)
        want = of_doubles(x, weight)
        result = np.zeros((batch, width * pitch), np.float32)
        expected = result.astype(np.float64)
        expected[:, : length * 20] = (want[..., :20] + bias[:20]).reshape(batch, -1)
        second = expected[:, 20 * pitch :].reshape(batch, 40, pitch)
        second[..., :length] = want[..., 20:].transpose(0, 2, 1)
        expected[:, 20 * pitch :] = second.reshape(batch, -1)
        compared(kernel, values, [x, pack, bias, result], expected)


@on_targets
def test_keys_that_are_stored_transposed(target: str) -> None:
    """[B, L, channels] becomes [B, out, L] in rows of whole cache lines."""
    out, channels = 40, 12
    stored = Statement(BIAS, Access(3, 0, (out * PADDED, 0, 1, PADDED)), 0, out)
    spec = dense_spec(B, (1, L), channels, Access(0, 0, (L * channels, 0, channels, 1)), stored)
    spec = replace(spec, buffers=(*spec.buffers, (B, out, PADDED)))
    weight, bias = random(channels, out), random(out)
    spec, pack = packed(spec, weight, target)
    kernel = kernel_of(spec, target)
    for values in shapes():
        batch, length = values.values()
        x = random(batch, length, channels)
        want = (of_doubles(x, weight) + bias).transpose(0, 2, 1)
        arrays = [x, pack, bias, nothing(batch, out, evaluate(PADDED, values))]
        compared(kernel, values, arrays, want)


def test_the_register_tile_of_open_rows_is_that_of_many() -> None:
    stored = Statement(BIAS, Access(3, 0, (0, 0, 384, 1)), 0, 384)
    spec = dense_spec(1, (1, B * L), 384, Access(0, 0, (0, 0, 384, 1)), stored)
    one = extent_of(Symbol("one", 1, 4096, hint=1))
    window = replace(spec.window, input=(1, one), output=(1, one))
    space = VectorSpace(isa_of(tvm.target.Target(AVX2)))
    blocking = space.blocking(spec)
    assert space.blocking(replace(spec, window=window)) == blocking
    assert blocking.pixels * blocking.vectors == 12


def test_open_channels_of_convolutions_are_refused_by_name() -> None:
    stored = Statement(BIAS, Access(3, 0, (0, 0, 8, 1)), 0, 8)
    spec = dense_spec(1, (1, L), 8, Access(0, 0, (0, 0, 8, 1)), stored)
    spec = replace(spec, channels=L, buffers=(*spec.buffers, (L, 8)), blocking=Blocking(6, 2))
    with pytest.raises(UserError, match="convolutions"):
        OpenKernel(spec, AVX2)


def test_open_channels_of_means_are_refused_by_name() -> None:
    data, stored = Access(0, 0, (0, 0, L, 1)), Statement(ACC, Access(1, 0, (L, 0, 0, 1)), 0, L)
    with pytest.raises(UserError, match="Mean"):
        OpenKernel(Mean(((B, 4, L), (B, L)), B, (1, 4), L, data, ACC, (stored,)), AVX2)


def test_other_kernels_of_open_extents_are_refused_by_name() -> None:
    access = Access(0, 0, (0, 0, 4, 1))
    stored = Statement(ACC, Access(1, 0, (0, 0, 4, 1)), 0, 4)
    window = Window((1, L), (1, L), (1, 3), (1, 1), (0, 1), (1, 1))
    shapes = ((L, 4), (L, 4))
    pool = Pooling(shapes, "max", 1, window, 4, access, ACC, None, (stored,))
    dense = dense_spec(1, (1, L), 4, access, stored)
    product, _ = packed(dense, random(4, 4), "avx2")
    with pytest.raises(UserError, match="Chain"):
        OpenKernel(Chain(shapes, pool, product, 1), AVX2)


def attention_spec(rows: int, most: int, with_scores: bool) -> Attention:
    """Of queries and keys, or of scores in rows of whole cache lines; values stay by token."""
    length = extent_of(Symbol("length", 1, most, hint=128))
    padded, depth = (length + 15) // 16 * 16, 20
    queries = Access(0, 0, (HEADS * length * depth, length * depth, depth, 1))
    keys = Access(1, 0, (HEADS * depth * padded, depth * padded, padded, 1))
    scores = Access(0, 0, (HEADS * length * padded, length * padded, padded, 1))
    width = HEADS * depth
    stored = Access(3, 0, (length * width, depth, width, 1))
    buffers = (
        (B, HEADS, length, depth if with_scores else padded),
        (B, HEADS, depth, padded),
        (B, HEADS, length, depth),
        (B, length, width),
    )
    grid = (B, HEADS, length)
    # The results of the first two are the tile's own.
    scaled = Statement(("mul", ACC, ("const", 0.125)), scores, 0, length)
    product = Product(buffers, grid, length, depth, queries, keys, (scaled,))
    kept = Statement(ACC, scores, 0, length)
    of_rows = Normalisation(buffers, "softmax", grid, length, scores, ACC, 0.0, (kept,))
    values = Product(
        buffers,
        grid,
        depth,
        length,
        scores,
        Access(2, 0, queries.strides),
        (Statement(ACC, stored, 0, depth),),
    )
    return Attention(buffers, product if with_scores else None, of_rows, values, rows)


@cases_on_targets(with_scores={"of queries": True, "of scores": False}, rows=[6, 24])
def test_attention_of_any_length(rows: int, with_scores: bool, target: str) -> None:
    kernel = kernel_of(attention_spec(rows, 512, with_scores), target)
    for values in shapes():
        batch, length = values.values()
        pitch, depth = evaluate(PADDED, values), 20
        q, k = random(batch, HEADS, length, depth), random(batch, HEADS, depth, length)
        v = random(batch, HEADS, length, depth)
        scores = of_doubles(q, k) / 8
        if not with_scores:
            q = in_rows(scores.astype(np.float32), pitch)
        want = of_doubles(softmax(scores), v).transpose(0, 2, 1, 3).reshape(batch, length, -1)
        arrays = [q, in_rows(k, pitch), v, nothing(*want.shape)]
        compared(kernel, values, arrays, want)


def test_attention_whose_scores_do_not_fit_a_stack_is_refused() -> None:
    with pytest.raises(UserError, match="shorter lengths"):
        OpenKernel(attention_spec(24, 4096, with_scores=True), AVX2)
