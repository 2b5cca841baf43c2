"""Options of ``optimize`` that take several values, of which a deployment has all combinations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from tvm_ios.cli.frame import panels
from tvm_ios.cli.options.values import wrong_use
from tvm_ios.models.source import ModelSource
from tvm_ios.shapes.alternatives import alternative_shapes
from tvm_ios.shapes.input_shapes import InputShapeError

Batches = Annotated[
    str | None,
    panels.model(
        metavar="N,...",
        help="Another batch size, of ONNX models and those of the zoo; several: a deployment.",
    ),
]
AlternativeShapes = Annotated[
    list[str] | None,
    panels.model(
        "--shape",
        metavar="NAME:1,3,224,224",
        help="The shape of an input with dynamic dimensions; once for each such input. "
        "NAME:1,3,48,{160,320}: a deployment.",
    ),
]
Archs = Annotated[
    str | None,
    panels.target(
        metavar="ARCH,...",
        help="x86-64-v2, -v3 or -v4, armv8-a, or sm_90 and the like; several: a "
        "deployment.  [this machine's, sm_90]",
    ),
]
LaneCounts = Annotated[
    str | None,
    panels.running(
        metavar="N,...", help="Threads, or streams; several: a deployment.  [all CPUs, 8 streams]"
    ),
]


def sources(
    model: ModelSource,
    random_weights: int | None,
    shapes: Sequence[str] | None,
    batches: Sequence[int],
    dialect: str,
) -> list[ModelSource]:
    """Return the model in all combinations of shapes and batches, each once.

    A batch replaces the first extent of each shape.
    """
    try:
        alternatives = alternative_shapes(shapes or ())
    except InputShapeError as error:
        raise wrong_use("--shape", error) from error
    every = ((shapes, batch) for shapes in alternatives for batch in batches or [None])
    different = {_key(*each): each for each in every}
    return [
        replace(
            model,
            random_weights=random_weights,
            shapes={n: s if batch is None else (batch, *s[1:]) for n, s in each.items()},
            batch=batch,
            dialect=dialect,
        )
        for each, batch in different.values()
    ]


def _key(shapes: dict[str, tuple[int, ...]], batch: int | None) -> tuple[object, ...]:
    """Return a key of shapes and batch, equal for the same model; a batch hides first extents."""
    return batch, *((n, s if batch is None else s[1:]) for n, s in sorted(shapes.items()))
