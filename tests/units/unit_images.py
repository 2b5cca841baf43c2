"""Pools, exits, splits, views, heads and what TVM computes itself, as units."""

from __future__ import annotations

from typing import Any

from tvm import relax

from tests.kernels.kernel_harness import make_unit

op = relax.op
IMAGE = (1, 20, 11, 11)


def pool(kind: str, shape: tuple[int, ...], size: Any, **options: Any) -> Any:
    operator = op.nn.max_pool2d if kind == "max" else op.nn.avg_pool2d
    return make_unit([shape], [], lambda emit, x: operator(x, pool_size=size, **options))


def exit_of_sums(emit: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    total = emit(op.add(a, b))
    return op.concat([total, c, emit(op.add(emit(op.add(a, b)), d))], axis=1)


def rounded(emit: Any, x: Any) -> Any:
    """Of halves every second one is just between two integers."""
    halves = emit(op.floor(emit(op.multiply(x, relax.const(8.0, "float32")))))
    halves = emit(op.multiply(halves, relax.const(0.5, "float32")))
    return op.clip(emit(op.round(halves)), -6, 5)


def merged(emit: Any, x: Any, w: Any, b: Any) -> Any:
    y = emit(op.nn.relu(emit(op.add(emit(op.nn.conv2d(x, w, padding=1)), b))))
    parts = emit(op.split(y, [24, 40], axis=1))
    items = [emit(relax.TupleGetItem(parts, i)) for i in range(3)]
    return relax.Tuple([items[0], emit(op.clip(items[1], 0.1, 0.5)), items[2]])


def both(emit: Any, x: Any, w: Any) -> Any:
    y = emit(op.nn.conv2d(x, w))
    parts = emit(op.split(y, 2, axis=1))
    return relax.Tuple([emit(op.nn.relu(y)), emit(relax.TupleGetItem(parts, 1))])


def separable(emit: Any, x: Any, y: Any, depthwise: Any, pointwise: Any, bias: Any) -> Any:
    z = emit(op.nn.relu(emit(op.add(x, y))))
    z = emit(op.nn.conv2d(z, depthwise, padding=2, strides=2, groups=20))
    return op.add(emit(op.nn.conv2d(z, pointwise)), bias)


def path(emit: Any, x: Any, w: Any, b: Any) -> Any:
    z = emit(op.nn.avg_pool2d(emit(op.nn.relu(x)), pool_size=1, strides=2))
    return op.add(emit(op.nn.conv2d(z, w)), b)


def shifted_path(emit: Any, x: Any, w: Any, b: Any) -> Any:
    z = emit(op.nn.relu(x))
    z = emit(op.strided_slice(z, [2, 3], [1, 1], [11, 11]))
    z = emit(op.nn.pad(z, [0, 0, 0, 0, 0, 1, 0, 1]))
    z = emit(op.nn.avg_pool2d(z, pool_size=1, strides=2))
    return op.add(emit(op.nn.conv2d(z, w)), b)


def shifted_after_padding(emit: Any, x: Any, w: Any, b: Any) -> Any:
    z = emit(op.nn.pad(emit(op.nn.relu(x)), [0, 0, 0, 0, 0, 1, 0, 1]))
    end = [int(e) for e in z.ty.shape][2:]
    z = emit(op.strided_slice(z, [2, 3], [1, 1], end))
    z = emit(op.nn.avg_pool2d(z, pool_size=1, strides=2))
    return op.add(emit(op.nn.conv2d(z, w)), b)


def cropped(emit: Any, x: Any) -> Any:
    z = emit(op.nn.pad(emit(op.nn.relu(x)), [0, 0, 0, 0, 2, 1, 3, 1]))
    return op.strided_slice(z, [2, 3], [3, 1], [12, 16])


def padded_first(emit: Any, x: Any, w: Any, b: Any) -> Any:
    z = emit(op.strided_slice(emit(op.nn.relu(x)), [2, 3], [1, 1], [11, 11]))
    z = emit(op.nn.pad(z, [0, 0, 0, 0, 2, 1, 0, 1]))
    return op.add(emit(op.nn.conv2d(z, w, padding=1)), b)


def padded_output(emit: Any, x: Any) -> Any:
    return op.nn.pad(emit(op.nn.relu(x)), [0, 0, 0, 0, 2, 1, 0, 3])


def local_response(emit: Any, x: Any) -> Any:
    total = emit(op.expand_dims(emit(op.multiply(x, x)), 1))
    total = emit(
        op.nn.avg_pool3d(
            total, pool_size=(5, 1, 1), padding=(2, 0, 0, 2, 0, 0), count_include_pad=True
        )
    )
    total = emit(op.squeeze(total, 1))
    total = emit(op.add(emit(op.multiply(total, relax.const(0.1))), relax.const(1.0)))
    return op.divide(x, emit(op.power(total, relax.const(0.75))))


def response_by_slices(emit: Any, x: Any) -> Any:
    channels = int(x.ty.shape[1])
    wide = emit(op.nn.pad(emit(op.multiply(x, x)), [0, 0, 1, 2, 0, 0, 0, 0]))
    total = None
    for by in range(4):
        part = emit(op.strided_slice(wide, [1], [by], [by + channels]))
        total = part if total is None else emit(op.add(total, part))
    return op.divide(x, emit(op.sqrt(emit(op.add(total, relax.const(1.0))))))


def sum_and_activation(emit: Any, x: Any, y: Any) -> Any:
    z = emit(op.add(x, y))
    return relax.Tuple([z, emit(op.nn.relu(z))])


def two_readers(emit: Any, x: Any, y: Any, w: Any, v: Any) -> Any:
    z = emit(op.nn.relu(emit(op.add(x, y))))
    first, second = emit(op.nn.conv2d(z, w, padding=1)), emit(op.nn.conv2d(z, v, padding=1))
    return op.concat([first, second], axis=1)


def gated(emit: Any, x: Any, gate: Any) -> Any:
    return op.multiply(x, emit(op.sigmoid(gate)))


SUMS = [(1, 20, 5, 7), (1, 20, 5, 7), (1, 33, 5, 7), (1, 20, 5, 7)]
POINTWISE = [(33, 20, 1, 1), (1, 33, 1, 1)]
LARGE = (1, 70, 26, 25)
#: Function, number of data inputs and outputs, largest number of phases in NHWC.
CASES: dict[str, tuple[Any, int, int]] = {
    "max 3x3/2": (pool("max", (1, 42, 15, 13), 3, strides=2), 2, 1),
    "max 3x3": (pool("max", (2, 180, 7, 7), 3, padding=1), 2, 1),
    "max ceil": (pool("max", (1, 16, 14, 14), 3, strides=2, ceil_mode=True), 2, 1),
    "max 2x3": (pool("max", (1, 16, 14, 9), (2, 3), strides=(2, 1), padding=(0, 1, 1, 0)), 2, 1),
    "average": (pool("avg", (1, 42, 15, 13), 3, padding=1), 2, 1),
    "average, padding counts": (
        pool("avg", (1, 42, 15, 13), 3, strides=2, padding=1, count_include_pad=True),
        2,
        1,
    ),
    "average ceil": (pool("avg", (1, 16, 14, 14), 3, strides=2, ceil_mode=True), 2, 1),
    "average ceil, padding counts": (
        pool("avg", (1, 6, 8, 8), 3, strides=2, ceil_mode=True, count_include_pad=True),
        2,
        9,
    ),
    "average of all": (pool("avg", (1, 64, 7, 7), 7), 2, 1),
    "exit": (make_unit(SUMS, [], exit_of_sums), 5, 1),
    "merged": (make_unit([(1, 24, 9, 9)], [(70, 24, 3, 3), (1, 70, 1, 1)], merged), 4, 1),
    "merged, even": (make_unit([(1, 24, 9, 9)], [(72, 24, 3, 3), (1, 72, 1, 1)], merged), 4, 1),
    "whole and part": (make_unit([(1, 24, 9, 9)], [(70, 24, 3, 3)], both), 3, 1),
    "separable": (make_unit([IMAGE, IMAGE], [(20, 1, 5, 5), *POINTWISE], separable), 3, 3),
    "path": (make_unit([IMAGE], POINTWISE, path), 2, 2),
    "shifted path": (make_unit([IMAGE], POINTWISE, shifted_path), 2, 2),
    "shifted after padding, odd": (make_unit([IMAGE], POINTWISE, shifted_after_padding), 2, 2),
    "shifted after padding, even": (
        make_unit([(1, 20, 10, 8)], POINTWISE, shifted_after_padding),
        2,
        2,
    ),
    "cropped": (make_unit([IMAGE], [], cropped), 2, 2),
    "padded first": (make_unit([IMAGE], [(33, 20, 3, 3), (1, 33, 1, 1)], padded_first), 2, 2),
    "padded output": (make_unit([IMAGE], [], padded_output), 2, 2),
    "lrn": (make_unit([(1, 40, 6, 5)], [], local_response), 2, 1),
    "lrn, few channels": (make_unit([(1, 3, 6, 5)], [], local_response), 2, 1),
    "lrn by slices": (make_unit([(1, 37, 6, 5)], [], response_by_slices), 2, 1),
    "lrn by slices, few": (make_unit([(1, 2, 6, 5)], [], response_by_slices), 2, 1),
    "mean": (make_unit([LARGE], [], lambda emit, x: op.mean(x, [2, 3], keepdims=True)), 2, 1),
    "add": (make_unit([LARGE] * 2, [], lambda emit, x, y: op.add(x, y)), 3, 1),
    "sum and activation": (make_unit([LARGE] * 2, [], sum_and_activation), 4, 2),
    "two readers": (make_unit([IMAGE] * 2, [(9, 20, 3, 3), (8, 20, 3, 3)], two_readers), 3, 3),
    "gated": (make_unit([(2, 70, 6, 5), (2, 70, 1, 1)], [], gated), 3, 2),
    "split": (make_unit([LARGE], [], lambda emit, x: op.split(x, [20, 25], axis=1)), 4, 3),
    "slices": (
        make_unit(
            [IMAGE],
            [],
            lambda emit, x: op.nn.relu(emit(op.strided_slice(x, [1, 3], [1, 0], [18, 11], [2, 3]))),
        ),
        2,
        1,
    ),
}


def head(emit: Any, x: Any, w: Any, b: Any) -> Any:
    pooled = emit(op.reshape(emit(op.mean(x, [2, 3], keepdims=True)), (1, 70)))
    return op.nn.softmax(emit(op.add(emit(op.matmul(pooled, w)), b)), axis=1)


def pooled_logits(emit: Any, x: Any, w: Any, b: Any) -> Any:
    y = emit(op.nn.relu(emit(op.add(emit(op.nn.conv2d(x, w)), b))))
    return op.reshape(emit(op.mean(y, [2, 3], keepdims=True)), (1, 77))


def flattened(emit: Any, x: Any, w: Any) -> Any:
    return op.matmul(emit(op.reshape(x, (1, 180))), w)


SMALL = (1, 20, 3, 3)
#: Function, whether its first input may be NHWC, layout of its output.
OTHERS: dict[str, tuple[Any, bool, str]] = {
    "head": (make_unit([(1, 70, 7, 7)], [(70, 100), (100,)], head), True, ""),
    "pooled logits": (
        make_unit([(1, 70, 7, 7)], [(77, 70, 1, 1), (1, 77, 1, 1)], pooled_logits),
        True,
        "",
    ),
    "flattened": (make_unit([SMALL], [(180, 50)], flattened), True, ""),
    "reshape": (make_unit([SMALL], [], lambda emit, x: op.reshape(x, (4, 45))), True, ""),
    "transpose": (
        make_unit([SMALL], [], lambda emit, x: op.permute_dims(emit(op.nn.relu(x)), [0, 2, 3, 1])),
        True,
        "",
    ),
    "softmax": (make_unit([SMALL], [], lambda emit, x: op.nn.softmax(x, axis=1)), True, "NHWC"),
    "rounded": (make_unit([SMALL], [], rounded), True, "NHWC"),
    "gelu": (make_unit([SMALL], [], lambda emit, x: op.nn.gelu(x)), True, "NHWC"),
    "batched product": (
        make_unit([(2, 5, 6), (2, 6, 7)], [], lambda emit, x, y: op.matmul(x, y)),
        False,
        "",
    ),
    "dense layer of a batch": (
        make_unit(
            [(3, 5, 6), (5, 9)],
            [(6, 9), (9,)],
            lambda emit, x, y, w, b: op.add(emit(op.add(emit(op.matmul(x, w)), b)), y),
        ),
        False,
        "",
    ),
    "slopes": (
        make_unit([SMALL], [(20,)], lambda emit, x, s: op.nn.prelu(x, s, axis=1)),
        True,
        "NHWC",
    ),
    "layer norm": (
        make_unit(
            [(2, 5, 6)], [(6,), (6,)], lambda emit, x, g, b: op.nn.layer_norm(x, g, b, axes=[-1])
        ),
        False,
        "",
    ),
    "transposed convolution": (
        make_unit([SMALL], [(20, 5, 3, 3)], lambda emit, x, w: op.nn.conv2d_transpose(x, w)),
        True,
        "NHWC",
    ),
    "concat of rows": (
        make_unit([(3, 5), (2, 5)], [], lambda emit, x, y: op.concat([x, y], axis=0)),
        False,
        "",
    ),
    "concat of columns": (
        make_unit([SMALL, SMALL], [], lambda emit, x, y: op.concat([x, y], axis=3)),
        False,
        "NHWC",
    ),
}
