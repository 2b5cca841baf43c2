"""Writing a bundle: everything that a search elsewhere may need, compiled here."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import tvm

from relay_passes.load import LoadedModel
from relay_passes.measured import MeasuredSearch
from relay_passes.relax.redraw import redraw_weights
from runtime_ext.bundle.contents import (
    OPERATORS,
    REFERENCE,
    TVM_LIBRARY,
    UNITS,
    BundleError,
    write_about,
)
from runtime_ext.bundle.sources import copy_sources
from runtime_ext.bundle.weights import Draw, save_weights
from runtime_ext.execution.buffers import content_key
from runtime_ext.scheduled_module import OUTPUT_NAMES
from runtime_ext.tuning.log_use import LogUse
from tvm_ios.api.bundle.forms import compile_forms
from tvm_ios.api.bundle.kernels import write_kernels
from tvm_ios.api.bundle.reference import reference_inputs, reference_outputs
from tvm_ios.api.bundle.tvm_build import compile_tvm_peer, gpu_compilers
from tvm_ios.files.array_files import Array, write_arrays
from tvm_ios.files.atomic import make_folder, temporary_folder
from tvm_ios.progress import Progress

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
    """What a bundle came to.

    Attributes
    ----------
    model
        Its name.
    path
        The folder.
    units, kernels
        How many; kernels of all forms and merge candidates.
    merges, merge_candidates
        Merge candidates of different code that are in the bundle, and that there are.
    fused
        Co-scheduled stages of different code that were compiled ahead, for a GPU.
    nbytes
        Size of the folder.
    glibc
        The oldest glibc that its libraries run with; empty where they need none.
    tuned
        How much the tuning log has of the kernels; None without one.
    """

    model: str
    path: Path
    units: int
    kernels: int
    merges: int
    merge_candidates: int
    fused: int
    nbytes: int
    glibc: str
    tuned: LogUse | None


def redrawn(loaded: LoadedModel, seed: int) -> tuple[LoadedModel, dict[str, Draw]]:
    """The model with weights that can be drawn again; they need not travel."""
    module, drawn = redraw_weights(loaded.module, seed)
    return replace(loaded, module=module, onnx=None), drawn


def write_bundle(
    loaded: LoadedModel,
    search: MeasuredSearch,
    path: Path,
    *,
    policies: Sequence[str],
    drawn: Mapping[str, Draw],
    max_merges: int,
    max_fused: int,
    progress: Progress,
    reference: str = "tvm",
    with_tvm: bool = False,
) -> BundleSummary:
    """Compile what a search may ask for, and write a folder that runs it.

    Parameters
    ----------
    loaded
        The model.
    search
        Of it, for the target; nothing is measured.
    path
        The folder; a bundle there is replaced.
    policies
        What ``run.py`` tries unless told otherwise.
    drawn
        Constants that are drawn again.
    max_merges
        How many merge candidates, at most: those of few and small units first.
    max_fused
        For a GPU how many co-scheduled stages to compile ahead, at most: where there is no
        compiler, a search can use only these.
    progress
        Called with (what, done, total).
    reference
        Who computes what programs are compared with: ``tvm`` or ``torch``.
    with_tvm
        Whether TVM's own build is in it, as a peer.

    Raises
    ------
    BundleError
        If something else is there, or TVM's own build does not compute in this precision.
    """
    require_replaceable(path)
    if with_tvm and search.options.precision == "float16":
        raise BundleError(
            "TVM's own build computes in float32, not in float16: leave out --with-tvm"
        )
    if with_tvm and search.backend.executor == "cuda":
        # Before minutes of compiling.
        gpu_compilers()
    graph, outliner = search.graph, search.prepared.outliner
    forms, merges, merge_candidates = compile_forms(search, max_merges, progress)
    arrays: dict[str, Array] = {}
    constants = [
        [_kept(arrays, c.value.numpy()) for c in outliner.unit(unit).constants]
        for unit in range(len(graph))
    ]
    operators = _operators(search, arrays)
    precision = search.options.precision or "float32"
    drawn = dict(drawn)
    given = reference_inputs(graph, precision, arrays, drawn)
    values = {name: arrays[key] for name, key in given.items()}
    progress("computing the reference", 0, 1)
    outputs = reference_outputs(loaded, search, values, reference)
    progress("computing the reference", 1, 1)
    with temporary_folder(path.parent, f".{path.name}.") as room:
        folder = room / "new"
        folder.mkdir()
        units = {
            "graph": graph.to_json(),
            "parts": [[t, [p.of, p.axis, p.begin, p.end]] for t, p in search.memory.parts.items()],
            "constants": constants,
            **forms.to_json(),
        }
        (folder / UNITS).write_text(json.dumps(units))
        (folder / OPERATORS).write_text(json.dumps(operators))
        write_arrays(folder / REFERENCE, {f"output/{n}": v for n, v in enumerate(outputs)})
        facts: dict[str, Any] = {"reference": reference}
        if with_tvm:
            facts["tvm"] = _tvm_peer(loaded, search, folder, arrays, progress)
        draws = save_weights(folder, arrays, drawn)
        facts |= write_kernels(search, forms, folder, max_fused, progress)
        copy_sources("runtime_ext.bundle.runner", folder / "packages")
        (folder / "run.py").write_text(_RUN)
        limits = search.limits
        about = {
            "model": loaded.name,
            "target": str(search.compiler.target),
            "lanes": search.timer.lanes,
            "precision": precision,
            "versions": _versions(),
            "policies": list(policies),
            "limits": {
                "r": limits.pruning.r,
                "s": limits.pruning.s,
                "max_block": limits.max_block,
            },
            "inputs": list(given.items()),
            "outputs": list(zip(_output_names(search), graph.outputs, strict=True)),
            "drawn": draws,
            **facts,
        }
        write_about(folder, about)
        _move(folder, path, room / "old")
    return BundleSummary(
        model=loaded.name,
        path=path,
        units=len(graph),
        kernels=len(forms.symbols),
        merges=merges,
        merge_candidates=merge_candidates,
        fused=facts.pop("fused", 0),
        nbytes=sum(file.stat().st_size for file in path.rglob("*") if file.is_file()),
        glibc=str(facts.get("glibc", "")),
        tuned=search.compiler.log_use(),
    )


def require_replaceable(path: Path) -> None:
    """Refuse to write over what is no bundle.

    Raises
    ------
    BundleError
        If something else is there.
    """
    make_folder(path.parent)
    if path.exists() and (not path.is_dir() or (any(path.iterdir()) and not _is_bundle(path))):
        raise BundleError(f"{path} exists and is not a bundle; choose another name")


def _is_bundle(path: Path) -> bool:
    return (path / "bundle.json").is_file() and (path / "run.py").is_file()


def _move(folder: Path, path: Path, aside: Path) -> None:
    """Put a folder where an older bundle may be; results that were measured there stay."""
    if path.exists():
        if (path / "results").is_dir():
            shutil.copytree(path / "results", folder / "results")
        os.rename(path, aside)
    os.rename(folder, path)


def _tvm_peer(
    loaded: LoadedModel,
    search: MeasuredSearch,
    folder: Path,
    arrays: dict[str, Array],
    progress: Progress,
) -> list[str]:
    """Write TVM's own build; the keys of the weights that it takes."""
    progress("compiling TVM's own build", 0, 1)
    weights = compile_tvm_peer(loaded.module, search.compiler.target, folder / TVM_LIBRARY)
    progress("compiling TVM's own build", 1, 1)
    return [_kept(arrays, weight) for weight in weights]


def _kept(arrays: dict[str, Array], array: Array) -> str:
    key = content_key(array)
    arrays.setdefault(key, array)
    return key


def _operators(search: MeasuredSearch, arrays: dict[str, Array]) -> dict[str, Any]:
    """The graph of operators with its constants, for runners of other frameworks."""
    extraction = search.prepared.outliner.extraction
    constants = [
        [number, _kept(arrays, extraction.values[number].value.numpy())]
        for number, tensor in enumerate(extraction.graph.tensors)
        if tensor.constant
    ]
    return {"graph": extraction.graph.to_json(), "constants": constants}


def _output_names(search: MeasuredSearch) -> list[str]:
    attributes = dict(search.prepared.module.attrs.items()) if search.prepared.module.attrs else {}
    known = json.loads(str(attributes.get(OUTPUT_NAMES, "[]")))
    count = len(search.graph.outputs)
    return [*known[:count], *(f"output{place}" for place in range(len(known), count))]


def _versions() -> dict[str, str]:
    return {
        "tvm": tvm.__version__,
        "apache-tvm-ffi": metadata.version("apache-tvm-ffi"),
        "numpy": metadata.version("numpy"),
    }
