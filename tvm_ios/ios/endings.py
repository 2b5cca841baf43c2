"""Every ending of every state of a graph, within a pruning; or, in no time, those of one order."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from tvm_ios.errors import SearchError
from tvm_ios.graph.down_sets import Masks, down_sets, word_type
from tvm_ios.graph.op_graph import bits, mask_of, successors_of
from tvm_ios.ios.ending_space import (
    UNPRUNED,
    EndingSpace,
    Integers,
    Pruning,
    ending_space,
    groups_of,
)
from tvm_ios.ios.pieces import connected_pieces

#: Some forty bytes each while they are sorted: beyond this a search would take gigabytes.
_MOST_TRANSITIONS = 50_000_000
#: States handled together; small enough that their endings stay in the cache.
_CHUNK = 512


class OutOfTimeError(Exception):
    """A search space is too large for the time that is left."""


def enumerate_endings(
    predecessors: Sequence[int], pruning: Pruning = UNPRUNED, until: float = math.inf
) -> EndingSpace:
    """Enumerate the states of a graph and, of each state, the endings within a pruning.

    Parameters
    ----------
    predecessors
        For each unit the bit set of the units it reads from, in topological order.
    pruning
        Limits on the groups; both limits None means every ending.
    until
        When to give up, by :func:`time.perf_counter`.

    Raises
    ------
    SearchError
        If the numbering is not topological, or there are too many states or transitions.
    OutOfTimeError
        If it took too long.
    """
    require_time(until)
    states = down_sets(predecessors)
    pieces = None if pruning.r is None else connected_pieces(predecessors, pruning.r)
    if pieces is None:
        all_endings, of_state = _from_nested_states(predecessors, states, pruning, until)
    else:
        all_endings, of_state = _from_pieces(predecessors, states, pieces, pruning, until)
    endings, ending = np.unique(all_endings, return_inverse=True)
    del all_endings
    return ending_space(predecessors, states, endings, ending, of_state, complete=True)


def enumerate_runs(predecessors: Sequence[int], pruning: Pruning = UNPRUNED) -> EndingSpace:
    """Enumerate the endings of one order: runs of units that can run side by side.

    The order is that of waves, each of all units that can run after the one before. This small
    part of all endings holds one schedule unit by unit, and the greedy one as far as the pruning
    has it.

    Parameters
    ----------
    predecessors, pruning
        As in :func:`enumerate_endings`.
    """
    states, endings, of_state = [0], list[int](), list[int]()
    while states[-1] != (1 << len(predecessors)) - 1:
        begin = len(states) - 1
        done = states[begin]
        wave = [u for u, needs in enumerate(predecessors) if not (done >> u & 1 or needs & ~done)]
        for unit in wave:
            states.append(states[-1] | 1 << unit)
            shortest = max(begin, len(states) - 1 - (pruning.s or len(wave)))
            endings += [states[-1] ^ states[i] for i in range(shortest, len(states) - 1)]
            of_state += [len(states) - 1] * (len(states) - 1 - shortest)
    word = word_type(len(predecessors))
    distinct, ending = np.unique(np.array(endings, word), return_inverse=True)
    owner = np.array(of_state, np.int64)
    states = np.array(states, word)
    return ending_space(predecessors, states, distinct, ending, owner, complete=False)


def endings_until(predecessors: Sequence[int], pruning: Pruning, until: float) -> EndingSpace:
    """All endings, or those of one order if time is up before, by :func:`time.perf_counter`."""
    try:
        return enumerate_endings(predecessors, pruning, until)
    except OutOfTimeError:
        return enumerate_runs(predecessors, pruning)


def require_time(until: float) -> None:
    """Raise :class:`OutOfTimeError` after a moment, by :func:`time.perf_counter`."""
    if time.perf_counter() > until:
        raise OutOfTimeError


def _from_pieces(
    predecessors: Sequence[int],
    states: Masks,
    pieces: Sequence[int],
    pruning: Pruning,
    until: float,
) -> tuple[Masks, Integers]:
    """Build endings as unions of small connected ones; cheap when few pieces exist.

    Two disjoint connected endings of one state are never joined by an edge: its head would be
    a successor, inside the state, of the first, and so belong to the first.
    """
    successors = successors_of(predecessors)
    closures = [p | mask_of(i for u in bits(p) for i in bits(successors[u])) for p in pieces]
    most = len(predecessors) if pruning.s is None else pruning.s
    endings: list[Masks] = []
    of_state: list[Integers] = []
    total = 0
    for begin in range(0, len(states), _CHUNK):
        require_time(until)
        chunk = states[begin : begin + _CHUNK]
        owner = np.arange(len(chunk))
        union: Masks = np.zeros_like(chunk)
        count = np.zeros(len(chunk), np.int16)
        for piece, closure in zip(pieces, closures, strict=True):
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
    """Take the difference of every two nested states; needed when groups may be large."""
    all_endings: list[Masks] = []
    of_state: list[Integers] = []
    total = 0
    for begin in range(0, len(states), _CHUNK):
        require_time(until)
        chunk = states[begin : begin + _CHUNK]
        parts = [state ^ _below(states, state) for state in chunk]
        endings = np.concatenate(parts)
        owner = np.repeat(np.arange(begin, begin + len(chunk)), [len(part) for part in parts])
        if pruning != UNPRUNED:
            distinct, index = np.unique(endings, return_inverse=True)
            _, _, count, largest = groups_of(predecessors, distinct)
            legal = np.ones(len(distinct), np.bool_)
            legal &= count <= (pruning.s or len(predecessors))
            legal &= largest <= (pruning.r or len(predecessors))
            endings, owner = endings[legal[index]], owner[legal[index]]
        all_endings.append(endings)
        of_state.append(owner)
        total = _counted(total + len(endings))
    return np.concatenate(all_endings), np.concatenate(of_state)


def _below(states: Masks, state: Any) -> Masks:
    """Every state that is a proper subset of a state."""
    below = states[(states & ~state) == 0]
    return below[:-1]


def _counted(transitions: int) -> int:
    if transitions > _MOST_TRANSITIONS:
        raise SearchError(
            f"a block has more than {_MOST_TRANSITIONS} transitions: "
            "give a smaller r or s, or cut the model into smaller blocks"
        )
    return transitions
