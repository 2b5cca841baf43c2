"""Relax modules that ``tvm.ir.save_json`` wrote.

TVM's reader trusts its file: references that go round in a circle, or to a node of another
type, end the process. So a file is read in a process of its own first, all the way to the graph
of operators, and here only if that one came through.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import tvm

from relay_passes.relax.bindings import DialectError, bindings_of, data_type, leaves, static_shape
from relay_passes.relax.canonicalise import canonicalise
from relay_passes.relax.extract import extract
from relay_passes.relax.fix_inputs import fix_inputs
from runtime_ext.ir_form import SCHEDULE
from tvm_ios.errors import UserError
from tvm_ios.models import read_json
from tvm_ios.onnx_file import ModelError

_LONGEST_SECONDS = 600
_REFUSED = 3


def load_saved_module(
    path: Path, shapes: Mapping[str, Sequence[int]] | None = None
) -> tvm.IRModule:
    """The canonical form of a saved Relax module.

    Raises
    ------
    ModelError
        If the file is something else or damaged, a dimension is dynamic and not given, or the
        module cannot be scheduled.
    """
    _require_relax(path)
    command = [sys.executable, "-m", __name__, str(path), json.dumps(dict(shapes or {}))]
    try:
        tried = subprocess.run(command, capture_output=True, text=True, timeout=_LONGEST_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise ModelError(f"{path} takes TVM more than {_LONGEST_SECONDS} s to read") from error
    if tried.returncode == _REFUSED:
        raise ModelError(tried.stderr.strip().splitlines()[-1])
    if tried.returncode:
        raise ModelError(
            f"{path} makes TVM's reader crash, so it is damaged: write it again by tvm.ir.save_json"
        )
    return _import(path, shapes or {})


def _require_relax(path: Path) -> None:
    data = read_json(path)
    nodes = data.get("nodes")
    if not isinstance(nodes, list):
        raise ModelError(f"{path} is not a module that tvm.ir.save_json wrote: it lacks its nodes")
    kinds = {
        str(node.get("type", node.get("type_key", ""))) for node in nodes if isinstance(node, dict)
    }
    if any(kind.startswith("relay.") for kind in kinds):
        raise ModelError(
            f"{path} holds a Relay module, which this TVM cannot read: "
            "give the model that it was made from (.onnx, .pt2), or a Relax module"
        )
    if "ir.IRModule" not in kinds or "relax.expr.Function" not in kinds:
        raise ModelError(f"{path} holds no Relax module: write one by tvm.ir.save_json(module)")


def _import(path: Path, shapes: Mapping[str, Sequence[int]]) -> tvm.IRModule:
    try:
        module = tvm.ir.load_json(path.read_text())
    except Exception as error:
        reason = str(error).strip().splitlines()[-1] if str(error).strip() else repr(error)
        raise ModelError(f"{path} is not read by TVM {tvm.__version__}: {reason}") from error
    if not isinstance(module, tvm.IRModule):
        raise ModelError(f"{path} holds a {type(module).__name__}, not a module")
    if module.attrs and SCHEDULE in module.attrs:
        raise ModelError(f"{path} carries a schedule already: give the module from before it")
    canonical = canonicalise(fix_inputs(module, shapes))
    for binding in bindings_of(canonical["main"]):
        for leaf in leaves(binding.value):
            if isinstance(leaf, tvm.ir.GenericConst):
                array = leaf.value.numpy()
                if (static_shape(leaf), data_type(leaf)) != (array.shape, str(array.dtype)):
                    raise DialectError(f"{path} misstates the type of a constant: it is damaged")
    return canonical


def _main(path: Path, shapes: Mapping[str, Sequence[int]]) -> None:
    try:
        extract(_import(path, shapes))
    except Exception as error:
        reason = " ".join(str(error).split()) or repr(error)
        stated = isinstance(error, UserError)
        print(reason if stated else f"{path} cannot be scheduled: {reason[:300]}", file=sys.stderr)
        sys.exit(_REFUSED)


if __name__ == "__main__":
    _main(Path(sys.argv[1]), json.loads(sys.argv[2]))
