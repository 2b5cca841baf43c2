"""Load modules that ``tvm.ir.save_json`` wrote.

TVM's reader trusts its file: circular references, or one to a node of another type, crash the
process. So a file is first read in a separate process, all the way to the graph of operators, and
here only if that succeeds.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import tvm

from relay_passes.dialect import Dialect, named_dialect
from relay_passes.ir_dump import IMPORTED, write_ir
from runtime_ext.ir_form import SCHEDULE
from tvm_ios.errors import ModelError, UserError
from tvm_ios.models.source import read_json
from tvm_ios.shapes.input_shapes import Shapes

_LONGEST_SECONDS = 600
_REFUSED = 3

#: Node types that every module of a dialect has.
_NODES = {
    "relax": {"ir.IRModule", "relax.expr.Function"},
    "relay": {"IRModule", "relay.Function"},
}
_ADVICE = {
    "relax": "leave out --dialect relay",
    "relay": "give --dialect relay, with a TVM that has it (0.11 to 0.19)",
}


def load_saved_module(
    path: Path, dialect: Dialect, shapes: Shapes | None = None, dump_ir: Path | None = None
) -> tvm.IRModule:
    """Return the canonical form of a saved module.

    The module before it is canonicalised is written into the folder ``dump_ir``, if there is one.

    Raise ModelError if the file is something else, damaged, or of another dialect, a dimension is
    dynamic and not given, or the module cannot be scheduled.
    """
    _require(path, dialect.name)
    shapes_text = json.dumps(dict(shapes or {}))
    command = [sys.executable, "-m", __name__, str(path), dialect.name, shapes_text]
    try:
        child = subprocess.run(command, capture_output=True, text=True, timeout=_LONGEST_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise ModelError(f"{path} takes TVM more than {_LONGEST_SECONDS} s to read") from error
    if child.returncode == _REFUSED:
        raise ModelError(child.stderr.strip().splitlines()[-1])
    if child.returncode:
        raise ModelError(
            f"{path} makes TVM's reader crash, so it is damaged: write it again by tvm.ir.save_json"
        )
    return _import(path, dialect, shapes or {}, dump_ir)


def _require(path: Path, dialect: str) -> None:
    data = read_json(path)
    nodes = data.get("nodes")
    if not isinstance(nodes, list):
        raise ModelError(f"{path} is not a module that tvm.ir.save_json wrote: it lacks its nodes")
    kinds = {
        str(node.get("type", node.get("type_key", ""))) for node in nodes if isinstance(node, dict)
    }
    for other in _ADVICE.keys() - {dialect}:
        if any(kind.startswith(f"{other}.") for kind in kinds):
            raise ModelError(f"{path} holds a {other.capitalize()} module: {_ADVICE[other]}")
    if not kinds >= _NODES[dialect]:
        raise ModelError(
            f"{path} holds no {dialect.capitalize()} module: write one by tvm.ir.save_json(module)"
        )


def _import(
    path: Path, dialect: Dialect, shapes: Shapes, dump_ir: Path | None = None
) -> tvm.IRModule:
    try:
        module = tvm.ir.load_json(path.read_text())
    except Exception as error:
        reason = str(error).strip().splitlines()[-1] if str(error).strip() else repr(error)
        raise ModelError(f"{path} is not read by TVM {tvm.__version__}: {reason}") from error
    if not isinstance(module, tvm.IRModule):
        raise ModelError(f"{path} holds a {type(module).__name__}, not a module")
    if module.attrs and SCHEDULE in module.attrs:
        raise ModelError(f"{path} carries a schedule already: give the module from before it")
    write_ir(dump_ir, IMPORTED, module)
    return dialect.import_saved(module, path, shapes)


def _main(path: Path, dialect: Dialect, shapes: Shapes) -> None:
    try:
        dialect.extract(_import(path, dialect, shapes), path.stem)
    except Exception as error:
        reason = " ".join(str(error).split()) or repr(error)
        stated = isinstance(error, UserError)
        print(reason if stated else f"{path} cannot be scheduled: {reason[:300]}", file=sys.stderr)
        sys.exit(_REFUSED)


if __name__ == "__main__":
    _main(Path(sys.argv[1]), named_dialect(sys.argv[2]), json.loads(sys.argv[3]))
