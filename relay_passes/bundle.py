"""Writing a bundle: everything that a search elsewhere may need, compiled here."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import tvm

from relay_passes.bundle_reference import reference_inputs, reference_outputs
from relay_passes.load import LoadedModel
from relay_passes.measured import MeasuredSearch
from relay_passes.merge_candidates import merge_candidates
from relay_passes.relax.redraw import redraw_weights
from relay_passes.tvm_peer import compile_tvm_peer, gpu_compilers
from runtime_ext.buffers import content_key
from runtime_ext.bundle.contents import (
    KERNELS,
    OPERATORS,
    REFERENCE,
    UNITS,
    BundleError,
    write_about,
)
from runtime_ext.bundle.rtasks import BundledRTasks
from runtime_ext.bundle.sources import copy_sources
from runtime_ext.bundle.tvm_peer import LIBRARY
from runtime_ext.bundle.unit_forms import UnitForms
from runtime_ext.bundle.weights import Draw, save_weights
from runtime_ext.cpu_features import required_features
from runtime_ext.cuda.co_schedule import co_scheduled
from runtime_ext.cuda.compiler import CudaKernelCompiler
from runtime_ext.cuda.fused_kernel import FusedKernel
from runtime_ext.cuda.rtask_function import RTaskFunction
from runtime_ext.cuda.rtask_times import estimated_rkernel
from runtime_ext.device import UnfusedError
from runtime_ext.log_use import LogUse
from runtime_ext.native_executor import native_library_path
from runtime_ext.scheduled_module import OUTPUT_NAMES
from tvm_ios.array_files import Array, write_arrays
from tvm_ios.files import make_folder, temporary_folder
from tvm_ios.graph import OpGraph
from tvm_ios.occupancy import Footprint
from tvm_ios.program import UnitCode
from tvm_ios.rkernel import RKernel
from tvm_ios.schedule import Stage
from tvm_ios.search.block import block_key, cut_into_blocks
from tvm_ios.search.promising import promising_stages
from tvm_ios.search.rammer import co_schedule

#: Of stages compiled ahead, at most.
_FUSED_BYTES = 4 << 20

Progress = Callable[[str, int, int], None]

_RUN = '''"""Searches, verifies and measures this bundle's model here: ``python run.py --help``."""

import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER / "packages"))

from runtime_ext.bundle.runner import main  # noqa: E402

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
    merges = _merges(search)
    chosen = sorted(merges, key=lambda units: (len(units), _flops(graph, units)))[:max_merges]
    forms = _compiled(search, [units for first in chosen for units in merges[first]], progress)
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
        facts |= _kernels(search, forms, folder, max_fused, progress)
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
        merges=len(chosen),
        merge_candidates=len(merges),
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


def _merges(search: MeasuredSearch) -> dict[tuple[int, ...], list[tuple[int, ...]]]:
    """Merge candidates of each different block, and where they are in its twins."""
    blocks = cut_into_blocks(search.graph, search.blocks)
    twins: dict[str, list[tuple[int, ...]]] = {}
    for block in blocks:
        twins.setdefault(str(block_key(search.graph, block)), []).append(block.units)
    found: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for units in merge_candidates(search):
        (equal,) = (same for same in twins.values() if set(units) <= set(same[0]))
        places = [equal[0].index(unit) for unit in units]
        found[units] = [tuple(twin[place] for place in places) for twin in equal]
    return found


def _flops(graph: OpGraph, units: Sequence[int]) -> int:
    return sum(graph.operators[unit].flops for unit in units)


def _compiled(
    search: MeasuredSearch, merged: Sequence[tuple[int, ...]], progress: Progress
) -> UnitForms:
    wanted = [*((unit,) for unit in range(len(search.graph))), *merged]
    sources = {str(place): search.source(units) for place, units in enumerate(wanted)}
    singles = {str(unit): sources[str(unit)] for unit in range(len(search.graph))}
    made = search.compiler.compile_forms(sources, lambda d, n: progress("compiling kernels", d, n))
    others = search.compiler.compile_rkernels(
        singles, lambda d, n: progress("compiling rKernels", d, n)
    )
    # A schedule names the form that calls a library as it does an rKernel.
    for unit, forms in made.items():
        for form in forms:
            if form.library and unit in others:
                others[unit][form.library] = form
    found = {units: made[str(place)] for place, units in enumerate(wanted)}
    return UnitForms(
        {
            units: tuple(f for f in forms if len(units) == 1 or not f.library)
            for units, forms in found.items()
        },
        {int(unit): forms for unit, forms in others.items()},
    )


