"""Options of commands that read a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from tvm_ios.cli.frame import panels
from tvm_ios.cli.options.completion import complete_model
from tvm_ios.cli.options.values import wrong_use
from tvm_ios.models.source import ModelSource
from tvm_ios.shapes.input_shapes import InputShapeError, parse_shapes

Model = Annotated[
    str,
    typer.Argument(
        help="A zoo name, an .onnx or .pt2 (torch.export) file, or a TVM module saved as .json.",
        autocompletion=complete_model,
    ),
]
Models = Annotated[
    list[str],
    typer.Argument(
        metavar="MODEL...",
        help="A zoo name, an .onnx or .pt2 (torch.export) file, or a TVM module saved as .json; "
        "several with --together.",
        autocompletion=complete_model,
    ),
]
Together = Annotated[
    bool,
    panels.model(
        "--together", help="Several models in one program: each run computes all of them."
    ),
]
RandomWeights = Annotated[
    int | None,
    panels.model(min=0, metavar="SEED", help="Replace constant weights by seeded random ones."),
]

RandomSeed = Annotated[
    int | None,
    panels.model(
        min=0,
        metavar="SEED",
        help="Draw a model's normal and uniform random numbers once, the same for each run.",
    ),
]

Shapes = Annotated[
    list[str] | None,
    panels.model(
        "--shape",
        metavar="NAME:1,3,224,224",
        help="The shape of an input with dynamic dimensions; once for each such input.",
    ),
]

At = Annotated[
    list[str] | None,
    panels.model(
        "--at",
        metavar="NAME:8,128",
        help="The shape of an input of a program for a range; once for each.  [a middle]",
    ),
]

Batch = Annotated[
    int | None,
    panels.model(min=1, help="Another batch size, of ONNX models and those of the zoo."),
]

States = Annotated[
    list[str] | None,
    panels.model(
        "--state",
        metavar="OUTPUT=INPUT",
        help="An output that is this input in the next run, at first zeros; once for each.",
    ),
]


def states_of(texts: Sequence[str] | None) -> dict[str, str]:
    """Parse ``--state`` into a map of outputs to inputs; what is malformed is a wrong use."""
    states: dict[str, str] = {}
    for text in texts or ():
        output, equals, given = text.partition("=")
        if not (output and equals and given):
            raise wrong_use("--state", f"{text!r} is not OUTPUT=INPUT, such as h_out=h_in")
        if output in states:
            raise wrong_use("--state", f"output {output!r} is given twice")
        states[output] = given
    return states


def models_together(models: Sequence[str], together: bool, **how: Any) -> ModelSource:
    """Return the model, or the source of several that run together.

    Several models without ``--together`` are a wrong use, and so is one with it. ``how`` are other
    fields of the source. Raise ModelError if the models cannot run together.
    """
    if together != (len(models) > 1):
        if together:
            raise wrong_use("--together", "it takes two models or more")
        raise wrong_use(
            "MODEL...", f"{len(models)} models are given: they run in one program with --together"
        )
    return ModelSource.together(models, **how)


def input_shapes(texts: list[str] | None, option: str = "--shape") -> dict[str, tuple[int, ...]]:
    """Parse ``--shape`` into shapes by input; what is malformed is a wrong use of the command."""
    try:
        return parse_shapes(texts or ())
    except InputShapeError as error:
        raise wrong_use(option, error) from error
