from __future__ import annotations

import math
from dataclasses import replace
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.random_dags import graph_of
from tvm_ios.costs.analytic import AnalyticCost, merged_work
from tvm_ios.costs.kernel_estimate import (
    KernelEstimate,
    KernelLibrary,
    fastest_alone,
    product_forms,
    unit_kernels,
)
from tvm_ios.devices.device import DeviceDescription, load_device
from tvm_ios.devices.engine import EngineDescription, load_engine
from tvm_ios.graph.elements import Operator, Tensor
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.schedule.stage import Stage, Strategy
from tvm_ios.schedule.streams import stage_of_streams

#: Four processors that a block of four warps uses half of; round figures.
DEVICE = DeviceDescription(
    "toy",
    "",
    peak_flops=8 * 1024,
    bandwidth=1e12,
    processor_bandwidth=1e12,
    processors=4,
    efficiency=1.0,
    saturating_warps=8,
    streaming_warps=8,
    kernel_overhead=0.0,
    wait_overhead=0.0625,
    sources={},
)
ENGINE = EngineDescription(
    "toy",
    "",
    host_overhead=0.0,
    launch_overhead=0.125,
    early_overhead=0.125,
    library_overhead=0.0,
    stage_overhead=0.5,
    contention_overhead=0.0,
    copy_overhead=0.0,
    sources={},
    kernels="library",
)


def elementwise(*outputs: int) -> OpGraph:
    """Units that all read one number, with so many output elements each."""
    tensors = (Tensor("x", (1,)), *(Tensor(f"t{i}", (n,)) for i, n in enumerate(outputs)))
    operators = tuple(
        Operator(f"u{i}", "relu", (0,), (i + 1,), flops=2 * n) for i, n in enumerate(outputs)
    )
    return OpGraph("flat", operators, tensors, (0,), tuple(range(1, len(tensors))))


def concurrent(*groups: tuple[int, ...]) -> Stage:
    return Stage(Strategy.CONCURRENT, groups)


def test_a_unit_takes_waves_of_blocks_and_a_launch() -> None:
    cost = AnalyticCost(DEVICE, ENGINE)
    # A processor computes 512 elements a second; they are a block, which uses half of it.
    assert cost.unit_latency(elementwise(512), 0) == pytest.approx(2 + 0.125)
    assert cost.unit_latency(elementwise(8 * 512), 0) == pytest.approx(2 + 0.125)
    assert cost.unit_latency(elementwise(9 * 512), 0) == pytest.approx(3 + 0.125)
    assert cost.unit_latency(elementwise(12 * 512), 0) == pytest.approx(3 + 0.125)
    narrow = AnalyticCost(replace(DEVICE, bandwidth=512), ENGINE)
    assert narrow.unit_latency(elementwise(512), 0) == pytest.approx((4 + 4 * 512) / 512 + 0.125)


def test_groups_share_the_device() -> None:
    cost = AnalyticCost(DEVICE, ENGINE)
    small = elementwise(*[512] * 9)
    alone = 2 + 0.125
    # Eight blocks use all of the device; a ninth makes its processor slower, and all wait.
    for groups in (2, 8):
        stage = concurrent(*((unit,) for unit in range(groups)))
        assert cost.stage_latency(small, stage) == pytest.approx(alone + 0.5)
    nine = concurrent(*((unit,) for unit in range(9)))
    assert cost.stage_latency(small, nine) == pytest.approx(3 + 0.125 + 0.5)
    chain = concurrent((0, 1), (2,))
    assert cost.stage_latency(small, chain) == pytest.approx(2 * alone + 0.5)
    large = elementwise(8 * 512, 8 * 512)
    assert cost.stage_latency(large, concurrent((0,), (1,))) == pytest.approx(4 + 0.125 + 0.5)


