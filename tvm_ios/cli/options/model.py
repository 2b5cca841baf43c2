"""Options of commands that read a model."""

from __future__ import annotations

from typing import Annotated

import typer

from tvm_ios.cli.options.completion import complete_model
from tvm_ios.graph.input_shapes import InputShapeError, parse_shapes

Model = Annotated[
    str,
    typer.Argument(
        help="A zoo name, an .onnx or .pt2 (torch.export) file, or a TVM module saved as .json.",
        autocompletion=complete_model,
    ),
]
RandomWeights = Annotated[
    int | None,
    typer.Option(min=0, metavar="SEED", help="Replace constant weights by seeded random ones."),
]

Shapes = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        metavar="NAME:1,3,224,224",
        help="The shape of an input with dynamic dimensions; once for each such input.",
    ),
]

Batch = Annotated[
    int | None,
    typer.Option(min=1, help="Another batch size, of ONNX models and those of the zoo."),
]


def input_shapes(texts: list[str] | None) -> dict[str, tuple[int, ...]]:
    """The shapes that ``--shape`` gave; what is none is a wrong use of the command."""
    try:
        return parse_shapes(texts or ())
    except InputShapeError as error:
        raise typer.BadParameter(str(error), param_hint="'--shape'") from error
