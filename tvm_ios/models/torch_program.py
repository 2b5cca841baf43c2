"""Convert programs of ``torch.export`` to ONNX models, by torch's own exporter.

The exporter decomposes what ONNX has no operator for, and writes torch's type promotion as casts,
so that none of torch's rules is repeated here.
"""
# Torch is an extra: where it is not installed, nothing of it has a type.
# pyright: basic, reportMissingImports=warning

from __future__ import annotations

import contextlib
import io
import json
import logging
import re
import warnings
from collections.abc import Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from tvm_ios.errors import ModelError
from tvm_ios.models.torch_archive import read_torch_archive
from tvm_ios.models.torch_conditions import PROPERTY
from tvm_ios.models.torch_doubles import exact_numbers
from tvm_ios.models.torch_operators import decompose
from tvm_ios.onnx.rewrites.random import RANDOM
from tvm_ios.shapes.input_shapes import InputShapeError, Shapes
from tvm_ios.shapes.ranges import Range


def onnx_from_torch(path: Path, shapes: Shapes) -> Any:
    """Return the ``onnx.ModelProto`` of a ``.pt2`` file.

    Inputs have the names of ``forward``'s arguments, outputs those of the archive. Raise ModelError
    if the file cannot be read, torch is not installed, or ONNX cannot express the program;
    InputShapeError if the shapes give a dynamic dimension a number outside its exported range.
    """
    archive = read_torch_archive(path)
    program = load_program(path, archive.content)
    _require_in_range(program, shapes)
    proto = onnx_of_program(str(path), program, archive.outputs)
    if archive.conditions and program.range_constraints:
        proto.metadata_props.add(key=PROPERTY, value=json.dumps(archive.conditions))
    return proto


def onnx_of_program(name: str, program: Any, outputs: Sequence[str]) -> Any:
    """Return the ``onnx.ModelProto`` of a ``torch.export.ExportedProgram``, with names of outputs.

    ``name`` stands for the program in messages. Raise ModelError if ONNX cannot express it.
    """
    from torch.export.graph_signature import InputKind, TensorArgument

    results = _results(name, program, outputs)
    inputs = [
        spec.arg.name
        for spec in program.graph_signature.input_specs
        if spec.kind is InputKind.USER_INPUT and isinstance(spec.arg, TensorArgument)
    ]
    exported = _export(name, program)
    _register_constants(exported.model.graph)
    _require_the_same_every_run(name, exported)
    _name_values(exported, inputs, results)
    return exported.model_proto


def exported_ranges(path: Path) -> dict[str, tuple[int | Range, ...]]:
    """Return the shapes of inputs of a ``.pt2`` file that have dynamic dimensions, by name.

    A dimension without an upper end ranges to 32 if it is the first, else to 512. There are none if
    a dimension is computed from others, or none but the first is dynamic. Raise ModelError as
    :func:`onnx_from_torch`.
    """
    program = load_program(path, read_torch_archive(path).content)
    ranges: dict[str, tuple[int | Range, ...]] = {}
    for node in program.graph.nodes:
        tensor = node.meta.get("val")
        if node.op != "placeholder" or node.name not in program.graph_signature.user_inputs:
            continue
        extents: list[int | Range] = []
        for axis, extent in enumerate(getattr(tensor, "shape", ())):
            allowed = program.range_constraints.get(_symbol(extent))
            if isinstance(extent, int):
                extents.append(extent)
            elif allowed is None:
                return {}
            else:
                most = 512 if axis else 32
                with contextlib.suppress(TypeError, OverflowError):
                    most = min(int(allowed.upper), 1 << 20)
                extents.append(Range(max(1, int(allowed.lower)), most))
        if any(isinstance(extent, Range) for extent in extents):
            ranges[node.name] = tuple(extents)
    # Of a program whose batch alone is dynamic, a batch of one is assumed.
    more = any(isinstance(extent, Range) for shape in ranges.values() for extent in shape[1:])
    return ranges if more else {}


def require_exported(path: Path, shapes: Iterable[Shapes]) -> None:
    """Raise InputShapeError unless all these shapes are in the ranges of a ``.pt2`` file."""
    program = load_program(path, read_torch_archive(path).content)
    for each in shapes:
        _require_in_range(program, each)


def _symbol(extent: Any) -> Any:
    """Return the symbol of a dynamic dimension; None of a number."""
    return getattr(getattr(extent, "node", None), "expr", None)


def load_program(path: Path, content: bytes) -> Any:
    """Return the ``torch.export.ExportedProgram`` of a cleaned ``.pt2`` archive.

    Raise ModelError if torch is not installed, or refuses it.
    """
    try:
        import torch.export
    except ImportError as error:
        raise ModelError(f"{path} needs torch: pip install 'tvm-ios[torch]'") from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return torch.export.load(io.BytesIO(content))
        except Exception as error:
            raise ModelError(
                f"{path} cannot be read by torch {torch.__version__}: {_reason(error)}"
            ) from error


