"""The code that a search elsewhere may ask for: units, their rKernels, and what may be merged."""

from __future__ import annotations

from collections.abc import Sequence

from relay_passes.merge_candidates import merge_candidates

from relay_passes.measured import MeasuredSearch
from runtime_ext.bundle.unit_forms import UnitForms
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.ios.block import block_key, cut_into_blocks
from tvm_ios.progress import Progress


def compile_forms(
    search: MeasuredSearch, max_merges: int, progress: Progress
) -> tuple[UnitForms, int, int]:
    """Compile what a search may put into a program.

    Parameters
    ----------
    search
        Of the model, for the target.
    max_merges
        How many merge candidates, at most: those of few and small units first.
    progress
        Called with (what, done, total).

    Returns
    -------
    UnitForms, int, int
        The code; how many merge candidates of different code are in it, and how many there are.
    """
    graph, merges = search.graph, _merges(search)
    chosen = sorted(merges, key=lambda units: (len(units), _flops(graph, units)))[:max_merges]
    merged = [units for first in chosen for units in merges[first]]
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
    code = UnitForms(found, {int(unit): forms for unit, forms in others.items()})
    return code, len(chosen), len(merges)


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
