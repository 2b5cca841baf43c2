"""Image models of any size and batch, built once each, against ONNX Runtime at many shapes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relay_passes.measured_module import MeasuredModule
from relay_passes.relax.ranges.units import load_open_model
from relay_passes.relax.target_units import RelaxUnits
from relay_passes.search_options import SearchOptions
from runtime_ext.targets import target_backend
from runtime_ext.unit_build import build_units
from tests.dynamic_models.detection import dbnet
from tests.dynamic_models.drawing import Drawing
from tests.dynamic_models.dynamic import unet
from tests.fast_run import crossed, only
from tvm_ios.schedule.chained_schedule import possible_chains
from tvm_ios.shapes.ranges import parse_ranges

SIZE = ("height", "width")


def resnet() -> Any:
    """Residual blocks, the second of half the size, and a classifier."""
    d = Drawing()
    x = d.conv_relu(d.input("image", "batch", 3, *SIZE), 3, 8, stride=2)
    x = d.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for before, after, stride in ((8, 8, 1), (8, 16, 2)):
        y = d.conv2(d.conv_relu(x, before, after, stride=stride), after, after)
        if stride > 1:
            weight = d.scaled(after, before, 1, 1)
            x = d.op("Conv", x, weight, d.normal(after), strides=[stride, stride])
        x = d.op("Relu", d.op("Add", y, x))
    pooled = d.op("Flatten", d.op("GlobalAveragePool", x))
    return d.finished({"classes": d.linear(pooled, 16, 10)})


def mobilenet() -> Any:
    """Blocks of a depthwise convolution between two of one pixel."""
    d = Drawing()
    x = d.conv_relu(d.input("image", "batch", 3, *SIZE), 3, 8, stride=2)
    for stride in (1, 2):
        y = d.conv_relu(x, 8, 32, kernel=1)
        weight, bias = d.scaled(32, 1, 3, 3), d.normal(32)
        y = d.op("Conv", y, weight, bias, strides=[stride] * 2, pads=[1] * 4, group=32)
        y = d.conv2(d.op("Clip", y, d.const(np.float32(0)), d.const(np.float32(6))), 32, 8, 1)
        x = d.op("Add", x, y) if stride == 1 else y
    pooled = d.op("Flatten", d.op("GlobalAveragePool", x))
    return d.finished({"classes": d.linear(pooled, 8, 10)})


def cells() -> Any:
    """What is found at each cell of two images, moved by the cell's place, as YOLO does it."""
    d = Drawing()
    x = d.input("image", 1, 3, *SIZE)
    found: list[str] = []
    places: list[str] = []
    for before, after in ((3, 8), (8, 8)):
        x = d.conv_relu(x, before, after, stride=2)
        flat = d.op("Reshape", d.conv2(x, after, 2, 1), d.ints(1, 2, -1))
        found.append(flat)
        rows, columns = d.extent(x, 2), d.extent(x, 3)
        counts = [
            d.op("Range", d.one(0), d.op("Squeeze", n, d.ints(0)), d.one(1))
            for n in (rows, columns)
        ]
        grid = [
            d.op("Expand", d.op("Unsqueeze", count, d.ints(axis)), d.op("Concat", *shape, axis=0))
            for count, axis, shape in zip(counts, (1, 0), ((rows, columns),) * 2, strict=True)
        ]
        both = [
            d.op("Reshape", d.op("Cast", g, to=onnx.TensorProto.FLOAT), d.ints(1, 1, -1))
            for g in reversed(grid)
        ]
        places.append(d.op("Concat", *both, axis=1))
    place = d.op("Add", d.op("Concat", *places, axis=2), d.const(np.float32(0.5)))
    return d.finished({"boxes": d.op("Add", d.op("Concat", *found, axis=2), place)})


def _size(d: Drawing, x: str) -> str:
    """The shape of eight maps of the size of others."""
    return d.op("Concat", d.ints(1, 8), d.extent(x, 2), d.extent(x, 3), axis=0)


def pyramid() -> Any:
    """A map of a quarter of the size, enlarged to that of a half, and this to the image's."""
    d = Drawing()
    image = d.input("image", 1, 3, *SIZE)
    half = d.conv_relu(image, 3, 8, stride=2)
    x = d.conv_relu(half, 8, 8, stride=2)
    how = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    near = d.op("Resize", x, "", "", _size(d, half), outputs=1, **how)
    x = d.op("Add", near, half)
    x = d.conv2(d.op("Resize", x, "", "", _size(d, image), mode="linear"), 8, 4)
    least = d.op("Sub", d.op("ReduceMax", x, keepdims=0), d.const(np.float32(2)))
    return d.finished({"map": d.op("Clip", x, least)})


