"""RandWire: randomly wired stages (Xie et al., 2019, regular and small regime)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import networkx

from tvm_ios.zoo.writing.network import Feature, ImageNetwork

#: The library's own types are incomplete.
_networkx: Any = networkx

#: Nodes and seed of the Watts-Strogatz graph of each stage; as wide (8) as the published ones.
_STAGES = ((16, 8), (32, 6), (32, 7), (32, 5))
_CHANNELS, _SMALL_CHANNELS = 154, 78

#: Nodes, and the edges between them.
Wiring = tuple[int, Sequence[tuple[int, int]]]


def build_randwire(seed: int = 0, wirings: Iterable[Wiring] | None = None) -> Any:
    """Build RandWire: input (1, 3, 224, 224), output (1, 1000) logits.

    The seed is that of the weights; the default wirings are always the same. ``wirings`` replaces
    them by other graphs, whose edges lead from the smaller number to the larger.
    """
    net = ImageNetwork("randwire", seed, (3, 224, 224))
    x = net.batch_norm(net.conv(net.input, _CHANNELS // 2, 3, 2))
    chosen = [_watts_strogatz(n, s) for n, s in _STAGES] if wirings is None else list(wirings)
    for number, wiring in enumerate(chosen):
        with net.scope(f"stage{number + 1}"):
            x = _stage(net, x, _CHANNELS << number, wiring)
    return _classify(net, x)


def build_randwire_small(variant: int, seed: int = 0) -> Any:
    """Build RandWire, small regime: input (1, 3, 224, 224), output (1, 1000) logits.

    Two convolutions of 3x3/2 come first, then three stages of 32 nodes with 78, 156 and 312
    channels. ``variant``, from 1 to 3, selects the random graphs.
    """
    net = ImageNetwork(f"randwire_small_{variant}", seed, (3, 224, 224))
    x = net.batch_norm(net.conv(net.input, _SMALL_CHANNELS // 2, 3, 2))
    x = net.batch_norm(net.conv(net.relu(x), _SMALL_CHANNELS, 3, 2))
    for number in range(3):
        with net.scope(f"stage{number + 1}"):
            wiring = _watts_strogatz(32, 3 * variant + number)
            x = _stage(net, x, _SMALL_CHANNELS << number, wiring)
    return _classify(net, x)


build_randwire_small_1 = partial(build_randwire_small, 1)
build_randwire_small_2 = partial(build_randwire_small, 2)
build_randwire_small_3 = partial(build_randwire_small, 3)


def _classify(net: ImageNetwork, x: Feature) -> Any:
    x = net.relu(net.batch_norm(net.conv(net.relu(x), 1280, 1)))
    return net.finish(net.dense(net.global_avg_pool(x), 1000), (1, 1000))


def _stage(net: ImageNetwork, x: Feature, channels: int, wiring: Wiring) -> Feature:
    nodes, edges = wiring
    features: list[Feature] = []
    for node in range(nodes):
        with net.scope(f"node{node}"):
            sources = [features[u] for u, v in edges if v == node]
            # A node without predecessor reads the stage's input and halves the resolution.
            features.append(_separable(net, net.add(*sources) if sources else x, channels, sources))
    inner = {u for u, _ in edges}
    return net.add(*(features[node] for node in range(nodes) if node not in inner))


def _separable(net: ImageNetwork, x: Feature, channels: int, sources: Sequence[Feature]) -> Feature:
    y = net.conv(net.relu(x), x.channels, 3, 1 if sources else 2, groups=x.channels)
    return net.batch_norm(net.conv(y, channels, 1))


def _watts_strogatz(nodes: int, seed: int) -> Wiring:
    graph = _networkx.connected_watts_strogatz_graph(nodes, 4, 0.75, seed=seed)
    edges: list[tuple[int, int]] = list(graph.edges())
    return nodes, sorted((min(edge), max(edge)) for edge in edges)
