"""TVM's own build of a Relax module, the baseline of all comparisons."""

# TVM's nodes get their attributes at run time.
# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import tvm
import tvm_ffi
from tvm import relax
from tvm.ir import GenericConst

from runtime_ext.allocated import allocated_if_empty
from runtime_ext.cpu.linker import link
from runtime_ext.module_copies import with_functions, with_main
from runtime_ext.peers.peer import TvmLibrary
from tvm_ios.errors import UserError
from tvm_ios.files.atomic import temporary_folder, write_atomically
from tvm_ios.files.json_text import json_object

_CONCAT = tvm.ir.Op.get("relax.concat")
#: The most tensors of a concatenation that TVM may fuse, and the pattern that it does not fuse.
_MANY, _OPAQUE = 32, 8


def compile_tvm_build(
    module: tvm.IRModule, target: Any, path: Path, database: Path | None = None
) -> None:
    """Compile an unscheduled module by TVM's default pipeline to a shared library ``path``.

    With a MetaSchedule database (a folder) TVM applies its kernels, and the numbers of functions
    and of tuned ones are written beside the library: see :func:`tuned_library`. Raise UserError if
    the disk has too little room.
    """
    with target:
        lowered = relax.get_pipeline("zero")(_long_joins_apart(_without_empty_constants(module)))
        if database is not None:
            lowered = relax.transform.MetaScheduleApplyDatabase(str(database))(lowered)
            _note_tuned(lowered, path)
    built = relax.build(lowered, target=target)
    _require_room(path.parent, module)
    with temporary_folder(path.parent, f".{path.name}.") as folder:
        built.export_library(str(path), fcompile=link, workspace_dir=str(folder))


def tuned_library(path: Path) -> TvmLibrary:
    """Return a library of :func:`compile_tvm_build`, with its counts of tuned functions."""
    note = _note_of(path)
    if not note.exists():
        return TvmLibrary(path)
    counts = json_object(note.read_bytes())
    return TvmLibrary(path, functions=counts["functions"], tuned=counts["tuned"])


def _note_tuned(module: tvm.IRModule, path: Path) -> None:
    """Write beside a library the numbers of its functions and of those with database schedules."""
    functions = [f for f in module.functions.values() if isinstance(f, tvm.tirx.PrimFunc)]
    tuned = sum("tirx.is_scheduled" in (f.attrs or {}) for f in functions)
    counts = {"functions": len(functions), "tuned": tuned}
    write_atomically(_note_of(path), json.dumps(counts).encode())


def _note_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.tuned.json")


def _without_empty_constants(module: tvm.IRModule) -> tvm.IRModule:
    """Return the module with allocations in the place of constants without elements."""
    main = module["main"]
    body = tvm_ffi.structural_map(main.body, (GenericConst, allocated_if_empty))
    function = relax.Function(main.params, body, main.ret_ty, main.is_pure, main.attrs)
    return relax.transform.Normalize()(with_main(module, function))


def _long_joins_apart(module: tvm.IRModule) -> tvm.IRModule:
    """Return the module with concatenations of many tensors as functions that TVM does not fuse.

    Its passes recurse for each parameter of a function: thousands of them end the process.
    """
    calls = (b.value for block in module["main"].body.blocks for b in block.bindings)
    if not any(_joined(call) > _MANY for call in calls):
        return module
    lowered = relax.transform.LegalizeOps()(module)
    wide = {
        variable: function.with_attr("op_pattern", _OPAQUE)
        for variable, function in lowered.functions_items()
        if isinstance(function, tvm.tirx.PrimFunc) and len(function.params) > _MANY
    }
    return with_functions(lowered, {**dict(lowered.functions_items()), **wide})


def _joined(expression: Any) -> int:
    """Return the number of tensors that a concatenation joins; 0 for anything else."""
    is_concat = isinstance(expression, relax.Call) and expression.op == _CONCAT
    return len(getattr(expression.args[0], "fields", ())) if is_concat else 0


def _require_room(folder: Path, module: tvm.IRModule) -> None:
    """Require room on the disk for the library: LLVM ends the process if it cannot write."""
    constants: list[int] = []

    def add(constant: Any) -> None:
        constants.append(constant.value.numpy().nbytes)

    for function in module.functions.values():
        # Functions in TIR hold no weights, and Relax's visitor fails on them.
        if isinstance(function, relax.Function):
            relax.analysis.post_order_visit(
                function, lambda e: add(e) if isinstance(e, GenericConst) else None
            )
    # In an object file, in the library, and a little for the code of both.
    needed_bytes = 2 * sum(constants) + (64 << 20)
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < needed_bytes:
        raise UserError(
            f"TVM's own build of the model needs {needed_bytes >> 20} MB in {folder} and there are "
            f"{free_bytes >> 20}: free some, or name another folder in TMPDIR"
        )
