"""What the definitions say, word by word and slowly."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import networkx as nx

from tvm_ios.graph.op_graph import bits


def is_down_set(predecessors: Sequence[int], mask: int) -> bool:
    return all(not predecessors[unit] & ~mask for unit in bits(mask))


def all_states(predecessors: Sequence[int]) -> set[int]:
    return {m for m in range(1 << len(predecessors)) if is_down_set(predecessors, m)}


def is_ending(predecessors: Sequence[int], state: int, ending: int) -> bool:
    """No edge leads from the ending to the rest of the state."""
    rest = state & ~ending
    return bool(ending) and all(not predecessors[unit] & ending for unit in bits(rest))


def groups_of(predecessors: Sequence[int], ending: int) -> tuple[tuple[int, ...], ...]:
    graph = nx.Graph()
    graph.add_nodes_from(bits(ending))
    graph.add_edges_from((p, u) for u in bits(ending) for p in bits(predecessors[u] & ending))
    return tuple(sorted(tuple(sorted(c)) for c in nx.connected_components(graph)))


def within(groups: tuple[tuple[int, ...], ...], r: int | None, s: int | None) -> bool:
    return (s is None or len(groups) <= s) and (r is None or max(map(len, groups)) <= r)


def all_endings(
    predecessors: Sequence[int], r: int | None = None, s: int | None = None
) -> dict[int, set[int]]:
    """For each state its endings within a pruning; the greedy stages always are."""
    waves = greedy_waves(predecessors)
    return {
        state: {
            ending
            for ending in range(1, state + 1)
            if not ending & ~state
            and is_ending(predecessors, state, ending)
            and (within(groups_of(predecessors, ending), r, s) or waves.get(state) == ending)
        }
        for state in all_states(predecessors)
    }


def greedy_waves(predecessors: Sequence[int]) -> dict[int, int]:
    """Of the states between the greedy stages the last of these."""
    waves: dict[int, int] = {}
    done = 0
    while done != (1 << len(predecessors)) - 1:
        ready = (u for u, p in enumerate(predecessors) if not done >> u & 1 and not p & ~done)
        wave = sum(1 << unit for unit in ready)
        done |= wave
        waves[done] = wave
    return waves


def all_schedules(endings: dict[int, set[int]], state: int) -> Iterator[tuple[int, ...]]:
    """Every sequence of stages, the last stage first."""
    if not state:
        yield ()
        return
    for ending in endings[state]:
        for rest in all_schedules(endings, state & ~ending):
            yield (ending, *rest)


def legal_stages(
    predecessors: Sequence[int], ending: int, mergeable: bool
) -> dict[str, tuple[tuple[int, ...], ...]]:
    """The strategies that an ending can be a stage of, with the stage's groups."""
    groups = groups_of(predecessors, ending)
    stages = {"concurrent": groups}
    if len(groups) > 1 and max(map(len, groups)) == 1 and mergeable:
        stages["merge"] = groups
    if ending.bit_count() > 1:
        inside = nx.DiGraph((p, u) for u in bits(ending) for p in bits(predecessors[u] & ending))
        inside.add_nodes_from(bits(ending))
        waves = [sorted(wave) for wave in nx.topological_generations(inside)]
        stages["co_schedule"] = (tuple(unit for wave in waves for unit in wave),)
    return stages


def best_cost(endings: dict[int, set[int]], state: int, cost: Callable[[int], float]) -> float:
    return min(sum(cost(stage) for stage in plan) for plan in all_schedules(endings, state))
