"""Channel shuffles and resizes as units."""

from __future__ import annotations

from typing import Any

from tvm import relax

from tests.kernels.kernel_harness import make_unit

op = relax.op
IMAGE = (1, 20, 11, 11)


def shuffled(groups: int, sections: list[int]) -> Any:
    """relu + channel shuffle, perhaps split."""

    def body(emit: Any, x: Any) -> Any:
        n, c, h, w = (int(e) for e in x.ty.shape)
        z = emit(op.reshape(emit(op.nn.relu(x)), (n, groups, c // groups, h, w)))
        z = emit(op.reshape(emit(op.permute_dims(z, [0, 2, 1, 3, 4])), (n, c, h, w)))
        if not sections:
            return z
        parts = emit(op.split(z, sections, axis=1))
        return relax.Tuple([emit(relax.TupleGetItem(parts, i)) for i in range(2)])

    return body


def joined_and_shuffled(emit: Any, x: Any, y: Any, w: Any) -> Any:
    z = emit(op.concat([emit(op.nn.relu(x)), emit(op.nn.conv2d(y, w))], axis=1))
    n, c, h, _ = (int(e) for e in z.ty.shape)
    z = emit(op.reshape(z, (n, 2, c // 2, h, -1)))
    return op.reshape(emit(op.permute_dims(z, [0, 2, 1, 3, 4])), (n, c, h, -1))


def half_a_shuffle(emit: Any, x: Any) -> Any:
    z = emit(op.permute_dims(emit(op.reshape(x, (1, 4, 5, 11, 11))), [0, 2, 1, 3, 4]))
    rows = emit(op.reshape(emit(op.nn.relu(emit(op.reshape(z, (220, 11))))), (1, 20, 11, 11)))
    return op.add(emit(op.reshape(z, (1, 20, 11, 11))), rows)


def resized(
    shape: tuple[int, ...], size: tuple[int, int], *, fused: bool = False, **how: Any
) -> Any:
    def body(emit: Any, x: Any, *rest: Any) -> Any:
        y = emit(op.image.resize2d(emit(op.nn.relu(x)), relax.ShapeExpr(size), **how))
        return op.nn.relu(emit(op.add(y, rest[0]))) if fused else y

    return make_unit([shape], [(1, shape[1], 1, 1)] if fused else [], body)


#: Function, number of data inputs and outputs, largest number of phases in NHWC.
SHUFFLES: dict[str, tuple[Any, int, int]] = {
    "of 2": (make_unit([(2, 116, 7, 5)], [], shuffled(2, [])), 2, 1),
    "of 3": (make_unit([(1, 57, 4, 5)], [], shuffled(3, [])), 2, 1),
    "of 4": (make_unit([(1, 12, 4, 5)], [], shuffled(4, [])), 2, 1),
    "of 10": (make_unit([IMAGE], [], shuffled(10, [])), 2, 10),
    "and split": (make_unit([(1, 92, 4, 5)], [], shuffled(2, [46])), 3, 2),
    "and odd split": (make_unit([(1, 92, 4, 5)], [], shuffled(2, [45])), 3, 3),
    "joined": (make_unit([IMAGE, IMAGE], [(20, 20, 1, 1)], joined_and_shuffled), 3, 2),
    "and read in between": (make_unit([IMAGE], [], half_a_shuffle), 2, 9),
}
