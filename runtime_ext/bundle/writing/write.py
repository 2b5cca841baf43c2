"""Write a bundle: everything that a search on another machine may need, compiled here."""

from __future__ import annotations

import json
import os
import platform
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import onnx
import tvm

from runtime_ext.bundle.contents import (
    MODEL,
    OPERATORS,
    PACKAGES,
    REFERENCE,
    RESULTS,
    TVM_LIBRARY,
    UNITS,
    BundleError,
    reference_arrays,
    require_replaceable,
    write_about,
)
from runtime_ext.bundle.sources import copy_runner
from runtime_ext.bundle.unit_forms import UnitForms
from runtime_ext.bundle.weights import save_weights
from runtime_ext.bundle.writing.kernels import write_kernels
from runtime_ext.bundle.writing.model import ModelToBundle
from runtime_ext.bundle.writing.reference import bundled_reference, reference_inputs
from runtime_ext.bundle.writing.tvm_build import compile_tvm_peer, gpu_compilers
from runtime_ext.execution.buffers import content_key
from runtime_ext.target_architecture import machine_of
from runtime_ext.tuning_log.use import LogUse
from tvm_ios.contest.outputs import Verify
from tvm_ios.files.array_files import Array, write_arrays
from tvm_ios.files.atomic import temporary_folder
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.ios.merge_candidates import merge_candidates
from tvm_ios.progress import Progress, silent

_RUN = '''"""Searches, verifies and measures this bundle's model here: ``python run.py --help``."""

import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER / "packages"))

from tvm_ios import interrupts  # noqa: E402

with interrupts.reported():
    from runtime_ext.bundle.runner import main

    sys.exit(main(FOLDER, sys.argv[1:]))
'''


@dataclass(frozen=True)
class BundleSummary:
    """Facts of a bundle that was written."""

    model: str
    path: Path
    units: int
    #: Number of kernels of all forms and merge candidates.
    kernels: int
    #: Merge candidates of different code in the bundle, and in the model.
    merges: int
    merge_candidates: int
    #: Number of co-scheduled stages of different code that were compiled ahead, for a GPU.
    fused: int
    #: Size of the folder.
    nbytes: int
    #: The oldest glibc that its libraries run with; empty if they need none.
    glibc: str
    #: Used part of the tuning log; None without one.
    tuned: LogUse | None
    #: The framework whose outputs the bundle has; None if programs are not compared.
    reference: str | None


def write_bundle(
    model: ModelToBundle,
    path: Path,
    *,
    policies: Sequence[str],
    max_merges: int = 300,
    max_fused: int = 12,
    reference: str | None = None,
    verify: Verify = Verify.onnx,
    with_tvm: bool = False,
    progress: Progress = silent,
) -> BundleSummary:
    """Compile the code that a search may ask for, and write a folder that runs the search.

    A bundle at ``path`` is replaced; nothing is measured. At most ``max_merges`` merge candidates
    are compiled, those of few and small units first, and for a GPU at most ``max_fused``
    co-scheduled stages (without a compiler a search can use only these). ``reference`` (``tvm`` or
    ``torch``) computes the reference outputs instead of the framework that ``verify`` names. Raise
    BundleError if the path is not a bundle, or TVM's own build (``with_tvm``) does not compute in
    this precision.
    """
    require_replaceable(path)
    if with_tvm:
        _require_tvm_build(model)
    graph, compiler = model.graph, model.backend.compiler
    forms, merges, merge_candidates = compile_forms(model, max_merges, progress)
    arrays: dict[str, Array] = {}
    constants = [
        [_add(arrays, value) for value in model.unit_constants(unit)] for unit in range(len(graph))
    ]
    constant_outputs = [
        [tensor, _add(arrays, value)] for tensor, value in model.constant_outputs.items()
    ]
    operator_constants = [
        [number, _add(arrays, value)] for number, value in model.constant_operands.items()
    ]
    drawn = dict(model.drawn)
    input_keys = reference_inputs(graph, model.precision, arrays, drawn)
    inputs = {name: arrays[key] for name, key in input_keys.items()}
    progress("computing the reference", 0, 1)
    compared = bundled_reference(model, inputs, verify, reference)
    progress("computing the reference", 1, 1)
    with temporary_folder(path.parent, f".{path.name}.") as room:
        folder = room / "new"
        folder.mkdir()
        units = {
            "graph": graph.to_json(),
            "parts": [[t, [p.of, p.axis, p.begin, p.end]] for t, p in model.parts.items()],
            "constants": constants,
            "constant_outputs": constant_outputs,
            **forms.to_json(),
        }
        operators = {"graph": model.operators.to_json(), "constants": operator_constants}
        (folder / UNITS).write_text(json.dumps(units))
        (folder / OPERATORS).write_text(json.dumps(operators))
        write_arrays(folder / REFERENCE, reference_arrays(compared))
        facts: dict[str, Any] = {"reference": compared.source}
        if with_tvm:
            progress("compiling TVM's own build", 0, 1)
            weights = compile_tvm_peer(model.module, compiler.target, folder / TVM_LIBRARY)
            progress("compiling TVM's own build", 1, 1)
            facts["tvm"] = [_add(arrays, weight) for weight in weights]
        if isinstance(model.original, onnx.ModelProto) and model.precision != "float16":
            (folder / MODEL).write_bytes(model.original.SerializeToString())
        draws = save_weights(folder, arrays, drawn)
        facts |= write_kernels(model, forms, folder, max_fused, progress)
        copy_runner(folder / PACKAGES)
        (folder / "run.py").write_text(_RUN)
        about = {
            "model": model.name,
            "target": str(compiler.target),
            "lanes": model.backend.device.lanes,
            "precision": model.precision,
            "versions": _versions(),
            "policies": list(policies),
            "limits": {
                "r": model.pruning.r,
                "s": model.pruning.s,
                "max_block": model.max_block,
            },
            "inputs": list(input_keys.items()),
            "outputs": list(zip(model.output_names, graph.outputs, strict=True)),
            "drawn": draws,
            **facts,
        }
        write_about(folder, about)
        _move(folder, path, room / "old")
    return BundleSummary(
        model=model.name,
        path=path,
        units=len(graph),
        kernels=len(forms.symbols),
        merges=merges,
        merge_candidates=merge_candidates,
        fused=facts.get("fused", 0),
        nbytes=sum(file.stat().st_size for file in path.rglob("*") if file.is_file()),
        glibc=str(facts.get("glibc", "")),
        tuned=compiler.log_use(),
        reference=compared.source,
    )


