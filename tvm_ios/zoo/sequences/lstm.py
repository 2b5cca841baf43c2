"""LSTM-TC: the unrolled 10-layer text classifier of Rammer's benchmark (Ma et al., OSDI 2020)."""

from __future__ import annotations

from typing import Any

from tvm_ios.zoo.writing.recurrent import RecurrentNetwork

_CLASSES = 10


def build_lstm_tc(seed: int = 0) -> Any:
    """Build LSTM-TC with cells as in PyTorch: input (100, 1, 256), output (1, 10) logits.

    It has ten layers of hidden size 256 over 100 steps (Rammer, table 1), batch 1: a thousand cells
    of thirteen operators.
    """
    return _build("lstm_tc", seed, layers=10, steps=100, hidden=256)


def build_lstm_small(seed: int = 0) -> Any:
    """Build two layers of hidden size 16 over 6 steps: input (6, 1, 16), output (1, 10)."""
    return _build("lstm_small", seed, layers=2, steps=6, hidden=16)


def build_lstm_tc_gates(seed: int = 0) -> Any:
    """Build LSTM-TC as Rammer ran it: input (100, 1, 256), output (1, 256), the last state.

    Cells have eight products, two for each gate; a step passes all layers before the next one
    begins.
    """
    return _build_gates("lstm_tc_gates", seed, layers=10, steps=100, hidden=256)


def build_lstm_gates_small(seed: int = 0) -> Any:
    """Build LSTM-TC as Rammer ran it, but two layers of 16 over 6 steps: input (6, 1, 16)."""
    return _build_gates("lstm_gates_small", seed, layers=2, steps=6, hidden=16)


def _build(name: str, seed: int, layers: int, steps: int, hidden: int) -> Any:
    net = RecurrentNetwork(name, seed)
    sequence = net.steps(net.new_input("input", (steps, 1, hidden)), steps)
    for layer in range(layers):
        with net.scope(f"layer{layer}"):
            sequence = net.layer(sequence, net.cell_of_two_products(hidden, hidden), hidden)
    return net.finish(net.linear("classifier", sequence[-1], hidden, _CLASSES), (1, _CLASSES))


def _build_gates(name: str, seed: int, layers: int, steps: int, hidden: int) -> Any:
    net = RecurrentNetwork(name, seed)
    sequence = net.steps(net.new_input("input", (steps, 1, hidden)), steps)
    cells = [net.cell_of_eight_products(hidden, hidden) for _ in range(layers)]
    run = net.layers_by_step(cells, hidden)
    states = [run(step, x) for step, x in enumerate(sequence)]
    return net.finish(states[-1], (1, hidden))
