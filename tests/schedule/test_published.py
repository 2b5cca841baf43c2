"""Schedules of IOS's published implementation for our units."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fast_run import examples
from tests.schedule.published_files import classified, inception_block_model, published_file
from tvm_ios.graph.merge_rule import mergeable
from tvm_ios.graph.op_graph import OpGraph, bits
from tvm_ios.graph.units import form_units
from tvm_ios.onnx.graph import graph_from_onnx
from tvm_ios.schedule.published.imported import PublishedFile, read_schedule, schedule_of_text
from tvm_ios.schedule.schedule import Schedule, ScheduleError
from tvm_ios.schedule.stage import Stage, Strategy
from tvm_ios.zoo.writing.network import Feature, ImageNetwork

CONCURRENT, MERGE = Strategy.CONCURRENT, Strategy.MERGE


@dataclass(frozen=True)
class Network:
    """Units, of which the last is a classifier that published schedules lack."""

    units: OpGraph

    def unit(self, name: str) -> int:
        return next(n for n, op in enumerate(self.units.operators) if op.name == name)

    def file(self, stages: Sequence[Stage]) -> dict[str, Any]:
        return published_file(self.units, stages, len(self.units) - 1)

    def import_(self, data: dict[str, Any]) -> Schedule:
        given = PublishedFile("it.json", data).fitted(self.units)
        assert given.added == (len(self.units) - 1,)
        return given.schedule


def network(net: ImageNetwork, x: Feature) -> Network:
    return Network(form_units(graph_from_onnx(classified(net, x))))


def inception_block() -> Network:
    return Network(form_units(graph_from_onnx(inception_block_model())))


@st.composite
def scheduled_networks(draw: st.DrawFn) -> tuple[Network, tuple[Stage, ...]]:
    """A network in which no two units are equal, and a schedule of it."""
    chance = random.Random(draw(st.integers(0, 1 << 32)))
    net = ImageNetwork("random", 0, (3, 8, 8))
    features, unread = [net.relu(net.conv(net.input, 4, 1))], set[int]()
    for number in range(draw(st.integers(2, 7))):
        source = chance.randrange(len(features))
        kernel = chance.choice([1, 3, (1, 3), (3, 1)])
        features.append(net.relu(net.conv(features[source], 5 + number, kernel)))
        unread = (unread | {len(features) - 1}) - {source}
    ends = [features[number] for number in sorted(unread)]
    found = network(net, net.concat(ends) if len(ends) > 1 else ends[0])
    return found, tuple(random_stages(found.units, chance))


def random_stages(units: OpGraph, chance: random.Random) -> list[Stage]:
    """Stages of merged units, and of groups that are chains."""
    stages: list[Stage] = []
    done, everything = 0, units.all_operators
    while done != everything:
        ready = [u for u in bits(everything & ~done) if not units.predecessors[u] & ~done]
        chance.shuffle(ready)
        chosen = sorted(ready[: chance.randint(1, len(ready))])
        if len(chosen) > 1 and mergeable(units, chosen):
            stages.append(Stage(MERGE, tuple((unit,) for unit in chosen)))
        else:
            stages.append(Stage(CONCURRENT, tuple((unit,) for unit in chosen)))
            if len(chosen) == 1:
                after = [
                    u
                    for u in bits(units.successors[chosen[0]])
                    if units.predecessors[u] & ~done == 1 << chosen[0]
                ]
                stages[-1] = Stage(CONCURRENT, ((chosen[0], *after[:1]),))
        done |= stages[-1].mask
    return stages


@given(scheduled_networks())
@examples(40)
def test_what_is_written_is_read(scheduled: tuple[Network, tuple[Stage, ...]]) -> None:
    found, stages = scheduled
    read = found.import_(found.file(stages))
    classifier = len(found.units) - 1
    # What the file lacks goes by itself to the end.
    kept = [tuple(tuple(u for u in g if u != classifier) for g in s.groups) for s in stages]
    kept = [tuple(group for group in groups if group) for groups in kept]
    assert [stage.groups for stage in read.stages] == [g for g in kept if g] + [((classifier,),)]
    of_others = [s.strategy for s in stages if s.groups != ((classifier,),)]
    assert [stage.strategy for stage in read.stages[:-1]] == of_others
    assert read.policy == "random_dp_parallel_merge"


def test_branches_that_begin_alike_are_told_by_what_follows() -> None:
    block = inception_block()
    first, wide, high = (block.unit(name) for name in ("conv", "wide/conv", "high/conv"))
    merged = Stage(MERGE, ((wide,), (high,), (block.unit("split/conv"),)))
    windows = Stage(MERGE, tuple((block.unit(f"split/conv_{n}"),) for n in (1, 2)))
    pooled = (block.unit("pooled/max_pool"), block.unit("pooled/conv"))
    ends = ((block.unit("wide/conv_1"),), (block.unit("high/conv_1"),), pooled)
    join = len(block.units) - 3
    stages = [
        Stage(CONCURRENT, ((first,),)),
        merged,
        windows,
        Stage(CONCURRENT, ends),
        *(Stage(CONCURRENT, ((unit,),)) for unit in range(join, len(block.units))),
    ]
    data = block.file(stages)
    hints = [node["hint_name"] for node in data["blocks"][0]["inner_nodes"]]
    assert f"n{wide} n{high} n{block.unit('split/conv')}" in hints
    read = block.import_(data)
    assert read.stages[:4] == (
        stages[0],
        Stage(MERGE, tuple(sorted(merged.groups))),
        windows,
        stages[3],
    )


def test_any_batch_takes_it_and_a_file_of_ours_still_goes(tmp_path: Path) -> None:
    block = inception_block()
    stages = [Stage(CONCURRENT, ((unit,),)) for unit in range(len(block.units))]
    path = tmp_path / "published.json"
    path.write_text(json.dumps(block.file(stages)))
    given = read_schedule(path, block.units)
    assert [block.units.operators[unit].kind for unit in given.added] == ["dense+bias_add"]
    ours = tmp_path / "ours.json"
    given.schedule.save(ours, block.units)
    again = read_schedule(ours, block.units)
    assert (again.schedule.stages, again.added) == (given.schedule.stages, ())


def node_of(data: dict[str, Any], place: int) -> dict[str, Any]:
    return data["blocks"][0]["inner_nodes"][place]


def another_window(data: dict[str, Any]) -> None:
    node_of(data, 1)["kernel"] = [5, 5]


def another_source(data: dict[str, Any]) -> None:
    node_of(data, 2)["inputs"] = [[["in", 0, 3]]]


def unknown_channels(data: dict[str, Any]) -> None:
    node_of(data, 2)["inputs"] = [[["n0", 0, 9]]]


def unknown_stage(data: dict[str, Any]) -> None:
    data["blocks"][0]["stages"][0] = [["n77"]]


def a_stage_lost(data: dict[str, Any]) -> None:
    del data["blocks"][0]["stages"][3]


def a_merge_beside_others(data: dict[str, Any]) -> None:
    stages = data["blocks"][0]["stages"]
    place = next(n for n, stage in enumerate(stages) if stage == [["n6"]])
    stages[place - 1 : place + 1] = [[*stages[place - 1], ["n6"]]]


def another_type(data: dict[str, Any]) -> None:
    node_of(data, 1)["type"] = "dense"


def no_blocks(data: dict[str, Any]) -> None:
    data["blocks"] = 3


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (another_window, "it.json does not fit: node n1 (a 5x5 convolution of n0 to 6x6x6) is no"),
        (another_source, "node n2 (a 1x3 convolution of in to 6x6x6) is no unit of block"),
        (unknown_channels, "node n2, which reads the channels 0 to 9 of node n0"),
        (unknown_stage, "a stage of node n77"),
        (a_stage_lost, "runs before or beside"),
        (a_merge_beside_others, "it.json runs the merged node n6 beside others"),
        (another_type, "nodes of the type 'dense'"),
        (no_blocks, "it.json lacks or misstates"),
    ],
)
def test_what_does_not_fit_is_named(damage: Any, sentence: str) -> None:
    block = inception_block()
    windows = tuple(block.unit(f"split/conv_{n}") for n in (1, 2))
    stages = [Stage(CONCURRENT, ((unit,),)) for unit in range(len(block.units))]
    stages[windows[0] : windows[1] + 1] = [Stage(MERGE, tuple((unit,) for unit in windows))]
    data = block.file(stages)
    damage(data)
    with pytest.raises(ScheduleError) as refusal:
        block.import_(data)
    assert sentence in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_what_reads_the_same_is_named() -> None:
    block = inception_block()
    data = block.file([Stage(CONCURRENT, ((unit,),)) for unit in range(len(block.units))])
    node_of(data, 0)["output_shape"] = [8, 7, 7]
    with pytest.raises(ScheduleError, match=r"what reads the same is 'conv' to 8x6x6$"):
        block.import_(data)


def places_in(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """All places of nested lists and objects."""
    if not isinstance(data, dict | list):
        return [path]
    pairs = data.items() if isinstance(data, dict) else enumerate(data)
    return [path, *(place for key, inner in pairs for place in places_in(inner, (*path, key)))]


@given(st.randoms(use_true_random=False), st.sampled_from([None, 0, -1, 3.5, "x", [], {}, [[1]]]))
@examples(200)
def test_damage_is_one_kind_of_error(chance: random.Random, wrong: Any) -> None:
    data = json.loads(json.dumps(SOUND))
    *where, last = chance.choice(places_in(data)[1:])
    holder = data
    for key in where:
        holder = holder[key]
    if chance.random() < 0.3:
        del holder[last]
    else:
        holder[last] = wrong
    with contextlib.suppress(ScheduleError):
        read = schedule_of_text(json.dumps(data))
        if isinstance(read, PublishedFile):
            read.fitted(BLOCK.units)


BLOCK = inception_block()
SOUND = BLOCK.file([Stage(CONCURRENT, ((unit,),)) for unit in range(len(BLOCK.units))])
