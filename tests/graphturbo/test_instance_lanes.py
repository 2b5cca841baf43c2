from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.fast_run import examples
from tests.graphturbo.onnx_networks import Runner, networks
from tvm_ios.graph.op_graph import bits
from tvm_ios.graphturbo.grouping import group
from tvm_ios.graphturbo.instances import Instances, split_into_instances
from tvm_ios.graphturbo.lanes import place_instances
from tvm_ios.graphturbo.layers import form_layers
from tvm_ios.graphturbo.split_info import Splitter


def instances_of(model: Any, capacity: int) -> Instances:
    layers = form_layers(Runner(model).graph)
    return split_into_instances(layers, group(Splitter(layers, capacity, 4, axes=(0,))))


@examples(60)
@given(model=networks(), capacity=st.sampled_from((500, 2000, 8000)), lanes=st.integers(1, 3))
def test_lanes_wait_only_between_phases(model: Any, capacity: int, lanes: int) -> None:
    instances = instances_of(model, capacity)
    assert all(s.split is None or not s.split.axis for s in instances.subgraphs)
    places = place_instances(instances, lanes)
    for number, place in enumerate(places):
        assert (place.lane is None) == bool(place.phase % 2)
        for source in bits(instances.predecessors[number]):
            before = places[source]
            assert before.phase < place.phase or before == place