def test_what_each_overhead_is_charged_for() -> None:
    small = elementwise(*[512] * 3)
    two, alone = concurrent((0,), (1,)), 2 + 0.125
    crowded = AnalyticCost(DEVICE, replace(ENGINE, contention_overhead=0.5))
    assert crowded.stage_latency(small, two) == pytest.approx(3 + 0.125 + 0.5)
    hosted = AnalyticCost(DEVICE, replace(ENGINE, host_overhead=1.0))
    assert hosted.stage_latency(small, two) == pytest.approx(alone - 0.125 + 1 + 0.5)
    slow = AnalyticCost(replace(DEVICE, kernel_overhead=1.0), ENGINE)
    assert slow.stage_latency(small, concurrent((0,))) == pytest.approx(alone + 1)
    # No group waits for another where there is one: nothing is forked or joined.
    assert AnalyticCost(DEVICE, ENGINE).stage_latency(small, concurrent((0, 1, 2))) == 3 * alone


def test_kernels_that_follow_one_other_are_launched_early() -> None:
    graph = elementwise(512, 512, 512)
    newer = replace(DEVICE, multiprocessor=load_device("h200").multiprocessor)
    older = replace(DEVICE, multiprocessor=load_device("v100").multiprocessor)

    def saved(device: DeviceDescription, stage: Stage) -> float:
        none, early = (
            AnalyticCost(device, replace(ENGINE, early_overhead=seconds)).stage_latency(
                graph, stage
            )
            for seconds in (ENGINE.launch_overhead, 0.0)
        )
        return none - early

    edge = ENGINE.launch_overhead
    assert saved(newer, concurrent((0, 1, 2))) == pytest.approx(3 * edge)
    # The first kernel of each group waits for others, and so does what comes after the stage.
    assert saved(newer, concurrent((0, 1), (2,))) == pytest.approx(0)
    assert saved(newer, concurrent((0, 1, 2), ())) == pytest.approx(edge)
    assert saved(newer, stage_of_streams((0, 1, 2), {0: 0, 1: 0, 2: 1})) == pytest.approx(0)
    together = Stage(Strategy.CO_SCHEDULE, ((0, 1, 2),))
    assert saved(newer, together) == pytest.approx(-edge)
    assert [saved(older, stage) for stage in (concurrent((0, 1, 2)), together)] == [0, 0]


def test_co_scheduled_units_are_one_launch_whose_tiles_wait() -> None:
    cost = AnalyticCost(DEVICE, ENGINE)
    chain = graph_of((0, 0b1, 0b10))
    kernels = [
        unit_kernels(chain, unit, DEVICE, KernelLibrary())[0].seconds(DEVICE) for unit in range(3)
    ]
    stage = Stage(Strategy.CO_SCHEDULE, ((0, 1, 2),))
    assert cost.stage_latency(chain, stage) == pytest.approx(sum(kernels) + 2 * 0.0625 + 0.125)
    flat = elementwise(512, 512)
    together = Stage(Strategy.CO_SCHEDULE, ((0,), (1,)))
    assert cost.stage_latency(flat, together) == pytest.approx(2 + 0.125)


def test_units_that_cannot_be_merged_take_for_ever() -> None:
    stage = Stage(Strategy.MERGE, ((0,), (1,)))
    assert AnalyticCost(DEVICE, ENGINE).stage_latency(elementwise(4, 4), stage) == math.inf


def test_many_stages_at_once_are_as_one_by_one() -> None:
    graph = elementwise(512, 512, 4096, 512, 100_000)
    stages = [
        concurrent((0,), (2,)),
        concurrent((1,), (2,)),
        concurrent((2,), (0, 3)),
        concurrent((4,)),
        Stage(Strategy.MERGE, ((0,), (1,))),
        Stage(Strategy.CO_SCHEDULE, ((0,), (4,))),
    ]
    device = load_device("v100")
    together = AnalyticCost(device).stage_latencies(graph, stages)
    alone = [AnalyticCost(device).stage_latency(graph, stage) for stage in stages]
    assert together.tolist() == pytest.approx(alone, rel=1e-12)


