"""Join several ONNX models into one, whose graph is the disjoint union of theirs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import onnx
from onnx import inliner, version_converter

from tvm_ios.errors import ModelError
from tvm_ios.onnx.file import LARGEST
from tvm_ios.onnx.inputs import free_inputs
from tvm_ios.onnx.rewrites.modernise import modernise

#: The library's own types are incomplete.
_onnx: Any = onnx
_inliner: Any = inliner
_converter: Any = version_converter
#: ONNX's own operators, under either of its names.
_ONNX = ("", "ai.onnx")
#: The first version in which initializers need not be inputs.
_WEIGHTS_ARE_NO_INPUTS = 4


def join(models: Mapping[str, Any]) -> Any:
    """Return one model that computes the outputs of several independent models.

    Names get their model's name as a prefix (``squeezenet.conv1``), except inputs and outputs whose
    name is unique among the models. The result has the newest opset and IR version of the models;
    inputs and outputs are in the order of the models, which are not changed. Raise ModelError if a
    model cannot be converted to the newest opset, operators of another domain have different
    versions, or the result is larger than 2 GiB.
    """
    opset = max(map(_opset, models.values()))
    modern = {name: _of_opset(name, model, opset) for name, model in models.items()}
    kept = _names_of_one_model(modern)
    joined: Any = onnx.ModelProto()
    joined.ir_version = max(_WEIGHTS_ARE_NO_INPUTS, *(m.ir_version for m in models.values()))
    joined.graph.name = "+".join(models)
    if sum(model.ByteSize() for model in modern.values()) > LARGEST:
        raise ModelError(
            f"{joined.graph.name} would be larger than 2 GiB, and TVM's importer reads models "
            "below that: run fewer models together"
        )
    versions: dict[str, int] = {"": opset}
    for name, model in modern.items():
        for entry in model.opset_import:
            if entry.domain not in _ONNX and versions.setdefault(entry.domain, entry.version) != (
                entry.version
            ):
                raise ModelError(
                    f"{name} has operators of {entry.domain!r} in version {entry.version}, and "
                    f"another model in version {versions[entry.domain]}: export them alike"
                )
        part: Any = onnx.GraphProto()
        part.CopyFrom(model.graph)
        _rename(part, f"{name}.", kept & {value.name for value in _ports(model)}, {})
        graph = joined.graph
        graph.node.extend(part.node)
        graph.initializer.extend(part.initializer)
        graph.sparse_initializer.extend(part.sparse_initializer)
        graph.input.extend(part.input)
        graph.output.extend(part.output)
        graph.value_info.extend(part.value_info)
    joined.opset_import.extend(
        _onnx.helper.make_opsetid(domain, version) for domain, version in versions.items()
    )
    return joined


def _opset(model: Any) -> int:
    return next((o.version for o in model.opset_import if o.domain in _ONNX), 1)


def _of_opset(name: str, model: Any, opset: int) -> Any:
    """Return the model with its local functions inlined, converted to an opset."""
    if model.functions:
        model = _inliner.inline_local_functions(model)
    if _opset(model) == opset:
        return model
    try:
        # It knows what the converter gets wrong.
        return _converter.convert_version(modernise(model), opset)
    except Exception as error:  # the converter's own error types are private
        reason = (str(error).strip().splitlines() or [repr(error)])[0]
        raise ModelError(
            f"{name} is of opset {_opset(model)} and another model of {opset}, and converting it "
            f"fails ({reason}): export both with one opset"
        ) from error


def _names_of_one_model(models: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of inputs and outputs that occur in one model only, which stay."""
    count = Counter(name for model in models.values() for name in {v.name for v in _ports(model)})
    prefixes = tuple(f"{name}." for name in models)
    return frozenset(n for n, number in count.items() if number == 1 and not n.startswith(prefixes))


def _ports(model: Any) -> Iterator[Any]:
    yield from free_inputs(model)
    yield from model.graph.output


def _rename(graph: Any, prefix: str, kept: frozenset[str], outer: Mapping[str, str]) -> None:
    """Prefix all names in a graph and in the graphs inside its nodes, in place.

    The names in ``kept`` stay. ``outer`` maps old to new names of the surrounding graphs.
    """
    keep = kept if not outer else frozenset[str]()
    own = [v.name for v in (*graph.input, *graph.output, *graph.value_info, *graph.initializer)]
    own += [tensor.values.name for tensor in graph.sparse_initializer]
    own += [name for node in graph.node for name in node.output]
    names = {**outer, **{n: n if n in keep else prefix + n for n in own if n}}
    for named in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        named.name = names[named.name]
    for tensor in graph.sparse_initializer:
        tensor.values.name = names[tensor.values.name]
    for value in (*graph.input, *graph.output, *graph.value_info):
        # Two models may use the same symbol for different extents.
        for extent in value.type.tensor_type.shape.dim:
            if extent.dim_param:
                extent.dim_param = prefix + extent.dim_param
    numbers: Counter[str] = Counter()
    taken = {node.name for node in graph.node}
    for node in graph.node:
        while not node.name:
            # Otherwise the name of its unit would not tell the model.
            name = f"{node.op_type}_{numbers[node.op_type]}"
            numbers[node.op_type] += 1
            node.name = "" if name in taken else name
        node.name = prefix + node.name
        for ports in (node.input, node.output):
            ports[:] = [names.get(name, name) for name in ports]
        for attribute in node.attribute:
            inner = [attribute.g] if attribute.HasField("g") else []
            for graph_inside in (*inner, *attribute.graphs):
                _rename(graph_inside, prefix, kept, names)