def _require_the_same_every_run(name: str, exported: Any) -> None:
    import onnx_ir as ir

    if changed := list(exported.exported_program.graph_signature.buffers_to_mutate.values()):
        raise ModelError(
            f"{name} changes its buffer {changed[0]!r} whenever it runs: take it as an input and "
            "return the new value, which --state OUTPUT=INPUT keeps from run to run"
        )
    for node in ir.traversal.RecursiveGraphIterator(exported.model.graph):
        if node.op_type in RANDOM:
            raise ModelError(
                f"{name} draws random numbers ({node.name}), which are others in every run: give "
                "them to the model as an input"
            )


def _register_constants(graph: Any) -> None:
    """Register the constants that torch's optimiser leaves out as initializers."""
    import onnx_ir as ir

    for node in ir.traversal.RecursiveGraphIterator(graph):
        for value in node.inputs:
            if value is None or value.const_value is None or value.producer() is not None:
                continue
            if not value.is_initializer():
                graph.register_initializer(value)


def _export(name: str, program: Any) -> Any:
    import torch

    try:
        with _quietly():
            return cast(Any, torch.onnx).export(
                decompose(program),
                dynamo=True,
                verbose=False,
                custom_translation_table=exact_numbers(),
            )
    except Exception as error:
        raise ModelError(_refusal(name, error)) from error


@contextlib.contextmanager
def _quietly() -> Generator[None, None, None]:
    """Suppress warnings, logs and printed lines of torch's exporter."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _refusal(name: str, error: BaseException) -> str:
    """Return an error message that names the operator on which torch's exporter failed."""
    while error.__cause__ is not None:
        if found := re.search(r"target=torch\.ops\.\w+\.(\w+)\.\w+", str(error)):
            return (
                f"operator {found[1]} of {name} is one that torch's exporter to ONNX does not "
                "write: write the model without it"
            )
        error = error.__cause__
    return f"torch's exporter to ONNX refuses {name}: {_reason(error)}"


def _reason(error: BaseException) -> str:
    said = str(error).partition("While executing")[0]
    return (" ".join(said.split()) or repr(error))[:300]


def _results(name: str, program: Any, names: Sequence[str]) -> dict[str, Any]:
    """Return the types of the outputs by name, without those that are None."""
    from torch.export.graph_signature import OutputKind

    results = [
        value
        for value, spec in zip(
            program.graph.output_node().args[0], program.graph_signature.output_specs, strict=True
        )
        if spec.kind is OutputKind.USER_OUTPUT
    ]
    kinds: dict[str, Any] = {}
    for output, value in zip(names, results, strict=True):
        if value is None:
            continue
        kind = getattr(getattr(value, "meta", {}).get("val"), "dtype", None)
        if kind is None:
            raise ModelError(f"output {output!r} of {name} is no tensor: return tensors alone")
        kinds[output] = kind
    return kinds


def _name_values(exported: Any, inputs: Sequence[str], results: Mapping[str, Any]) -> None:
    """Give inputs and outputs the names and types that they have in torch."""
    import onnx_ir as ir
    from onnx_ir.passes.common import NameFixPass
    from onnx_ir.tensor_adapters import from_torch_dtype

    graph = exported.model.graph
    for value, name in zip(graph.inputs, inputs, strict=True):
        value.name = name
    for place, (name, kind) in enumerate(results.items()):
        value = graph.outputs[place]
        # The exporter forgets the cast from the type of a sum to the half precision of its terms.
        if value.dtype != (right := from_torch_dtype(kind)):
            cast = ir.node("Cast", [value], {"to": right})
            graph.append(cast)
            graph.outputs[place] = cast.outputs[0]
            cast.outputs[0].shape, cast.outputs[0].dtype = value.shape, right
        elif value.is_initializer() and value.uses():
            # A constant that is returned must not be one that kernels hold.
            copy = ir.Value(name=name, type=value.type, shape=value.shape)
            copy.const_value = value.const_value
            graph.initializers.add(copy)
            graph.outputs[place] = copy
        graph.outputs[place].name = name
    # An input and an output may share a name in torch.
    NameFixPass()(exported.model)


def _require_in_range(program: Any, shapes: Mapping[str, Sequence[int]]) -> None:
    """Require that each dynamic dimension is in its exported range, or raise InputShapeError."""
    for node in program.graph.nodes:
        tensor = node.meta.get("val")
        if node.op != "placeholder" or node.name not in shapes or not hasattr(tensor, "shape"):
            continue
        for extent, number in zip(tensor.shape, shapes[node.name], strict=False):
            symbol = _symbol(extent)
            allowed = program.range_constraints.get(symbol)
            if allowed is not None and number not in allowed:
                raise InputShapeError(
                    f"the dimension {str(symbol)!r} was exported for {allowed.lower} to "
                    f"{allowed.upper}, not for {number}"
                )
