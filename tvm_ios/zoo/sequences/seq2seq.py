"""Seq2Seq (Sutskever et al., 2014) with the sizes of Rammer's table 1 (Ma et al., OSDI 2020)."""

from __future__ import annotations

from typing import Any

from tvm_ios.zoo.writing.recurrent import RecurrentNetwork


def build_seq2seq(seed: int = 0) -> Any:
    """Build Seq2Seq: input (100, 1, 128), output (1, 128), the decoder's last result.

    It has an encoder of 8 layers over 100 steps and a decoder of 4 layers over 30 steps, of hidden
    size 128. The decoder reads the encoder's last state first, and then its own results.
    """
    return _build("seq2seq", seed, encoder=(8, 100), decoder=(4, 30), hidden=128)


def build_seq2seq_small(seed: int = 0) -> Any:
    """Build two layers over 5 steps and one over 3: input (5, 1, 16), output (1, 16)."""
    return _build("seq2seq_small", seed, encoder=(2, 5), decoder=(1, 3), hidden=16)


def _build(
    name: str, seed: int, encoder: tuple[int, int], decoder: tuple[int, int], hidden: int
) -> Any:
    net = RecurrentNetwork(name, seed)
    layers, steps = encoder
    sequence = net.steps(net.new_input("input", (steps, 1, hidden)), steps)
    for layer in range(layers):
        with net.scope(f"encoder{layer}"):
            cell = net.cell_of_one_product(hidden, hidden)
            sequence = net.layer(sequence, cell, hidden)
    x = sequence[-1]
    layers, steps = decoder
    with net.scope("decoder"):
        cells = [net.cell_of_one_product(hidden, hidden) for _ in range(layers)]
        run = net.layers_by_step(cells, hidden)
        for step in range(steps):
            x = run(step, x)
    return net.finish(x, (1, hidden))
