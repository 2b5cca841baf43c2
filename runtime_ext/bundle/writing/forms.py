"""Compile the units, rKernels and merge candidates that a search elsewhere may use."""

from __future__ import annotations

from collections.abc import Sequence

from runtime_ext.bundle.unit_forms import UnitForms
from runtime_ext.bundle.writing.model import ModelToBundle
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.ios.merge_candidates import merge_candidates
from tvm_ios.progress import Progress


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
