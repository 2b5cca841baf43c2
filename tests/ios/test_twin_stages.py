from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.fast_run import examples
from tests.random_dags import dags, graph_of
from tvm_ios.costs.stage_key import stage_key
from tvm_ios.ios.block_costs import TwinStages
from tvm_ios.ios.dynamic_program import Groups
from tvm_ios.ios.endings import enumerate_endings
from tvm_ios.schedule.stage import Strategy
from tvm_ios.schedule.waves import stage_of


@given(dags(6), st.sampled_from([Strategy.CONCURRENT, Strategy.CO_SCHEDULE]), st.data())
@examples(60)
def test_keys_and_twins_are_those_of_all_keys_made_one_by_one(
    predecessors: tuple[int, ...], chosen: Strategy, data: st.DataObject
) -> None:
    kinds = [data.draw(st.sampled_from(["conv2d", "pool"])) for _ in predecessors]
    graph = graph_of(predecessors, kinds)
    asked: list[Groups] = []

    def key_of(strategy: Strategy, groups: Groups) -> str:
        asked.append(groups)
        stage = stage_of(strategy, groups, predecessors)
        return stage_key(graph, stage, lambda g, u: g.operators[u].kind, "")

    groups = enumerate_endings(predecessors).groups
    stages = [(number, chosen, g) for number, g in enumerate(groups)]
    expected = [key_of(chosen, g) for g in groups]
    asked.clear()
    twins = TwinStages(stages, len(predecessors), key_of)
    for number in data.draw(st.permutations(range(len(stages)))):
        key = twins.key(number)
        assert key == expected[number]
        assert sorted(twins.numbers(key)) == [i for i, k in enumerate(expected) if k == key]
    # Each key once, and each unit's alone once more.
    assert len(asked) == len(stages) + len(predecessors)


def test_only_stages_that_may_share_a_key_get_one() -> None:
    asked: list[Groups] = []

    def key_of(strategy: Strategy, groups: Groups) -> str:
        asked.append(groups)
        return f"{strategy} {[[unit % 2 for unit in group] for group in groups]}"

    stages = [
        (0, Strategy.CONCURRENT, ((0,),)),
        (1, Strategy.CONCURRENT, ((2,),)),
        (2, Strategy.CONCURRENT, ((1,),)),
        (3, Strategy.CONCURRENT, ((0,), (1,))),
        (4, Strategy.MERGE, ((0,), (1,))),
        (5, Strategy.CONCURRENT, ((2,), (1,))),
    ]
    twins = TwinStages(stages, 3, key_of)
    assert sorted(twins.numbers(twins.key(3))) == [3, 5]
    assert asked == [((0,),), ((1,),), ((2,),), ((0,), (1,)), ((2,), (1,))]