def _require_tvm_build(model: ModelToBundle) -> None:
    """Require that TVM's own build can be made of the model, or raise UserError."""
    if model.precision == "float16":
        raise BundleError(
            "TVM's own build computes in float32, not in float16: leave out --with-tvm"
        )
    if model.backend.executor == "cuda":
        gpu_compilers()
    elif (machine := machine_of(model.backend.compiler.target)) != platform.machine():
        raise BundleError(f"TVM's own build is not compiled for {machine}: leave out --with-tvm")


def _move(folder: Path, path: Path, aside: Path) -> None:
    """Replace an older bundle by a folder, and keep the results measured in the older one."""
    if path.exists():
        if (path / RESULTS).is_dir():
            shutil.copytree(path / RESULTS, folder / RESULTS)
        os.rename(path, aside)
    os.rename(folder, path)


def _add(arrays: dict[str, Array], array: Array) -> str:
    """Add an array by its content key, and return the key."""
    key = content_key(array)
    arrays.setdefault(key, array)
    return key


def _versions() -> dict[str, str]:
    return {
        "tvm": tvm.__version__,
        "apache-tvm-ffi": metadata.version("apache-tvm-ffi"),
        "numpy": metadata.version("numpy"),
    }


def compile_forms(
    model: ModelToBundle, max_merges: int, progress: Progress
) -> tuple[UnitForms, int, int]:
    """Compile the code that a search may use, with at most ``max_merges`` merge candidates.

    Candidates of few and small units come first. Return the code, the number of candidates of
    different code in it, and the number that there are.
    """
    graph, compiler = model.graph, model.backend.compiler
    merges = merge_candidates(graph, model.blocks, model.pruning)
    chosen = sorted(merges, key=lambda units: (len(units), _flops(graph, units)))[:max_merges]
    singles = [(unit,) for unit in range(len(graph))]
    pieces = [*singles, *(twin for candidate in chosen for twin in merges[candidate])]
    sources = {str(place): model.source(units) for place, units in enumerate(pieces)}
    forms = compiler.compile_forms(sources, lambda d, n: progress("compiling kernels", d, n))
    rkernels = compiler.compile_rkernels(
        {str(unit): sources[str(unit)] for (unit,) in singles},
        lambda d, n: progress("compiling rKernels", d, n),
    )
    # Some forms run only if a schedule names them, as a library's do.
    for unit in rkernels:
        rkernels[unit] |= {form.name: form for form in forms[unit] if form.name}
    code = UnitForms(
        {units: forms[str(place)] for place, units in enumerate(pieces)},
        {int(unit): by_name for unit, by_name in rkernels.items()},
    )
    return code, len(chosen), len(merges)


def _flops(graph: OpGraph, units: Sequence[int]) -> int:
    return sum(graph.operators[unit].flops for unit in units)
