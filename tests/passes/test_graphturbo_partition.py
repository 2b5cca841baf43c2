from __future__ import annotations

import gc
import json
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_passes.graphturbo_partition import GraphTurboPartition
from relay_passes.instances.subgraph_functions import PARTITION, SUBGRAPH
from tests.fast_run import only
from tests.refusals import refused
from tests.relax.relax_sketch import RelaxSketch, module_of, pyramid, run
from tvm_ios.devices.memory_hierarchy import load_hierarchy
from tvm_ios.errors import UserError


@pytest.fixture(scope="module")
def module() -> tvm.IRModule:
    return module_of([(8, 3, 8, 8)], pyramid(8))


# An image of the first stage takes 6 KB at its peak, one of the second 2.5 KB.
@pytest.mark.parametrize("capacity", only([7000, 1 << 20], [3000, 7000, 14_000, 30_000, 1 << 20]))
def test_instances_compute_the_same(module: tvm.IRModule, capacity: int) -> None:
    partitioned = GraphTurboPartition("stcp920", capacity=capacity)(module)
    relax.analysis.well_formed(partitioned)
    for output, expected in zip(run(partitioned), run(module), strict=True):
        np.testing.assert_allclose(output, expected, rtol=1e-4, atol=1e-4)


def test_main_calls_a_function_for_each_instance(module: tvm.IRModule) -> None:
    partitioned = GraphTurboPartition("stcp920", capacity=7000)(module)
    partition = json.loads(str(partitioned.attrs[PARTITION]))
    assert partition["factors"][0] == 8
    assert partition["factors"] == sorted(partition["factors"], reverse=True)
    assert len(partition["order"]) == sum(partition["factors"])
    assert partition["order"] != sorted(partition["order"])  # depth first
    calls = [
        int(partitioned[binding.value.op].attrs[SUBGRAPH])
        for block in partitioned["main"].body.blocks
        for binding in block.bindings
        if isinstance(binding.value, relax.Call) and isinstance(binding.value.op, tvm.ir.GlobalVar)
    ]
    assert calls == [subgraph for subgraph, _ in partition["order"]]


def test_instances_that_read_other_images_have_functions_of_their_own() -> None:
    def body(sketch: RelaxSketch, x: Any) -> Any:
        """Images and those from the other end, in one sub-graph: half of each are others."""
        flipped = sketch.emit(relax.op.strided_slice(x, [0], [3], [-5], [-1]))
        return sketch.emit(relax.op.nn.relu(sketch.emit(relax.op.subtract(x, flipped))))

    module = module_of([(4, 3, 4, 4)], body)
    partitioned = GraphTurboPartition("stcp920", capacity=1600)(module)
    assert json.loads(str(partitioned.attrs[PARTITION]))["factors"] == [2]
    names = {v.name_hint for v in partitioned.get_global_vars()}
    assert names == {"main", "subgraph_0", "subgraph_0_1"}
    for output, expected in zip(run(partitioned), run(module), strict=True):
        np.testing.assert_allclose(output, expected)


def test_it_is_idempotent_and_leaves_its_argument_alone(module: tvm.IRModule) -> None:
    before = module.script()
    once = GraphTurboPartition("stcp920", capacity=7000)(module)
    assert module.script() == before
    tvm.ir.assert_structural_equal(GraphTurboPartition("stcp920")(once), once)


def test_devices(module: tvm.IRModule) -> None:
    # All of it fits 512 KB, and the L2 of any CPU.
    for device in ("stcp920", load_hierarchy("goya"), "cpu"):
        partitioned = GraphTurboPartition(device)(module)
        assert json.loads(str(partitioned.attrs[PARTITION]))["factors"] == [1]


def test_what_is_refused(module: tvm.IRModule) -> None:
    with refused(UserError, "0 bytes"):
        GraphTurboPartition(capacity=0)
    with refused(UserError, "'tpu'", "a100"):
        GraphTurboPartition("tpu")(module)
    with refused(UserError, "'lv'", "extents are written down"):
        GraphTurboPartition("stcp920", capacity=40)(batch_written_down())


def test_a_refusal_is_all_that_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError):
        GraphTurboPartition("stcp920", capacity=40)(batch_written_down())
    gc.collect()
    assert capfd.readouterr().err == ""


def batch_written_down() -> tvm.IRModule:
    return module_of([(8, 3)], lambda s, x: s.emit(relax.op.add(x, s.normal(8, 3))))
