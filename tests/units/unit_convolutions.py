"""Convolutions as units have them: of all shapes, transposed, and random."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from tvm import relax

from tests.kernels.kernel_harness import make_unit, shape_of

op = relax.op


def convolution(
    image: tuple[int, int, int, int],
    weight: tuple[int, int, int, int],
    padding: tuple[int, int, int, int] = (0, 0, 0, 0),
    strides: tuple[int, int] = (1, 1),
    dilation: tuple[int, int] = (1, 1),
    groups: int = 1,
    residual: bool = False,
    before: bool = False,
    activation: str = "relu",
) -> Any:
    """relu? + convolution + bias + residual? + activation, as units have it."""

    def body(emit: Any, x: Any, *rest: Any) -> Any:
        w, b = rest[-2:]
        x = emit(op.nn.relu(x)) if before else x
        y = emit(
            op.nn.conv2d(x, w, strides=strides, padding=padding, dilation=dilation, groups=groups)
        )
        y = emit(op.add(y, b))
        y = emit(op.add(y, rest[0])) if residual else y
        match activation:
            case "relu":
                return op.nn.relu(y)
            case "clip":
                return op.clip(y, 0.0, 0.5)
            case "swish":
                return op.multiply(y, emit(op.sigmoid(y)))
            case "leaky":
                return op.nn.leakyrelu(y, 0.1)
            case _:
                return y

    constants = [weight, (1, weight[0], 1, 1)]
    inputs = [image]
    if residual:
        plain = make_unit(
            inputs,
            constants,
            lambda emit, x, w, b: op.nn.conv2d(
                x, w, strides=strides, padding=padding, dilation=dilation, groups=groups
            ),
        )
        inputs.append(shape_of(plain.ret_ty))
    return make_unit(inputs, constants, body)


CASES: dict[str, tuple[Any, int]] = {
    "1x1": (convolution((1, 32, 14, 14), (64, 32, 1, 1)), 2),
    "1x1 odd": (convolution((1, 17, 9, 7), (77, 17, 1, 1)), 2),
    "1x1 one pixel": (convolution((1, 40, 1, 1), (90, 40, 1, 1)), 2),
    "1x1 many channels": (convolution((1, 1024, 3, 5), (42, 1024, 1, 1)), 2),
    "3x3": (convolution((1, 20, 13, 13), (42, 20, 3, 3), (1, 1, 1, 1)), 2),
    "3x3 wide": (convolution((1, 4, 3, 71), (33, 4, 3, 3)), 2),
    "residual": (convolution((1, 16, 10, 11), (48, 16, 3, 3), (1, 1, 1, 1), residual=True), 3),
    "first layer": (convolution((1, 3, 31, 29), (40, 3, 3, 3), (0, 1, 2, 1), (2, 2)), 2),
    "7x7": (convolution((1, 3, 64, 50), (64, 3, 7, 7), (3, 3, 3, 3), (2, 2)), 2),
    "long rows": (convolution((2, 1, 1, 640), (40, 1, 1, 256), (0, 0, 0, 0), (1, 128)), 2),
    "long rows with borders": (
        convolution((1, 3, 2, 150), (33, 3, 2, 40), (0, 9, 1, 6), (1, 5)),
        2,
    ),
    "1x7": (convolution((1, 24, 17, 17), (32, 24, 1, 7), (0, 3, 0, 3)), 2),
    "7x1": (convolution((1, 24, 17, 17), (32, 24, 7, 1), (3, 0, 3, 0)), 2),
    "even": (convolution((1, 24, 12, 17), (32, 24, 2, 4), (0, 1, 1, 2)), 2),
    "dilated": (convolution((1, 8, 21, 23), (32, 8, 3, 3), (2,) * 4, (1, 1), (2, 2)), 2),
    "grouped": (convolution((1, 24, 12, 12), (36, 8, 3, 3), (1,) * 4, groups=3), 2),
    "depthwise": (convolution((1, 42, 15, 13), (42, 1, 5, 5), (2,) * 4, (2, 2), groups=42), 2),
    "depthwise, activated": (
        convolution((1, 168, 11, 11), (168, 1, 3, 3), (1,) * 4, groups=168, before=True),
        2,
    ),
    "depthwise, two a channel": (
        convolution((1, 20, 11, 11), (40, 1, 3, 3), (1,) * 4, groups=20),
        2,
    ),
    "activated, few channels": (convolution((1, 30, 11, 11), (42, 30, 1, 1), before=True), 2),
    "activated, many channels": (convolution((1, 30, 11, 11), (168, 30, 1, 1), before=True), 2),
    "batch": (convolution((2, 16, 10, 11), (48, 16, 3, 3), (1,) * 4, residual=True), 3),
    "batch, 1x1": (convolution((3, 16, 5, 7), (48, 16, 1, 1), residual=True), 3),
    "strided 1x1": (convolution((1, 40, 13, 12), (50, 40, 1, 1), (0,) * 4, (2, 2)), 2),
    "padded 1x1": (convolution((1, 16, 5, 6), (20, 16, 1, 1), (1, 2, 0, 1)), 2),
    "swish": (convolution((1, 8, 9, 9), (20, 8, 3, 3), activation="swish"), 2),
    "clip": (convolution((1, 8, 9, 9), (20, 8, 3, 3), activation="clip"), 2),
    "leaky": (convolution((1, 8, 9, 9), (20, 8, 3, 3), activation="leaky"), 2),
}


def transposed(
    image: tuple[int, int, int, int],
    weight: tuple[int, int, int, int],
    strides: tuple[int, int] = (2, 2),
    padding: tuple[int, int, int, int] = (0, 0, 0, 0),
    output_padding: tuple[int, int] = (0, 0),
) -> Any:
    def convolved(emit: Any, x: Any, w: Any) -> Any:
        return op.nn.conv2d_transpose(
            x, w, strides=strides, padding=padding, output_padding=output_padding
        )

    def body(emit: Any, x: Any, other: Any, w: Any, b: Any) -> Any:
        y = emit(op.add(emit(convolved(emit, x, w)), b))
        y = emit(op.nn.relu(emit(op.add(y, other))))
        parts = emit(op.split(y, [weight[1] // 2], axis=1))
        return relax.Tuple([emit(relax.TupleGetItem(parts, i)) for i in range(2)])

    result = shape_of(make_unit([image], [weight], convolved).ret_ty)
    return make_unit([image, result], [weight, (1, weight[1], 1, 1)], body)


TRANSPOSED: dict[str, Any] = {
    "2x2/2": transposed((1, 24, 9, 7), (24, 20, 2, 2)),
    "4x4/2": transposed((2, 16, 5, 6), (16, 34, 4, 4), padding=(1, 1, 1, 1)),
    "3x3/2": transposed((1, 16, 5, 6), (16, 20, 3, 3), (2, 2), (1, 1, 1, 1), (1, 1)),
    "3x3/1": transposed((1, 8, 5, 6), (8, 20, 3, 3), (1, 1)),
    "5x2/3x1": transposed((1, 8, 5, 6), (8, 20, 5, 2), (3, 1), (2, 0, 0, 1)),
    "2x2/3": transposed((1, 8, 4, 5), (8, 6, 2, 2), (3, 3), (0, 0, 0, 0), (1, 1)),
}


@st.composite
def shapes(draw: st.DrawFn) -> dict[str, Any]:
    """A random convolution whose output is not empty."""
    kernel = draw(st.tuples(st.integers(1, 5), st.integers(1, 5)))
    dilation = draw(st.tuples(st.integers(1, 2), st.integers(1, 2)))
    reach = [(k - 1) * d for k, d in zip(kernel, dilation, strict=True)]
    padding = draw(st.tuples(*(st.integers(0, reach[i % 2]) for i in range(4))))
    height = draw(st.integers(max(1, reach[0] + 1 - padding[0] - padding[2]), 9))
    width = draw(st.integers(max(1, reach[1] + 1 - padding[1] - padding[3]), 40))
    groups = draw(st.sampled_from([1, 1, 1, 2, 3]))
    per_group, out = draw(st.integers(1, 9)), draw(st.integers(1, 40))
    return {
        "image": (draw(st.integers(1, 2)), per_group * groups, height, width),
        "weight": (out * groups, per_group, *kernel),
        "padding": padding,
        "strides": draw(st.tuples(st.integers(1, 3), st.integers(1, 3))),
        "dilation": dilation,
        "groups": groups,
        "before": draw(st.booleans()),
        "activation": draw(st.sampled_from(["relu", "none"])),
    }
