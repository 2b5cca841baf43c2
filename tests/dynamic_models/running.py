"""A model run by tvm-ios and by ONNX Runtime, and what happened as a line of the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from relay_passes.load import load_model
from relay_passes.pipeline import apply_schedule, prepare
from runtime_ext.build import build
from runtime_ext.execution.tailed_session import TailedSession
from tests.dynamic_models import detection, dynamic
from tests.onnx_sketch import relative_error, run_on
from tvm_ios.files.array_files import Array
from tvm_ios.models.source import ModelSource
from tvm_ios.policies.sequential import sequential_schedule

PAGE = Path(__file__).parents[2] / "docs" / "dynamic_models.md"


@dataclass(frozen=True)
class Example:
    """A model, and what it is run with."""

    #: Makes the model; its docstring says what it is.
    draw: Callable[[], Any]
    #: The shapes of its dynamic inputs.
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])


EXAMPLES: Mapping[str, Mapping[str, Example]] = {
    "Dynamic models": {
        "BERT": Example(dynamic.bert, {"input_ids": (2, 7), "attention_mask": (2, 7)}),
        "decoder with a cache": Example(
            dynamic.decoder,
            {"input_ids": (1, 3), "past_key": (1, 2, 5, 8), "past_value": (1, 2, 5, 8)},
        ),
        "U-Net": Example(dynamic.unet, {"image": (1, 3, 36, 52)}),
        "LSTM tagger": Example(dynamic.tagger, {"words": (3, 6)}),
        "speech": Example(dynamic.speech, {"samples": (1, 400)}),
    },
    "Detection and text": {
        "SSD": Example(detection.ssd),
        "YOLO": Example(detection.yolo),
        "YOLO with suppression": Example(detection.yolo_with_suppression),
        "RetinaNet": Example(detection.retinanet),
        "CRNN": Example(detection.crnn),
        "DBNet": Example(detection.dbnet, {"image": (1, 3, 48, 64)}),
    },
}

_HEAD = """\
# Dynamic models, detectors and readers

Made by `python -m tests.dynamic_models`, which draws small models of well-known kinds as exporters
write them, gives them the shapes of the table (`--shape`), runs each on one lane, and compares all
outputs with those of ONNX Runtime on the model as it is written. A test holds every line.

Operators whose results are as large as the data say (`NonMaxSuppression`, `NonZero`, `Unique`,
`Compress`, `TopK` and `Range` by numbers that are computed, loops that the data end), and all that
reads them, run after the program, on ONNX Runtime where it is installed and else on
`onnx.reference`. So do ensembles of trees and classifiers by support vectors (`ai.onnx.ml`).
`optimize`, `stats`, `run` and `explain` say so. Where such an operator has more
convolutions and matrix products after it than before, or nothing before, the model is refused.
"""


def page(folder: Path) -> str:
    """The page of the documentation."""
    tables = (
        f"\n## {title}\n\n| model | | shapes | operators | units | runs |\n|-|-|-|-|-|-|\n"
        + "".join(f"{line_of(name, example, folder)}\n" for name, example in examples.items())
        for title, examples in EXAMPLES.items()
    )
    return _HEAD + "".join(tables)


def line_of(name: str, example: Example, folder: Path) -> str:
    """Run a model, and require that its outputs are ONNX Runtime's; its line of the table."""
    model = example.draw()
    path = folder / "model.onnx"
    onnx.save(model, str(path))
    loaded = load_model(ModelSource(str(path), shapes=example.shapes))
    prepared = prepare(loaded.module)
    module = apply_schedule(prepared, sequential_schedule(prepared.units))
    session = build(module, lanes=1).session()
    whole = session if loaded.tail is None else TailedSession(session, loaded.tail)
    with closing(whole):
        inputs = _inputs(model, example.shapes)
        whole.run(**inputs)
        outputs = [whole.get_output(value.name) for value in model.graph.output]
    expected = run_on(model, inputs)
    assert [o.dtype for o in outputs] == [e.dtype for e in expected]
    assert relative_error(outputs, expected) <= 1e-4
    shapes = ", ".join(f"{n}: {'x'.join(map(str, s))}" for n, s in example.shapes.items())
    runs = "whole" if loaded.tail is None else loaded.tail.sentence
    operators = len(prepared.outliner.extraction.graph)
    what = (example.draw.__doc__ or "").strip()
    return f"| {name} | {what} | {shapes} | {operators} | {len(prepared.units)} | {runs} |"


def _inputs(model: Any, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
    """Random numbers; indices of words, and masks that leave out the last one."""
    rng = np.random.default_rng(0)
    inputs: dict[str, Array] = {}
    for value in model.graph.input:
        tensor = value.type.tensor_type
        shape = shapes.get(value.name) or tuple(d.dim_value for d in tensor.shape.dim)
        if tensor.elem_type == onnx.TensorProto.FLOAT:
            inputs[value.name] = rng.standard_normal(shape).astype(np.float32)
        elif "mask" in value.name:
            inputs[value.name] = np.ones(shape, np.int64)
            inputs[value.name][..., -1] = 0
        else:
            inputs[value.name] = rng.integers(0, dynamic.WORDS, shape)
    return inputs
