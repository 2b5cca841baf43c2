"""Offsets by constraint programming (OR-Tools' CP-SAT), where best-fit is not proven optimal.

Buffers that may share no byte are intervals of bytes that must not overlap. Pairs of them are
grouped into cliques, so that the solver knows that the sizes of each clique add up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tvm_ios.files.array_files import Array
from tvm_ios.program.program import ALIGNMENT
from tvm_ios.solvers.cp_sat import solve_by_cp_sat

#: With more conflicts than this the solver finds nothing in some seconds that best-fit does not.
_MOST_CONFLICTS = 30_000


def solve(
    sizes: Array, conflicts: Sequence[Array], start: Array, bound: int, limit: float
) -> tuple[Array, bool]:
    """Improve offsets until proven optimal or a limit is reached; return them and whether proven.

    ``sizes`` are bytes, multiples of 64; ``conflicts[b]`` are the buffers that may share no byte
    with b; ``bound`` is a lower bound of the arena. ``limit`` is the solver's deterministic time,
    about seconds, so that the same program gives the same plan on every machine.
    """
    if sum(map(len, conflicts)) > 2 * _MOST_CONFLICTS:
        return start, False
    # It takes a moment to import, and most plans need no solver.
    from ortools.sat.python import cp_model

    # In units of the alignment.
    length = (sizes // ALIGNMENT).tolist()
    total = int((start + sizes).max()) // ALIGNMENT
    first = (start // ALIGNMENT).tolist()
    model = cp_model.CpModel()
    top = model.new_int_var(bound // ALIGNMENT, total, "top")
    offsets = [model.new_int_var(0, total - size, f"{i}") for i, size in enumerate(length)]
    intervals = [
        model.new_fixed_size_interval_var(offset, size, f"bytes {i}")
        for i, (offset, size) in enumerate(zip(offsets, length, strict=True))
    ]
    for offset, size in zip(offsets, length, strict=True):
        model.add(offset + size <= top)
    for clique in _cliques(conflicts):
        model.add_no_overlap([intervals[buffer] for buffer in clique])
    # A plan turned upside down is one too: the largest buffer lies in the lower half.
    largest = int(np.argmax(sizes))
    model.add(2 * offsets[largest] + length[largest] <= top)
    if 2 * first[largest] + length[largest] > total:
        first = [total - offset - size for offset, size in zip(first, length, strict=True)]
    for offset, value in zip(offsets, first, strict=True):
        model.add_hint(offset, value)
    model.add_hint(top, total)
    model.minimize(top)
    solved = solve_by_cp_sat(model, "max_deterministic_time", limit)
    if solved is None:
        return start, False
    solver, proven = solved
    solution = [solver.value(offset) * ALIGNMENT for offset in offsets]
    return np.asarray(solution, np.int64), proven


def _cliques(conflicts: Sequence[Array]) -> Iterator[list[int]]:
    """Yield cliques of the conflict graph that together cover every conflict."""
    near = [sum(1 << int(other) for other in others) for others in conflicts]
    #: For each buffer the later ones that share no clique with it yet.
    open_pairs = [others >> n + 1 << n + 1 for n, others in enumerate(near)]
    for buffer in range(len(near)):
        while open_pairs[buffer]:
            clique, common = [buffer], near[buffer]
            while common:
                # Rather with what is open still than with what other cliques have.
                preferred = common & open_pairs[buffer] or common
                added = (preferred & -preferred).bit_length() - 1
                common &= near[added]
                clique.append(added)
            mask = sum(1 << member for member in clique)
            for member in clique:
                open_pairs[member] &= ~mask
            yield clique