def test_streams_that_read_nothing_of_each_other_are_groups_side_by_side() -> None:
    graph, cost = elementwise(512, 1024, 4096, 512), AnalyticCost(DEVICE, ENGINE)
    groups = concurrent((0, 2), (1,), (3,))
    streams = stage_of_streams((0, 1, 2, 3), {0: 0, 2: 0, 1: 1, 3: 2})
    assert cost.stage_latency(graph, streams) == pytest.approx(cost.stage_latency(graph, groups))


def test_a_stream_waits_for_what_it_reads_and_the_host_calls_for_each_wait() -> None:
    # 0 is read by 1 and 2, which 3 reads; 1 and 2 are on streams of their own.
    graph = graph_of([0, 0b1, 0b1, 0b110], ["relu"] * 4)
    cost, alone = AnalyticCost(DEVICE, ENGINE), AnalyticCost(DEVICE, ENGINE).unit_latency(graph, 0)
    stage = stage_of_streams((0, 1, 2, 3), {0: 0, 1: 0, 2: 1, 3: 0})
    assert cost.stage_latency(graph, stage) == pytest.approx(3 * alone + ENGINE.stage_overhead)
    spans = cost.stage_spans(graph, stage)
    begins = {unit: begin - ENGINE.stage_overhead for unit, begin, _ in spans}
    assert [begins[unit] for unit in range(4)] == pytest.approx(
        [ENGINE.launch_overhead + level * alone for level in (0, 1, 1, 2)]
    )
    # The host launches four kernels, and calls for the waits of 2 and of 3 before the last one.
    slow = AnalyticCost(DEVICE, replace(ENGINE, host_overhead=1.0))
    seconds = alone - ENGINE.launch_overhead
    assert slow.stage_latency(graph, stage) == pytest.approx(5.0 + seconds + ENGINE.stage_overhead)


def test_what_is_written_to_its_place_takes_no_time_on_a_captured_graph() -> None:
    graph = graph_of([0, 0b1, 0b1, 0b110], ["relu", "concat", "concat", "relu"])
    cost = AnalyticCost(load_device("v100"))
    two = concurrent((1,), (2,))
    assert (cost.stage_latency(graph, two), cost.stage_spans(graph, two)) == (0.0, [])
    streams = stage_of_streams((0, 1, 2, 3), {0: 0, 1: 0, 2: 1, 3: 0})
    together = Stage(Strategy.CO_SCHEDULE, ((0, 1, 2, 3),))
    first, last = (cost.unit_latency(graph, unit) for unit in (0, 3))
    assert cost.stage_latency(graph, streams) == pytest.approx(first + last)
    spans = {unit: (begin, end) for unit, begin, end in cost.stage_spans(graph, together)}
    assert spans.keys() == {0, 3}
    assert spans[0][1] < spans[3][0]


def test_products_take_the_tiles_that_fill_the_device() -> None:
    device = load_device("v100")

    def product(rows: int, *, winograd: bool = False) -> KernelEstimate:
        forms = product_forms(rows, rows, 512, 0, device, KernelLibrary(), winograd=winograd)
        return fastest_alone(forms, device)

    few, many = product(64), product(8192)
    assert (few.blocks, many.blocks) == (1, 64 * 64)
    # Winograd multiplies less; a small result is computed directly or not, whichever is faster.
    winograd = product(8192, winograd=True)
    assert winograd.seconds(device) < many.seconds(device)


