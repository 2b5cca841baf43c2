"""Read a model once for a range of shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.graph.open_graph import OpenGraph, open_graph
from tvm_ios.models.load import read_model, simplified
from tvm_ios.models.source import AnyModel, Form, ModelSource
from tvm_ios.onnx.inputs import declared_extents, position_rows
from tvm_ios.progress import Progress, silent
from tvm_ios.shapes.default_ranges import default_ranges, range_text
from tvm_ios.shapes.extent import OpenExtentError
from tvm_ios.shapes.ranges import Ranges, open_shapes

T = TypeVar("T")


def open_operators(model: AnyModel, ranges: Ranges, progress: Progress = silent) -> OpenGraph:
    """Return the operators of a model for all shapes in the ranges of its inputs.

    Raise OpenExtentError if the model is no single graph in the ranges, InputShapeError if these do
    not fit its inputs, and as :func:`tvm_ios.models.load.load_operators`.
    """
    source = ModelSource.of(model)
    require_onnx(source)
    proto = read_model(source)
    # Not before the file was found: it takes most of a second.
    from tvm_ios.onnx.graph import graph_from_onnx

    shapes = open_shapes(ranges, declared_extents(proto))

    def opened(keep_shaped: bool) -> OpenGraph:
        def read(at: Mapping[str, tuple[int, ...]]) -> OpGraph:
            at_point = replace(source, shapes=at)
            simple = simplified(at_point, proto, is_open=True, keep_shaped=keep_shaped)
            return graph_from_onnx(simple.model, already_simplified=True)

        return open_graph(read, shapes, progress)

    return keeping_shaped_if_needed(opened)


def keeping_shaped_if_needed(opened: Callable[[bool], T]) -> T:
    """Return a model for a range, with operators that a single shape does not need if it must.

    ``opened`` reads it with or without them, as of :func:`tvm_ios.onnx.simplify.simplify`: without
    them programs are faster, but some models are another graph at each shape. Raise OpenExtentError
    as it does with them.
    """
    try:
        return opened(False)
    except OpenExtentError:
        return opened(True)


def require_onnx(source: ModelSource) -> None:
    """Raise OpenExtentError if a model is not one of ONNX, of which alone ranges are known."""
    if source.form not in (Form.ZOO, Form.ONNX, Form.TORCH):
        raise OpenExtentError(
            f"{source.model} is {source.form.value}: ranges of shapes are known of ONNX models and "
            ".pt2 files only"
        )


def default_shapes(model: str) -> list[str]:
    """Return ranges for the inputs of a model, as a user gives shapes; none if it needs none.

    These are of ONNX models of texts and signals whose inputs have other open dimensions than the
    batch, and of programs of torch that were exported with dynamic dimensions.
    """
    source = ModelSource.of(model)
    if source.form is Form.TORCH:
        from tvm_ios.models.torch_program import exported_ranges

        ranges = exported_ranges(source.path)
    elif source.form is Form.ONNX:
        proto = read_model(source)
        ranges = default_ranges(declared_extents(proto), position_rows(proto))
    else:
        return []
    return [range_text(*each) for each in (ranges or {}).items()]
