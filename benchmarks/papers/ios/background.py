"""Figures that motivate and explain: trends, occupancy, the example of the dynamic program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.papers.row import How, Row
from benchmarks.papers.steps import Steps
from tvm_ios.devices.device import load_device
from tvm_ios.devices.occupancy import Footprint, resident_blocks
from tvm_ios.ios.counts import count_block
from tvm_ios.models.load import load_operators

_NETWORKS = {"VGG": "vgg16", "NASNet": "nasnet_a"}
_DEVICES = {"2018, Tesla V100": "v100", "A100": "a100"}
#: The branches and operators of a branch of the graphs that reach the bound.
_PATHS = ((2, 3), (3, 2), (3, 3))


def trends(published: Mapping[str, Any], steps: Steps) -> Iterator[Row]:
    """Computation per convolution and peaks of devices (IOS, figure 1.1)."""
    unit = "GFLOP per convolution"
    for network, value in published[unit].items():
        ours = steps.once(gflop_per_convolution, _NETWORKS[network])
        yield Row(
            f"{unit}, {network}",
            value,
            ours,
            "GFLOP",
            How.COUNTED,
            note="NASNet-A large, each convolution of a separable one for itself; which NASNet was "
            "counted is not said"
            if network == "NASNet"
            else "",
        )
    unit = "peak TFLOP/s"
    for device, value in published[unit].items():
        name = _DEVICES.get(device)
        yield Row(
            f"{unit}, {device}",
            value,
            None if name is None else load_device(name).peak_flops / 1e12,
            "TFLOP/s",
            How.NOT_POSSIBLE if name is None else How.COUNTED,
            note="no GPU of 2013 is described" if name is None else "",
        )


def gflop_per_convolution(network: str) -> float:
    """The average of a network of the zoo."""
    flops = [op.flops for op in load_operators(network).operators if op.kind == "conv2d"]
    return sum(flops) / len(flops) / 1e9


def low_occupancy(published: Mapping[str, Any], steps: Steps) -> Iterator[Row]:
    """Blocks that registers let a processor hold (IOS, figure 2.3)."""
    label, value = next(iter(published.items()))
    multiprocessor = load_device("v100").multiprocessor
    assert multiprocessor is not None
    ours = resident_blocks(Footprint(256, 126, 0), multiprocessor)
    yield Row(label, value, ours, "blocks", How.COUNTED)


def example(published: Mapping[str, Any], steps: Steps) -> Iterator[Row]:
    """States and transitions where a is before b, and c is alone (IOS, figure 3.4)."""
    counts = count_block([0, 0b1, 0])
    for label, value in published.items():
        yield Row(label, value, getattr(counts, label), "", How.COUNTED)


def tight_bound(published: Mapping[str, Any], steps: Steps) -> Iterator[Row]:
    """Pairs (S, S') of d paths of c operators each, which reach the bound (IOS, figure 3.5).

    The bound counts empty endings, too: one for each state.
    """
    for (label, value), (paths, operators) in zip(published.items(), _PATHS, strict=True):
        counts = count_block(_side_by_side(paths, operators))
        yield Row(label, value, counts.transitions + counts.states, "pairs", How.COUNTED)


def _side_by_side(paths: int, operators: int) -> Sequence[int]:
    """Predecessors of each operator, path after path."""
    return [
        1 << (path * operators + place - 1) if place else 0
        for path in range(paths)
        for place in range(operators)
    ]