def test_what_comes_before_a_convolution_is_a_kernel_and_what_comes_after_is_not() -> None:
    body = (
        ("relu", (), ((0, 0),)),
        ("conv2d", (("group", 8), ("strides", (1, 1))), ((1, 0), (0, 1))),
        ("conv2d", (("group", 1), ("strides", (1, 1))), ((2, 0), (0, 2))),
        ("bias_add", (), ((3, 0), (0, 3))),
    )
    tensors = (
        Tensor("x", (1, 8, 6, 6)),
        Tensor("depthwise", (8, 1, 3, 3), constant=True),
        Tensor("pointwise", (16, 8, 1, 1), constant=True),
        Tensor("bias", (16,), constant=True),
        Tensor("y", (1, 16, 6, 6)),
    )
    kind = "relu+conv2d+conv2d+bias_add"
    unit = Operator("u", kind, (0, 1, 2, 3), (4,), MappingProxyType({"body": (body, ((4, 0),))}))
    graph = OpGraph("separable", (unit,), tensors, (0,), (4,))
    relu, depthwise, pointwise = unit_kernels(graph, 0, DEVICE, KernelLibrary())
    assert (relu.bytes, depthwise.bytes) == (2 * 8 * 36 * 4, 2 * 8 * 36 * 4 + 8 * 9 * 4)
    assert pointwise.bytes == (8 + 16) * 36 * 4 + 16 * 8 * 4


def convolutions(*kernels: tuple[int, int], channels: int = 8, extent: int = 6) -> OpGraph:
    """Convolutions of one input with equal extents ("same" padding)."""
    tensors = [Tensor("x", (1, channels, extent, extent))]
    operators: list[Operator] = []
    for number, (height, width) in enumerate(kernels):
        weight = len(tensors)
        tensors.append(Tensor(f"w{number}", (channels, channels, height, width), constant=True))
        tensors.append(Tensor(f"b{number}", (channels,), constant=True))
        tensors.append(Tensor(f"y{number}", (1, channels, extent, extent)))
        top, left = (height - 1) // 2, (width - 1) // 2
        elements = channels * extent * extent
        operators.append(
            Operator(
                f"conv{number}",
                "conv2d+bias_add+relu",
                (0, weight, weight + 1),
                (weight + 2,),
                MappingProxyType(
                    {
                        "strides": (1, 1),
                        "pads": (top, left, height - 1 - top, width - 1 - left),
                        "dilations": (1, 1),
                        "group": 1,
                        "kernel": (height, width),
                        "activation": "relu",
                    }
                ),
                flops=2 * elements * channels * height * width + 2 * elements,
            )
        )
    outputs = tuple(op.outputs[0] for op in operators)
    return OpGraph("convolutions", tuple(operators), tuple(tensors), (0,), outputs)


@given(st.lists(st.sampled_from([(1, 1), (3, 3), (1, 3), (3, 1), (5, 5)]), min_size=2, max_size=4))
def test_merged_work_is_that_of_one_convolution_in_the_common_window(
    kernels: list[tuple[int, int]],
) -> None:
    graph = convolutions(*kernels)
    work = merged_work(graph, range(len(kernels)))
    assert work is not None
    height, width = (max(k[axis] for k in kernels) for axis in (0, 1))
    elements = len(kernels) * 8 * 36
    assert work.flops == 2 * elements * 8 * height * width + 2 * elements
    assert work.output_elements == elements
    weights = len(kernels) * (8 * 8 * height * width + 8)
    assert work.bytes == 4 * (8 * 36 + weights + elements)


@pytest.mark.parametrize("engine", ["ios", "graph"])
def test_merging_equal_kernels_pays_on_an_empty_device_and_padding_does_not_on_a_full_one(
    engine: str,
) -> None:
    cost = AnalyticCost(load_device("v100"), load_engine(engine))
    equal = convolutions((3, 3), (3, 3), channels=64)
    merge = Stage(Strategy.MERGE, ((0,), (1,)))
    in_turn = sum(cost.stage_latency(equal, concurrent((u,))) for u in (0, 1))
    assert cost.stage_latency(equal, merge) < in_turn
    padded = convolutions((1, 1), (5, 5), channels=256, extent=64)
    in_turn = sum(cost.stage_latency(padded, concurrent((u,))) for u in (0, 1))
    assert in_turn < cost.stage_latency(padded, merge) < math.inf


def test_units_that_cannot_be_merged_have_no_merged_work() -> None:
    assert merged_work(elementwise(4, 4), (0, 1)) is None