def _kernels(
    search: MeasuredSearch, forms: UnitForms, folder: Path, max_fused: int, progress: Progress
) -> dict[str, Any]:
    """Write the kernels and what runs them; what a reader has to know of these."""
    if search.backend.executor == "cuda":
        return _cuda_kernels(search, forms, folder, max_fused, progress)
    kernels = folder / "kernels.so"
    search.compiler.export(kernels, forms.symbols)
    library = native_library_path()
    packages = folder / "packages" / "runtime_ext"
    packages.mkdir(parents=True)
    shutil.copyfile(library, packages / library.name)
    return {
        "kind": "cpu",
        "features": required_features(search.compiler.target),
        "glibc": _glibc(kernels, library),
    }


def _cuda_kernels(
    search: MeasuredSearch, forms: UnitForms, folder: Path, max_fused: int, progress: Progress
) -> dict[str, Any]:
    """The same for a GPU; kernels are there as rTasks too, and some stages of these."""
    compiler = search.compiler
    assert isinstance(compiler, CudaKernelCompiler)
    rtasks: dict[str, tuple[Footprint, RTaskFunction]] = {}
    for done, symbol in enumerate(forms.unit_symbols):
        progress("making rTasks", done, len(forms.unit_symbols))
        # What cannot be rTasks is refused when a stage of it is asked for.
        with suppress(UnfusedError):
            rtasks[symbol] = compiler.footprint(symbol), compiler.rtasks(symbol)
    progress("making rTasks", len(forms.unit_symbols), len(forms.unit_symbols))
    device, code = compiler.device, {u: made[-1].code for (u, *_), made in forms.alone.items()}
    chosen = promising_stages(search.graph, search.blocks, device, search.limits.pruning)
    fused: dict[str, FusedKernel] = {}
    stages: list[tuple[int, ...]] = []
    nbytes = 0
    for found in chosen:
        progress("compiling stages", len(fused), max_fused)
        if len(fused) >= max_fused or nbytes >= _FUSED_BYTES:
            break
        with suppress(UnfusedError):
            kernel = _fused(search, found.twins[0], code)
            if kernel.kernel.entry not in fused:
                nbytes += len(kernel.cubin)
            fused[kernel.kernel.entry] = kernel
            stages += [stage.units for stage in found.twins]
    progress("compiling stages", max_fused, max_fused)
    figures = {
        entry: (made.kernel.registers, made.kernel.local_bytes, made.kernel.static_shared_bytes)
        for entry, made in fused.items()
    }
    BundledRTasks(device, rtasks, figures, stages).save(folder)
    for entry, made in fused.items():
        compiler.add(entry, made.launchable)
    with temporary_folder() as room:
        compiler.export(room / "kernels", (*forms.symbols, *fused))
        # Machine code of GPUs shrinks to a fifth.
        packed = gzip.compress((room / "kernels").read_bytes(), mtime=0)
    (folder / KERNELS).write_bytes(packed)
    return {"kind": "cuda", "fused": len(fused)}


def _fused(search: MeasuredSearch, stage: Stage, code: Mapping[int, UnitCode]) -> FusedKernel:
    """A stage of the units' usual kernels, placed by estimates: the kernel serves any placement."""
    compiler, graph = search.compiler, search.graph
    assert isinstance(compiler, CudaKernelCompiler)
    device, fuser = compiler.device, compiler.fuser
    veus = fuser.execution_units(code[unit] for unit in stage.units)

    def estimated(unit: int) -> tuple[RKernel, ...]:
        flops = graph.operators[unit].flops
        of = code[unit]
        return (estimated_rkernel("default", of, compiler.blocks, flops, device, veus),)

    program = co_schedule(graph, stage.units, estimated, veus)
    placement, parts = program.placement, search.memory.parts
    made = co_scheduled(graph, stage, placement, code, compiler, device, parts).fused
    if made is None:
        raise UnfusedError("the units of the stage have nothing to launch")
    return made


def _tvm_peer(
    loaded: LoadedModel,
    search: MeasuredSearch,
    folder: Path,
    arrays: dict[str, Array],
    progress: Progress,
) -> list[str]:
    """Write TVM's own build; the keys of the weights that it takes."""
    progress("compiling TVM's own build", 0, 1)
    weights = compile_tvm_peer(loaded.module, search.compiler.target, folder / LIBRARY)
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


def _glibc(*libraries: Path) -> str:
    """The newest version of glibc whose symbols some libraries name."""
    found = {
        tuple(map(int, version.split(b".")))
        for library in libraries
        for version in re.findall(rb"GLIBC_([0-9]+\.[0-9]+)\x00", library.read_bytes())
    }
    return ".".join(map(str, max(found, default=())))
