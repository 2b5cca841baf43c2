"""Parts of a model in bands of rows compute the same, and the search finds those that need less."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from tests.cli.command_line import tvm_ios
from tests.fast_run import one_in
from tests.memory.test_onnx_model import outputs_of, written
from tests.onnx_sketch import Sketch
from tvm_ios.memory import order
from tvm_ios.memory.formats.onnx_bands import Banded, multiplications, segments, write_bands
from tvm_ios.onnx.shape_inference import infer_shapes


def random_images(seed: int) -> Any:
    """Convolutions, pools, sums and concatenations of images of 13 rows and fewer."""
    random, sketch = Random(seed), Sketch(1, 4, 13, 9)
    images = [("x", 13)]
    for _ in range(random.randint(3, 9)):
        image, rows = random.choice(images[-3:])
        kind = random.randrange(7)
        kernel, stride = random.choice([1, 2, 3]), random.choice([1, 1, 2])
        dilation = random.choice([1, 2]) if rows > 5 else 1
        reach = (kernel - 1) * dilation
        pads = [random.randint(0, min(1, reach)), 0, random.randint(0, min(2, reach)), 0]
        if rows + pads[0] + pads[2] <= reach:
            continue
        window = {"pads": pads, "strides": [stride, 1], "kernel_shape": [kernel, 1]}
        size = (rows + pads[0] + pads[2] - reach - 1) // stride + 1
        if kind < 3:
            grouped = random.random() < 0.3
            weight = sketch.normal(4, 1 if grouped else 4, kernel, 1)
            window |= {"group": 4 if grouped else 1, "dilations": [dilation, 1]}
            images.append((sketch.op("Conv", image, weight, sketch.normal(4), **window), size))
        elif kind == 3 and dilation == 1:
            pool = random.choice(["MaxPool", "AveragePool"])
            images.append((sketch.op(pool, image, **window), size))
        elif kind == 4:
            images.append((sketch.op("Relu", sketch.norm(image, 4)), rows))
        elif kind == 5:
            scale = sketch.op(
                "Mul", image, sketch.normal(*random.choice([(4, 1, 1), (1, 1, rows, 9)]))
            )
            images.append((scale, rows))
        else:
            others = [other for other, extent in images if extent == rows]
            images.append((sketch.op("Add", image, random.choice(others)), rows))
    return sketch.model(images[-1][0], *(name for name, _ in images[1:-1][-1:]))


@pytest.mark.parametrize("seed", one_in(3, range(60)))
def test_bands_of_random_segments_compute_the_same(seed: int, tmp_path: Path) -> None:
    model, random = random_images(seed), Random(seed)
    onnx.save(model, tmp_path / "model.onnx")
    work: Any = ir.serde.deserialize_model(model)
    infer_shapes(work)
    found = [segment for node in work.graph for segment in segments(work.graph, node)]
    if not found:
        return
    segment = random.choice(found)
    bands = random.randint(2, max(2, min(segment.extent, 5)))
    pieces = segment.pieces(bands) if bands <= segment.extent else None
    if pieces is None:
        return
    banded = Banded(segment, pieces)
    work_of_pieces = banded.more_work + sum(map(multiplications, work.graph))
    write_bands(work, banded)
    infer_shapes(work)
    assert sum(map(multiplications, work.graph)) == work_of_pieces
    path = tmp_path / "bands.onnx"
    onnx.save(ir.serde.serialize_model(work), path)
    onnx.checker.check_model(str(path), full_check=True)
    for one, other in zip(
        outputs_of(tmp_path / "model.onnx", (1, 4, 13, 9)),
        outputs_of(path, (1, 4, 13, 9)),
        strict=True,
    ):
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-5)


def test_what_is_wide_between_small_images_is_computed_in_bands(tmp_path: Path) -> None:
    sketch = Sketch(1, 4, 32, 32)
    wide = sketch.op("Relu", sketch.conv("x", 4, 32))
    narrow = sketch.conv(wide, 32, 4, strides=[2, 2])
    read = written(sketch.model(sketch.op("Sigmoid", narrow)), tmp_path)
    assert order(read.graph).peak == (4 + 32) * 32 * 32 * 4
    banded = read.banded(5.0)
    assert banded.places == 1
    found = order(banded.model.graph, time_limit=0.5)
    assert found.peak < 0.4 * order(read.graph).peak
    # Two rows of each band more than in the whole.
    assert 0 < banded.more_work < 0.6
    banded.model.write(tmp_path / "bands.onnx", found.order)
    for one, other in zip(
        outputs_of(tmp_path / "model.onnx", (1, 4, 32, 32)),
        outputs_of(tmp_path / "bands.onnx", (1, 4, 32, 32)),
        strict=True,
    ):
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_what_was_rewritten_is_computed_in_bands(tmp_path: Path) -> None:
    sketch = Sketch(1, 4, 32, 32)
    whole = sketch.op("Concat", *(sketch.conv("x", 4, 16) for _ in range(3)), axis=1)
    wide = sketch.op("Relu", sketch.conv(sketch.conv(whole, 48, 4), 4, 32))
    onnx.save(sketch.model(sketch.conv(wide, 32, 4, strides=[2, 2])), tmp_path / "model.onnx")
    path = tmp_path / "changed.onnx"
    options = ("--rewrite", "--bands", "--time-limit", 5, "-o", path, "--json")
    result = tvm_ios("memory", tmp_path / "model.onnx", *options).json
    names = [change["change"] for change in result["changes"]]
    assert names == ["convolutions rewritten", "parts in bands of rows"]
    kinds = [node.op_type for node in onnx.load(path).graph.node]
    # Sums of parts, and the bands' join in the place of theirs.
    assert kinds.count("Add") >= 2
    assert kinds.count("Concat") == 1
    for one, other in zip(
        outputs_of(tmp_path / "model.onnx", (1, 4, 32, 32)),
        outputs_of(path, (1, 4, 32, 32)),
        strict=True,
    ):
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-3)


def test_large_results_are_not_worth_bands(tmp_path: Path) -> None:
    sketch = Sketch(1, 4, 32, 32)
    model = sketch.model(sketch.conv(sketch.conv("x", 4, 8), 8, 8))
    assert written(model, tmp_path).banded(5.0).places == 0
