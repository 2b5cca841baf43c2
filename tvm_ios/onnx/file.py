"""Read an ``.onnx`` file that may be damaged, hostile or of unsupported operators."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import onnx
from onnx import external_data_helper

from tvm_ios.errors import ModelError
from tvm_ios.graph.elements import GraphError
from tvm_ios.onnx.cut import graphs_inside

#: The domain of ONNX Runtime's convolutions in packs of channels.
NCHWC_DOMAIN = "com.microsoft.nchwc"
#: Most bytes of a protobuf message, and so of a model for TVM's importer.
LARGEST = (1 << 31) - 1

#: The library's own types are incomplete.
_onnx: Any = onnx


def read_onnx(path: Path) -> Any:
    """Return the checked model of a file, with its weights, also those from other files.

    Raise ModelError if the file is not a valid model, a file of weights is missing or lies outside
    the model's folder, or an operator is unknown.
    """
    model = read_without_weights(path)
    if not model.graph.node and not model.graph.output:
        raise ModelError(f"{path} is not a valid ONNX model: it holds no graph")
    _require_known_operators(path, model)
    _require_external_data(path, model)
    _load_external_data(path, model)
    from tvm_ios.onnx.rewrites.other_domains.registry import with_strays_named
    from tvm_ios.onnx.tolerated import normalised
    from tvm_ios.onnx.valid import require_valid

    try:
        model = normalised(model)
        require_valid(with_strays_named(model))
    except GraphError as error:
        raise ModelError(f"{path} is not a valid ONNX model: {error}") from error
    return model


def weight_files(path: Path) -> tuple[str, ...]:
    """Return the sorted names of files beside an ``.onnx`` file that hold its weights.

    Raise as :func:`read_onnx`.
    """
    model = read_without_weights(path)
    locations = {entries.get("location", "") for _, entries in _external(model)}
    return tuple(sorted(locations - {""}))


def input_shapes(model: Any) -> dict[str, list[int]]:
    """Return the inputs' static shapes; TVM's importers take an extent of 0 for unknown."""
    return {
        value.name: [extent.dim_value for extent in value.type.tensor_type.shape.dim]
        for value in model.graph.input
    }


def read_without_weights(path: Path) -> Any:
    """Load the model of a file without the weights that lie in other files."""
    if path.is_dir():
        raise ModelError(f"{path} is not a valid ONNX model: it is a folder")
    size = path.stat().st_size
    if not path.is_file() or size == 0:
        raise ModelError(f"{path} is not a valid ONNX model: it is empty")
    if size > LARGEST:
        raise ModelError(_too_large(path, size))
    try:
        return _onnx.load(str(path), load_external_data=False)
    except OSError:
        raise
    except Exception as error:  # protobuf's own error types are private
        raise ModelError(
            f"{path} is not a valid ONNX model: it is truncated, or of another format"
        ) from error


def _require_known_operators(path: Path, model: Any) -> None:
    """Require that ONNX, the file or a rewrite defines each operator, or raise ModelError."""
    # Not above: what is no model at all is refused without what rewrites models.
    from tvm_ios.onnx.edit import node_text
    from tvm_ios.onnx.rewrites.other_domains.registry import is_of_other_domain
    from tvm_ios.onnx.rewrites.quantised.operators import QUANTISED
    from tvm_ios.onnx.tail import runs_later

    versions = {entry.domain or "ai.onnx": entry.version for entry in model.opset_import}
    local = {(function.domain, function.name) for function in model.functions}
    newest = _onnx.defs.onnx_opset_version()
    opset = versions.get("ai.onnx", newest)
    if opset > newest:
        raise ModelError(
            f"{path} is of opset {opset}, and the installed onnx knows {newest}: "
            "export it with an older opset, or upgrade onnx"
        )
    for graph in (model.graph, *model.functions):
        for node in graph.node:
            domain = node.domain or "ai.onnx"
            if (node.domain, node.op_type) in local or node.op_type in QUANTISED.get(domain, ()):
                continue
            if is_of_other_domain(node, opset) or runs_later(node):
                continue
            what = f"{node_text(node)} of {path}"
            if domain != "ai.onnx":
                raise ModelError(f"{what} is of the domain {domain!r}, {_way_out(node)}")
            try:
                _onnx.defs.get_schema(node.op_type, opset)
            except Exception as error:
                raise ModelError(
                    f"{what} is not an operator of opset {opset}: export the model again"
                ) from error


def _way_out(node: Any) -> str:
    """Return a clause that says why an operator of another domain is not read, and a remedy."""
    from tvm_ios.onnx.rewrites.other_domains.deferred import WAY_OUT

    if node.domain == NCHWC_DOMAIN:
        return (
            "which ONNX Runtime writes for one kind of processor: let it optimise the model at the "
            "level ORT_ENABLE_EXTENDED"
        )
    if node.op_type == "ZipMap":
        return (
            "which makes dictionaries: convert the model without (skl2onnx: options zipmap=False), "
            "so that it ends in a tensor"
        )
    return f"where this operator is not known: {WAY_OUT}"


def _require_external_data(path: Path, model: Any) -> None:
    """Require that files of weights exist, are whole and lie in the model's folder or cache."""
    size = path.stat().st_size
    folder = Path(os.path.realpath(path.parent))
    allowed = [folder, *_blobs(folder)]
    for tensor, entries in _external(model):
        location = entries.get("location", "")
        file = Path(os.path.realpath(folder / location))
        is_inside = not Path(location).is_absolute() and any(a in file.parents for a in allowed)
        if not location or not is_inside:
            raise ModelError(
                f"{path} keeps the weight {tensor.name!r} in {location!r}, outside its own "
                "folder: files there are not read; save it with the data beside it"
            )
        if not file.is_file():
            raise ModelError(
                f"{path} keeps weights in {location!r}, which is missing: "
                f"put this file beside it, into {path.parent}"
            )
        try:
            begin = int(entries.get("offset") or 0)
            length = int(entries.get("length") or file.stat().st_size - begin)
        except ValueError as error:
            raise ModelError(
                f"{path} misstates where in {location!r} the weight {tensor.name!r} lies"
            ) from error
        if begin < 0 or length < 0 or begin + length > file.stat().st_size:
            raise ModelError(
                f"{location!r} of {path} is truncated: it lacks the end of the weight "
                f"{tensor.name!r}"
            )
        size += length
    if size > LARGEST:
        raise ModelError(_too_large(path, size))


