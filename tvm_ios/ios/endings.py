"""Enumeration of every ending of every state of a graph, or quickly, of those of one order."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from tvm_ios.errors import SearchError
from tvm_ios.graph.branch_symmetry import BranchPair, BranchSymmetry, representative_down_sets
from tvm_ios.graph.down_sets import MOST_STATES, Masks, down_sets, positions, word_type
from tvm_ios.graph.op_graph import bits, mask_of, successors_of
from tvm_ios.ios.ending_space import (
    UNPRUNED,
    EndingSpace,
    Integers,
    Pruning,
    ending_space,
    group_sizes,
    parts_of,
)
from tvm_ios.ios.pieces import connected_pieces
from tvm_ios.schedule.waves import waves

#: Each transition takes some forty bytes while sorting: more would take gigabytes.
_MOST_TRANSITIONS = 50_000_000
#: States handled together; small enough that their endings stay in the cache.
_CHUNK = 512
#: Fewer where branches are equal: such states have many endings each.
_CHUNK_OF_EQUALS = 64


class OutOfTimeError(Exception):
    """Raised when the enumeration of a search space takes longer than the time left."""


def enumerate_endings(
    predecessors: Sequence[int],
    pruning: Pruning = UNPRUNED,
    until: float = math.inf,
    symmetry: BranchSymmetry | None = None,
) -> EndingSpace:
    """Enumerate the states of a graph and, of each state, the endings within a pruning.

    ``predecessors`` are bit sets in topological order. ``until`` is when to give up, by
    :func:`time.perf_counter`. Raise SearchError if the order is not topological or there are too
    many states or transitions, OutOfTimeError if it takes too long.

    With a symmetry one state stands for all that differ from it only by which of several equal
    branches they hold, and one ending of it for all that permutations turn into it which leave the
    state as it is. That is exact if a stage takes as long as the stages that it is turned into. For
    let a permutation of equal branches turn the state S into S'. It turns the schedules of S into
    those of S', stage by stage, as it keeps edges; stages take as long as before, so the least cost
    of S is that of S'. And where it leaves S as it is, it turns the best schedules that end with E
    into the best ones that end with what it turns E into: one of these will do.
    """
    require_time(until)
    pieces = None if pruning.r is None else connected_pieces(predecessors, pruning.r)
    if symmetry is None:
        states = down_sets(predecessors)
    else:
        states = representative_down_sets(predecessors, symmetry, MOST_STATES)
    if pieces is not None:
        leaving, of_state = _from_pieces(predecessors, states, pieces, pruning, until, symmetry)
    elif symmetry is None:
        leaving, of_state = _from_nested_states(predecessors, states, pruning, until)
    else:
        leaving, of_state = _by_peeling(predecessors, states, pruning, until, symmetry)
    leaving, of_state = _with_waves(predecessors, states, pruning, leaving, of_state)
    return ending_space(predecessors, states, leaving, of_state, complete=True, symmetry=symmetry)


def _with_waves(
    predecessors: Sequence[int], states: Masks, pruning: Pruning, leaving: Masks, of_state: Integers
) -> tuple[Masks, Integers]:
    """Add the waves that the pruning excludes because they have too many groups."""
    fringes = waves(predecessors, range(len(predecessors)))
    done = 0
    for fringe in fringes:
        wave = mask_of(fringe)
        done |= wave
        if pruning.s is not None and len(fringe) > pruning.s:
            state = int(positions(states, np.array([done], states.dtype))[0])
            place = np.searchsorted(of_state, state, side="right")
            leaving = np.insert(leaving, place, np.array([wave], states.dtype))
            of_state = np.insert(of_state, place, state)
    return leaving, of_state


def enumerate_runs(predecessors: Sequence[int], pruning: Pruning = UNPRUNED) -> EndingSpace:
    """Enumerate the endings of one order: runs of units that can run side by side.

    The order is that of waves, each of all units that can run after the one before. This small part
    of all endings contains one sequential schedule, and the greedy one.
    """
    states, endings, of_state = [0], list[int](), list[int]()
    while states[-1] != (1 << len(predecessors)) - 1:
        begin = len(states) - 1
        done = states[begin]
        wave = [u for u, needs in enumerate(predecessors) if not (done >> u & 1 or needs & ~done)]
        for unit in wave:
            states.append(states[-1] | 1 << unit)
            shortest = max(begin, len(states) - 1 - (pruning.s or len(wave)))
            last = unit == wave[-1] and shortest > begin
            befores = [*([begin] if last else []), *range(shortest, len(states) - 1)]
            endings += [states[-1] ^ states[before] for before in befores]
            of_state += [len(states) - 1] * len(befores)
    word = word_type(len(predecessors))
    return ending_space(
        predecessors,
        np.array(states, word),
        np.array(endings, word),
        np.array(of_state, np.int64),
        complete=False,
    )


def endings_until(predecessors: Sequence[int], pruning: Pruning, until: float) -> EndingSpace:
    """Return all endings, or those of one order if the time, by perf_counter, is up before."""
    try:
        return enumerate_endings(predecessors, pruning, until)
    except OutOfTimeError:
        return enumerate_runs(predecessors, pruning)


def require_time(until: float) -> None:
    """Raise :class:`OutOfTimeError` if :func:`time.perf_counter` is past a time."""
    if time.perf_counter() > until:
        raise OutOfTimeError


def _from_pieces(
    predecessors: Sequence[int],
    states: Masks,
    pieces: Sequence[int],
    pruning: Pruning,
    until: float,
    symmetry: BranchSymmetry | None,
) -> tuple[Masks, Integers]:
    """Build endings as unions of small connected ones; fast when few pieces exist.

    Two disjoint connected endings of one state are never joined by an edge: its head would be a
    successor, inside the state, of the first, and so belong to the first.

    Where branches are equal, the pieces of one branch follow those of the one before: once the
    parts of an ending in both are known, it is dropped unless it represents the others.
    """
    successors = successors_of(predecessors)
    closures = {p: p | mask_of(i for u in bits(p) for i in bits(successors[u])) for p in pieces}
    steps = list(pieces) if symmetry is None else symmetry.ordered(pieces)
    together = _CHUNK if symmetry is None else _CHUNK_OF_EQUALS
    most = len(predecessors) if pruning.s is None else pruning.s
    endings: list[Masks] = []
    of_state: list[Integers] = []
    total = 0
    for begin in range(0, len(states), together):
        require_time(until)
        chunk = states[begin : begin + together]
        owner = np.arange(len(chunk))
        union: Masks = np.zeros_like(chunk)
        count = np.zeros(len(chunk), np.int16)
        for piece in steps:
            if isinstance(piece, BranchPair):
                left = chunk[owner]
                sorted_yet = piece.is_sorted(left, left ^ union)
                owner, union, count = owner[sorted_yet], union[sorted_yet], count[sorted_yet]
                continue
            closure = closures[piece]
            ends = (chunk & closure) == piece
            if not ends.any():
                continue
            fits = np.flatnonzero(ends[owner] & ((union & piece) == 0) & (count < most))
            owner = np.concatenate([owner, owner[fits]])
            union = np.concatenate([union, union[fits] | piece])
            count = np.concatenate([count, count[fits] + 1])
        order = len(chunk) + np.argsort(owner[len(chunk) :], kind="stable")
        endings.append(union[order])
        of_state.append(owner[order] + begin)
        total = _counted(total + len(order))
    return np.concatenate(endings), np.concatenate(of_state)


def _from_nested_states(
    predecessors: Sequence[int], states: Masks, pruning: Pruning, until: float
) -> tuple[Masks, Integers]:
    """Build endings as differences of nested states; needed when groups may be large."""
    all_endings: list[Masks] = []
    of_state: list[Integers] = []
    total = 0
    for begin in range(0, len(states), _CHUNK):
        require_time(until)
        chunk = states[begin : begin + _CHUNK]
        parts = [state ^ _below(states, state) for state in chunk]
        endings = np.concatenate(parts)
        owner = np.repeat(np.arange(begin, begin + len(chunk)), [len(part) for part in parts])
        legal = _within(predecessors, endings, pruning)
        endings, owner = endings[legal], owner[legal]
        all_endings.append(endings)
        of_state.append(owner)
        total = _counted(total + len(endings))
    return np.concatenate(all_endings), np.concatenate(of_state)


def _by_peeling(
    predecessors: Sequence[int],
    states: Masks,
    pruning: Pruning,
    until: float,
    symmetry: BranchSymmetry,
) -> tuple[Masks, Integers]:
    """Remove units one by one from representative states, and keep one of equal remainders."""
    successors = successors_of(predecessors)
    all_leaving: list[Masks] = []
    of_state: list[Integers] = []
    total = 0
    for begin in range(0, len(states), _CHUNK):
        require_time(until)
        owner = np.arange(begin, min(begin + _CHUNK, len(states)))
        left = states[owner]
        found: list[tuple[Masks, Integers]] = []
        while len(owner):
            grown: list[tuple[Masks, Integers]] = []
            for unit, readers in enumerate(successors):
                last = ((left & (1 << unit)) != 0) & ((left & readers) == 0)
                grown.append((left[last] ^ (1 << unit), owner[last]))
            left, owner = (np.concatenate(parts) for parts in zip(*grown, strict=True))
            left = symmetry.representatives_within(states[owner], left)
            order = np.lexsort((left, owner))
            left, owner = left[order], owner[order]
            new = np.ones(len(left), np.bool_)
            new[1:] = (left[1:] != left[:-1]) | (owner[1:] != owner[:-1])
            left, owner = left[new], owner[new]
            found.append((left, owner))
        left, owner = (np.concatenate(parts) for parts in zip(*found, strict=True))
        order = np.argsort(owner, kind="stable")
        leaving, owner = states[owner[order]] ^ left[order], owner[order]
        legal = _within(predecessors, leaving, pruning)
        all_leaving.append(leaving[legal])
        of_state.append(owner[legal])
        total = _counted(total + len(all_leaving[-1]))
    return np.concatenate(all_leaving), np.concatenate(of_state)


def _within(predecessors: Sequence[int], endings: Masks, pruning: Pruning) -> Masks:
    """Return for each ending whether it is within a pruning."""
    if pruning == UNPRUNED:
        return np.ones(len(endings), np.bool_)
    distinct, index = np.unique(endings, return_inverse=True)
    count, largest = group_sizes(distinct, *parts_of(predecessors, distinct))
    legal = count <= (pruning.s or len(predecessors))
    legal &= largest <= (pruning.r or len(predecessors))
    return legal[index]


def _below(states: Masks, state: Any) -> Masks:
    """Return the proper subsets of a state among sorted bit masks that contain it."""
    below = states[(states & ~state) == 0]
    return below[:-1]


def _counted(transitions: int) -> int:
    if transitions > _MOST_TRANSITIONS:
        raise SearchError(
            f"a block has more than {_MOST_TRANSITIONS} transitions: "
            "give a smaller r or s, or cut the model into smaller blocks"
        )
    return transitions
