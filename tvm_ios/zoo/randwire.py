"""RandWire: randomly wired stages (Xie et al., 2019, regular regime)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import networkx

from tvm_ios.zoo.network import Feature, Network

#: The library's own types are incomplete.
_networkx: Any = networkx

#: Nodes and seed of the Watts-Strogatz graph of each stage; as wide (8) as the published ones.
_STAGES = ((16, 8), (32, 6), (32, 7), (32, 5))
_CHANNELS = 154

#: Nodes, and the edges between them.
Wiring = tuple[int, Sequence[tuple[int, int]]]


def build_randwire(seed: int = 0, wirings: Iterable[Wiring] | None = None) -> Any:
    """RandWire as an ``onnx.ModelProto``: input (1, 3, 224, 224), output (1, 1000) logits.

    Parameters
    ----------
    seed
        Of the weights; the default wirings are always the same.
    wirings
        The stages' graphs, if not the default ones: an edge leads from the smaller number to the
        larger.
    """
    net = Network("randwire", seed, (3, 224, 224))
    x = net.batch_norm(net.conv(net.input, _CHANNELS // 2, 3, 2))
    chosen = [_watts_strogatz(n, s) for n, s in _STAGES] if wirings is None else list(wirings)
    for number, wiring in enumerate(chosen):
        with net.scope(f"stage{number + 1}"):
            x = _stage(net, x, _CHANNELS << number, wiring)
    x = net.relu(net.batch_norm(net.conv(net.relu(x), 1280, 1)))
    return net.finish(net.dense(net.global_avg_pool(x), 1000), (1, 1000))


def _stage(net: Network, x: Feature, channels: int, wiring: Wiring) -> Feature:
    nodes, edges = wiring
    made: list[Feature] = []
    for node in range(nodes):
        with net.scope(f"node{node}"):
            sources = [made[u] for u, v in edges if v == node]
            # A node without predecessor reads the stage's input and halves the resolution.
            made.append(_separable(net, net.add(*sources) if sources else x, channels, sources))
    inner = {u for u, _ in edges}
    return net.add(*(made[node] for node in range(nodes) if node not in inner))


def _separable(net: Network, x: Feature, channels: int, sources: Sequence[Feature]) -> Feature:
    y = net.conv(net.relu(x), x.channels, 3, 1 if sources else 2, groups=x.channels)
    return net.batch_norm(net.conv(y, channels, 1))


def _watts_strogatz(nodes: int, seed: int) -> Wiring:
    graph = _networkx.connected_watts_strogatz_graph(nodes, 4, 0.75, seed=seed)
    edges: list[tuple[int, int]] = list(graph.edges())
    return nodes, sorted((min(edge), max(edge)) for edge in edges)
