"""Peak memory by scheduler."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from tvm_ios.memory.comparison import compare_schedulers
from tvm_ios.memory.footprint import Counting
from tvm_ios.memory.operators import with_activations, with_biases
from tvm_ios.models.load import load_operators
from tvm_ios.papers.row import How, Row
from tvm_ios.papers.steps import Steps

#: Seconds of each scheduler, as in the publication.
_LIMIT = 30.0

#: The network of the zoo, and options of ``tvm-ios memory`` for what is counted.
_NETWORKS: Mapping[str, tuple[str, tuple[str, ...]]] = MappingProxyType(
    {
        "NASNet-A": ("nasnet_a_mobile", ()),
        "AmoebaNet-A": ("amoebanet_a", ()),
        "Darts": ("darts", ("--in-place",)),
        "Randwire1": ("randwire_small_1", ()),
        "Randwire2": ("randwire_small_2", ()),
        "Randwire3": ("randwire_small_3", ()),
        "HRNet-W18-V1": ("hrnet_w18_small_v1_256", ("--fuse-activations",)),
        "HRNet-W18-V2": ("hrnet_w18_small_v2_256", ("--fuse-activations",)),
        "HRNet-W32": ("hrnet_w32_256", ("--fuse-activations",)),
    }
)


def peaks(published: Mapping[str, Any], steps: Steps) -> Iterator[Row]:
    """Peaks of reverse post-order, SERENITY, HMCOS and the method (table II)."""
    for label, values in published.items():
        network, options = _NETWORKS[label]
        for scheduler, value in values.items():
            ours = steps.once(peak, network, options, scheduler, _LIMIT)
            yield Row(
                f"{label}, {scheduler}",
                value,
                ours["peak"] / 1024,
                "KB",
                How.COUNTED,
                command=" ".join(("tvm-ios memory", network, *options)),
            )


def peak(
    network: str, options: tuple[str, ...], scheduler: str, limit: float
) -> dict[str, float | bool]:
    """The peak of one scheduler on a network of the zoo, in bytes, and its seconds."""
    operators = load_operators(network)
    fused = "--fuse-activations" in options
    graph = with_activations(operators) if fused else with_biases(operators)
    (row,) = compare_schedulers(graph, Counting("--in-place" in options), [scheduler], limit)
    return {
        "peak": row.ordered.peak,
        "seconds": row.ordered.seconds,
        "proven": row.ordered.proven,
    }
