"""What the streams of a stage wait for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.random_dags import dags, graph_of
from tvm_ios.graph.op_graph import bits
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.streams import stage_of_streams, synchronisations


def order_implied(
    launched: tuple[int, ...], groups: tuple[tuple[int, ...], ...], waits: set[tuple[int, int]]
) -> dict[int, set[int]]:
    """For each unit all that has ended when it begins, if only streams and waits order them."""
    ended: dict[int, set[int]] = {}
    for unit in launched:
        group = next(group for group in groups if unit in group)
        before = {group[group.index(unit) - 1]} if unit != group[0] else set()
        before |= {source for source, waiting in waits if waiting == unit}
        ended[unit] = before.union(*(ended[source] for source in before))
    return ended


@given(dags(7), st.data())
def test_the_waits_are_enough_and_none_can_be_left_out(
    predecessors: tuple[int, ...], data: st.DataObject
) -> None:
    graph = graph_of(predecessors)
    units = range(len(graph))
    stream_of = {unit: data.draw(st.integers(0, 3)) for unit in units}
    stage = stage_of_streams(units, stream_of)
    Schedule(graph.fingerprint, (stage,), "by hand").validate(graph)
    waits = {(s, unit) for unit, awaited in synchronisations(graph, stage).items() for s in awaited}

    def is_ordered(some: set[tuple[int, int]]) -> bool:
        ended = order_implied(stage.order, stage.groups, some)
        return all(set(bits(graph.predecessors[unit])) <= ended[unit] for unit in units)

    assert is_ordered(waits)
    assert all(stream_of[source] != stream_of[unit] for source, unit in waits)
    assert not any(is_ordered(waits - {wait}) for wait in waits)