def padded() -> Any:
    """A map whose borders are copies: reflected, repeated, and those of the other side."""
    d = Drawing(opset=19)
    x = d.conv_relu(d.input("image", 1, 3, *SIZE), 3, 8)
    for mode, widths in (("reflect", (1, 3, 2, 0)), ("edge", (2, 1, 0, 1)), ("wrap", (0, 2, 1, 1))):
        x = d.op("Pad", x, d.ints(0, 0, *widths[:2], 0, 0, *widths[2:]), mode=mode)
    return d.finished({"map": d.op("Conv", x, d.scaled(4, 8, 3, 3))})


def _extents(d: Drawing, operator: str, one: str, other: str) -> list[str]:
    """Heights and widths of two maps, or of one and a number, joined by an operator."""
    return [
        d.op(operator, d.extent(one, axis), d.extent(other, axis) if other else d.ints(16))
        for axis in (2, 3)
    ]


def _sides(d: Drawing, over: str) -> tuple[str, str]:
    """What is over before and behind a map in the middle."""
    before = d.op("Div", over, d.ints(2))
    return before, d.op("Sub", over, before)


def _skipping(join: Callable[[Drawing, str, str], str], pad: int) -> Any:
    """Down and up again twice; what comes up is a little smaller than what it is joined with."""
    d = Drawing()

    def conv(x: str, before: int, after: int) -> str:
        weight, bias = d.scaled(after, before, 3, 3), d.normal(after)
        return d.op("Relu", d.op("Conv", x, weight, bias, pads=[pad] * 4))

    skips = [conv(d.input("image", 1, 3, *SIZE), 3, 8)]
    for _ in range(2):
        x = d.op("MaxPool", skips[-1], kernel_shape=[2, 2], strides=[2, 2])
        skips.append(conv(x, 8, 8))
    x = skips.pop()
    while skips:
        x = d.op("ConvTranspose", x, d.scaled(8, 8, 2, 2), strides=[2, 2])
        x = conv(join(d, skips.pop(), x), 16, 8)
    return d.finished({"map": x})


def cropped_skips() -> Any:
    """A U-Net of convolutions without padding, whose skips are cropped to the middle."""

    def join(d: Drawing, skip: str, x: str) -> str:
        over = _extents(d, "Sub", skip, x)
        for axis, (before, _) in zip((2, 3), (_sides(d, n) for n in over), strict=True):
            end = d.op("Add", before, d.extent(x, axis))
            skip = d.op("Slice", skip, before, end, d.ints(axis))
        return d.op("Concat", skip, x, axis=1)

    return _skipping(join, 0)


def padded_to_skips() -> Any:
    """A U-Net whose maps are padded to their skips, where these have odd sizes."""

    def join(d: Drawing, skip: str, x: str) -> str:
        sides = [_sides(d, n) for n in _extents(d, "Sub", skip, x)]
        zeros = d.ints(0, 0)
        befores, behinds = zip(*sides, strict=True)
        widths = d.op("Concat", zeros, *befores, zeros, *behinds, axis=0)
        return d.op("Concat", skip, d.op("Pad", x, widths), axis=1)

    return _skipping(join, 1)


def padded_to_multiple() -> Any:
    """A map of an image that is padded to a multiple of 16, cut to the image's size."""
    d = Drawing()
    image = d.input("image", 1, 3, *SIZE)
    rests = _extents(d, "Mod", image, "")
    over = [d.op("Mod", d.op("Sub", d.ints(16), rest), d.ints(16)) for rest in rests]
    x = d.op("Pad", image, d.op("Concat", d.ints(*[0] * 6), *over, axis=0))
    x = d.conv_relu(d.conv_relu(x, 3, 8, stride=2), 8, 8)
    x = d.op("ConvTranspose", x, d.scaled(8, 4, 2, 2), strides=[2, 2])
    ends = d.op("Concat", *(d.extent(image, axis) for axis in (2, 3)), axis=0)
    return d.finished({"map": d.op("Slice", x, d.ints(0, 0), ends, d.ints(2, 3))})


def rounded() -> Any:
    """A map that is enlarged to the size of another, by the pixels that are nearest."""
    d = Drawing()
    image = d.input("image", 1, 3, *SIZE)
    x = d.conv_relu(image, 3, 8, stride=2)
    return d.finished({"map": d.op("Resize", x, "", "", _size(d, image), nearest_mode="ceil")})


@cache
def sessions(make: Callable[[], Any], ranges: str, lanes: int) -> tuple[Any, Any]:
    """A model's session in a range, whose memory is poisoned, and ONNX Runtime's."""
    options = SearchOptions(lanes=lanes)
    with TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        onnx.save(make(), path)
        opened = load_open_model(str(path), parse_ranges([ranges])).opened
        backend = target_backend(options.target_for([]), lanes, Path(folder, "kernels"))
        built = build_units(opened.units, backend.compiler, lanes)
        reference = onnxruntime.InferenceSession(path)
        return built.session(executor="poisoning"), reference