def _blobs(folder: Path) -> list[Path]:
    """Return the blob folder of the Hugging Face cache that a snapshot folder links to, if any."""
    caches = [place.parent for place in folder.parents if place.name == "snapshots"]
    return [cache / "blobs" for cache in caches[:1]]


def _load_external_data(path: Path, model: Any) -> None:
    """Read weights from their files, which :func:`_require_external_data` has checked."""
    for tensor, entries in _external(model):
        with (path.parent / entries["location"]).open("rb") as file:
            file.seek(int(entries.get("offset") or 0))
            tensor.raw_data = file.read(int(entries.get("length") or -1))
        del tensor.external_data[:]
        tensor.data_location = onnx.TensorProto.DEFAULT


def _external(model: Any) -> Iterator[tuple[Any, dict[str, str]]]:
    """Yield each tensor whose data lie in another file, with its location entries."""
    for tensor in _tensors(model):
        if external_data_helper.uses_external_data(tensor):
            yield tensor, {entry.key: entry.value for entry in tensor.external_data}


def _tensors(model: Any) -> Iterator[Any]:
    outer = [model.graph, *model.functions]
    for graph in (*outer, *chain.from_iterable(map(graphs_inside, outer))):
        yield from getattr(graph, "initializer", ())
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.HasField("t"):
                    yield attribute.t
                yield from attribute.tensors


def _too_large(path: Path, size: int) -> str:
    return (
        f"{path} holds {size / 2**30:.1f} GiB, and TVM's importer reads models below 2 GiB: "
        "split the model, or store its weights in fewer bits"
    )
