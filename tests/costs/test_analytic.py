from __future__ import annotations

import math
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_ios.costs.analytic import AnalyticCost
from tvm_ios.costs.merged_work import merged_work
from tvm_ios.devices.device import DeviceDescription, load_device
from tvm_ios.graph.elements import Operator, Tensor
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.schedule.stage import Stage, Strategy

DEVICE = DeviceDescription("toy", "", 1e9, 1e9, 4, 100, 0.125, 0.5, {})


def elementwise(*outputs: int, flops: int = 10**9) -> OpGraph:
    """Units that all read one tensor, with so many output elements each."""
    tensors = (Tensor("x", (1,)), *(Tensor(f"t{i}", (n,)) for i, n in enumerate(outputs)))
    operators = tuple(
        Operator(f"u{i}", "relu", (0,), (i + 1,), flops=flops) for i in range(len(outputs))
    )
    return OpGraph("flat", operators, tensors, (0,), tuple(range(1, len(tensors))))


def concurrent(*groups: tuple[int, ...]) -> Stage:
    return Stage(Strategy.CONCURRENT, groups)


def test_a_unit_is_bound_by_work_bytes_tiles_and_launch() -> None:
    cost = AnalyticCost(DEVICE)
    full, quarter = elementwise(400), elementwise(100)
    assert cost.unit_latency(full, 0) == pytest.approx(1 + 0.125)
    assert cost.unit_latency(quarter, 0) == pytest.approx(4 + 0.125)
    moved = elementwise(4 * 10**9, flops=0)
    assert cost.unit_latency(moved, 0) == pytest.approx(16 + 0.125, rel=1e-6)


def test_groups_share_the_device() -> None:
    cost = AnalyticCost(DEVICE)
    small = elementwise(100, 100, 100, 100, 100)
    alone = 4 + 0.125
    # Four quarters fill the device; a fifth makes all wait.
    assert cost.stage_latency(small, concurrent((0,), (1,))) == pytest.approx(alone + 0.5)
    four = concurrent((0,), (1,), (2,), (3,))
    assert cost.stage_latency(small, four) == pytest.approx(alone + 0.5)
    assert cost.stage_latency(small, concurrent((0, 1), (2,))) == pytest.approx(2 * alone + 0.5)
    five = concurrent((0,), (1,), (2,), (3,), (4,))
    assert cost.stage_latency(small, five) == pytest.approx(5 + 0.5)
    large = elementwise(400, 400)
    assert cost.stage_latency(large, concurrent((0,), (1,))) == pytest.approx(2 + 0.5)


def test_no_other_strategy_can_run() -> None:
    cost = AnalyticCost(DEVICE)
    graph = elementwise(4, 4)
    assert cost.stage_latency(graph, Stage(Strategy.CO_SCHEDULE, ((0,), (1,)))) == math.inf
    assert cost.stage_latency(graph, Stage(Strategy.MERGE, ((0,), (1,)))) == math.inf


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


def test_merging_equal_kernels_pays_on_an_empty_device_and_padding_does_not_on_a_full_one() -> None:
    cost = AnalyticCost(load_device("v100"))
    equal = convolutions((3, 3), (3, 3), channels=64)
    merge = Stage(Strategy.MERGE, ((0,), (1,)))
    in_turn = sum(cost.stage_latency(equal, concurrent((u,))) for u in (0, 1))
    assert cost.stage_latency(equal, merge) < in_turn
    padded = convolutions((1, 1), (5, 5), channels=256, extent=64)
    in_turn = sum(cost.stage_latency(padded, concurrent((u,))) for u in (0, 1))
    assert in_turn < cost.stage_latency(padded, merge) < math.inf


def test_units_that_cannot_be_merged_have_no_merged_work() -> None:
    assert merged_work(elementwise(4, 4), (0, 1)) is None