def check(make: Callable[[], Any], ranges: str, shape: tuple[int, ...], lanes: int = 2) -> None:
    session, reference = sessions(make, ranges, lanes)
    image = np.random.default_rng(sum(shape)).standard_normal(shape, np.float32)
    (want,) = reference.run(None, {"image": image})
    session.run(image=image)
    got = session.get_output(0)
    assert got.shape == want.shape
    assert np.abs(got - want).max() <= 1e-4 * max(1.0, np.abs(want).max()), shape


small = st.integers(1, 5)


@pytest.mark.parametrize("make", only([mobilenet], [resnet, mobilenet]))
def test_classifiers_of_any_batch_and_size(make: Callable[[], Any]) -> None:
    ranges = "image:1..4,3,9..80,9..80"

    @settings(max_examples=15, deadline=None)
    @given(st.integers(1, 4), st.integers(9, 80), st.integers(9, 80))
    def run(batch: int, height: int, width: int) -> None:
        check(make, ranges, (batch, 3, height, width))

    run()
    for corner in ((1, 3, 9, 9), (4, 3, 80, 80), (1, 3, 9, 80)):
        check(make, ranges, corner)


@pytest.mark.parametrize("make", only([dbnet, cells], [unet, dbnet, cells]))
def test_maps_of_any_size(make: Callable[[], Any]) -> None:
    ranges = "image:1,3,32..160:32,32..160:32"

    @settings(max_examples=10, deadline=None)
    @given(small, small)
    def run(rows: int, columns: int) -> None:
        check(make, ranges, (1, 3, 32 * rows, 32 * columns))

    run()
    for corner in ((1, 3, 32, 32), (1, 3, 160, 160), (1, 3, 32, 160)):
        check(make, ranges, corner)


@pytest.mark.parametrize("make", [pyramid, padded])
def test_maps_of_sizes_without_a_step(make: Callable[[], Any]) -> None:
    ranges = "image:1,3,9..80,9..80"

    @settings(max_examples=10, deadline=None)
    @given(st.integers(9, 80), st.integers(9, 80))
    def run(height: int, width: int) -> None:
        check(make, ranges, (1, 3, height, width))

    run()
    for corner in ((1, 3, 9, 9), (1, 3, 80, 80), (1, 3, 9, 80)):
        check(make, ranges, corner)


@pytest.mark.parametrize(
    "make",
    only(
        [padded_to_skips, padded_to_multiple], [cropped_skips, padded_to_skips, padded_to_multiple]
    ),
)
def test_cuts_and_pads_that_do_nothing_at_some_sizes(make: Callable[[], Any]) -> None:
    ranges = "image:1,3,44..100,44..100"
    for size in product((44, 47, 48, 61, 64, 96, 100), (45, 62, 64, 99)):
        check(make, ranges, (1, 3, *size))


def test_nearest_pixels_of_any_size() -> None:
    # Of these sizes none has a result half-way between two pixels, where ONNX Runtime may miss one.
    for size in product((11, 27, 79), (11, 51, 75)):
        check(rounded, "image:1,3,11..79:4,11..79:4", (1, 3, *size))


@pytest.mark.parametrize("make", [resnet, mobilenet])
def test_classifiers_of_any_batch_of_one_size(make: Callable[[], Any]) -> None:
    for batch in (1, 2, 3, 9, 16):
        check(make, "image:1..16,3,28,28", (batch, 3, 28, 28))


@pytest.mark.parametrize(("side", "from_the_end"), crossed([20, 100], [False, True]))
def test_chains_of_any_batch(
    side: int, from_the_end: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[Any] = []

    def disjoint(prepared: Any, schedule: Any, options: SearchOptions) -> list[Any]:
        kernels = MeasuredModule(RelaxUnits(prepared, options)).timer.chains.kernels
        found = [chain for _, chain in possible_chains(prepared.units, schedule.stages, kernels)]
        for chain in reversed(found) if from_the_end else found:
            if not any({*chain} & {*other} for other in taken):
                taken.append(chain)
        return taken

    monkeypatch.setattr("relay_passes.relax.ranges.units._faster_chains", disjoint)
    path, options = tmp_path / "model.onnx", SearchOptions(lanes=2, cache=tmp_path)
    onnx.save(mobilenet(), path)
    ranges = parse_ranges([f"image:1..5,3,{side},{side}"])
    opened = load_open_model(str(path), ranges, options).opened
    assert len(taken) == 2
    backend = target_backend(options.target_for([]), 2, tmp_path / "kernels")
    built = build_units(opened.units, backend.compiler, 2)
    assert sum("chain" in str(notes["forms"]) for notes in built.unit_notes.values()) == 2
    reference: Any = onnxruntime.InferenceSession(path)
    for executor in ("native", "poisoning"):
        session = built.session(executor=executor)
        for batch in (1, 2, 5):
            image = np.random.default_rng(batch).standard_normal((batch, 3, side, side), np.float32)
            session.run(image=image)
            (want,) = reference.run(None, {"image": image})
            np.testing.assert_allclose(session.get_output(0), want, rtol=1e-4, atol=1e-4)
        session.close()
