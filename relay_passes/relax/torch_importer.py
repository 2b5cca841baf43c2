"""Programs of torch.export as canonical Relax modules."""

from __future__ import annotations

import contextlib
import gc
import io
import json
import re
import traceback
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax

from relay_passes.dialect import DialectError
from relay_passes.node_names import UNKNOWN
from relay_passes.relax.canonical.canonicalise import canonicalise
from relay_passes.relax.canonical.guard_divisions import GuardDivisions
from relay_passes.relax.canonical.join_in_parts import JoinInParts
from relay_passes.relax.canonical.truths import LogicOfTruths
from relay_passes.relax.fix_inputs import fix_inputs
from runtime_ext.ir_form import NODE_NAMES, OUTPUT_NAMES
from runtime_ext.verification.torch_outputs import load_program
from tvm_ios.errors import ModelError
from tvm_ios.models.torch_archive import read_torch_archive

#: Past the end of any axis.
_FAR = 2**31 - 1


def import_torch(path: Path, shapes: Mapping[str, Sequence[int]] | None = None) -> tvm.IRModule:
    """A canonical Relax module of a ``.pt2`` file, weights as constants.

    Inputs have the names of ``forward``'s arguments.

    Raises
    ------
    ModelError
        If the file cannot be read, or torch is not installed.
    InputShapeError
        If a dimension is dynamic and not given.
    DialectError
        If TVM's importer does not support the program.
    """
    archive = read_torch_archive(path)
    program = load_program(path, archive.content)
    if archive.conditions and program.range_constraints:
        raise ModelError(
            f"{path} was exported with conditions on its dynamic dimensions: "
            "export it with fixed shapes"
        )
    import torch
    from tvm.relax.frontend.torch import from_exported_program

    # Its decomposition computes a mask of rows to every softmax.
    table = torch.export.default_decompositions()
    table.pop(torch.ops.aten._safe_softmax.default, None)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            decomposed = program.run_decompositions(table)
            module = from_exported_program(
                decomposed,
                run_ep_decomposition=False,
                custom_convert_map={
                    "_safe_softmax.default": _safe_softmax,
                    "elu.default": _elu,
                    "max.dim": _largest,
                    "select.int": _select,
                },
            )
        except Exception as error:
            # TVM complains about what it had begun when that goes: now, not after our sentence.
            traceback.clear_frames(error.__traceback__)
            gc.collect()  # the importer holds itself
            raise DialectError(_refusal(path, error)) from error
    for name in decomposed.graph_signature.buffers_to_mutate.values():
        raise ModelError(
            f"{path} changes its buffer {name!r} whenever it runs, and executables keep nothing "
            "from run to run: return the new value instead"
        )
    passes = [relax.transform.Normalize(), GuardDivisions(), JoinInParts(), LogicOfTruths()]
    static = tvm.transform.Sequential(passes)(fix_inputs(module, shapes))
    names = {OUTPUT_NAMES: json.dumps(archive.outputs), NODE_NAMES: UNKNOWN}
    return canonicalise(static.with_attrs(names))


def _refusal(path: Path, error: Exception) -> str:
    reason = " ".join(str(error).split()) or repr(error)
    if unknown := re.findall(r"'([\w.]+)'", reason.partition("Unsupported function types")[2]):
        which = f"operator {unknown[0]} of {path} is"
        if len(unknown) > 1:
            which = f"operators {', '.join(unknown)} of {path} are"
        return (
            f"{which} not imported by TVM {tvm.__version__}: write the model without, or export "
            "it to ONNX"
        )
    return f"TVM's importer refuses {path}, so export it to ONNX: {reason[:300]}"


def _safe_softmax(node: Any, importer: Any) -> relax.Var:
    """A softmax in which a row of minus infinities gives zeros."""
    emit = importer.block_builder.emit
    data, axis = importer.env[node.args[0]], node.args[1]
    if _is_product(node.args[0]):
        return emit(relax.op.nn.softmax(data, axis))
    numbers = np.finfo(str(data.ty.dtype))
    lowest, smallest = (relax.const(n, str(numbers.dtype)) for n in (numbers.min, numbers.tiny))
    largest = emit(relax.op.maximum(emit(relax.op.max(data, axis, keepdims=True)), lowest))
    powers = emit(relax.op.exp(emit(relax.op.subtract(data, largest))))
    total = emit(relax.op.sum(powers, axis, keepdims=True))
    return emit(relax.op.divide(powers, emit(relax.op.maximum(total, smallest))))


def _elu(node: Any, importer: Any) -> relax.Var:
    """``scale * elu(x)``, which selu and celu are written as; TVM ignores the scales."""
    emit = importer.block_builder.emit
    data = importer.env[node.args[0]]
    alpha, scale, inner = (*node.args[1:], *(1.0,) * 3)[:3]

    def number(value: float) -> Any:
        return relax.const(value, str(data.ty.dtype))

    powers = emit(relax.op.exp(emit(relax.op.multiply(data, number(inner)))))
    below = emit(relax.op.nn.relu(emit(relax.op.subtract(number(1.0), powers))))
    below = emit(relax.op.multiply(below, number(-alpha * scale)))
    above = emit(relax.op.multiply(emit(relax.op.nn.relu(data)), number(scale)))
    return emit(relax.op.add(below, above))


def _largest(node: Any, importer: Any) -> relax.Var:
    """The largest of an axis, and where the first of it is; TVM sorts, which no NaN survives."""
    emit = importer.block_builder.emit
    data, axis = importer.env[node.args[0]], node.args[1]
    kept = node.args[2] if len(node.args) > 2 else node.kwargs.get("keepdim", False)
    values = emit(relax.op.max(data, axis, keepdims=kept))
    indices = emit(relax.op.argmax(data, axis, keepdims=kept))
    return emit(relax.Tuple([values, indices]))


def _is_product(node: Any) -> bool:
    """Whether a value is a matrix product, rearranged: nothing masked it."""
    while node.op == "call_function":
        name = node.target.__name__.partition(".")[0]
        if name in ("bmm", "mm"):
            return True
        if name not in ("view", "_unsafe_view", "expand", "permute", "clone", "unsqueeze"):
            return False
        node = node.args[0]
    return False


def _select(node: Any, importer: Any) -> relax.Var:
    """One row of an axis, as a slice: TVM's importer looks it up by a tensor of indices."""
    data, (axis, index) = importer.env[node.args[0]], node.args[1:]
    # From the end on, index + 1 would be 0, which is the front.
    row = relax.op.strided_slice(data, axes=[axis], begin=[index], end=[index + 1 or _FAR])
    return importer.block_builder.emit(
        relax.op.squeeze(importer.block_builder.emit(row), axis=[axis])
    )
