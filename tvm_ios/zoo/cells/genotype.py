"""Cells in the form that searches publish: a list of operations on numbered states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm_ios.zoo.cells.stacking import (
    Halving,
    adjust,
    factorised_reduction,
    fit,
    separable,
    squeeze,
)
from tvm_ios.zoo.writing.network import Feature, ImageNetwork, Padding


@dataclass(frozen=True, slots=True)
class CellGenotype:
    """A cell. State 0 is the previous cell's input, state 1 its output, at this cell's channels.

    Each two ``operations``, pairs of a name and the state that is read, are summed to the next
    state, 2, 3, ... In a reduction cell those that read states 0 and 1 have stride 2. ``result``
    are the states that the cell concatenates. ``halving`` halves the resolution of state 0 and of
    skipped tensors. ``pool_padding`` is that of poolings.
    """

    operations: tuple[tuple[str, int], ...]
    result: tuple[int, ...]
    halving: Halving = factorised_reduction
    pool_padding: Padding = "same"

    def normal(
        self, net: ImageNetwork, now: Feature, before: Feature | None, filters: int
    ) -> Feature:
        """Append the cell at the resolution of ``now``."""
        return self._append(net, now, before, filters, 1)

    def reduction(
        self, net: ImageNetwork, now: Feature, before: Feature | None, filters: int
    ) -> Feature:
        """Append the cell at half the resolution of ``now``."""
        return self._append(net, now, before, filters, 2)

    def _append(
        self, net: ImageNetwork, now: Feature, before: Feature | None, filters: int, stride: int
    ) -> Feature:
        states = [adjust(net, before, now, filters, self.halving), squeeze(net, now, filters)]
        for left, right in zip(self.operations[::2], self.operations[1::2], strict=True):
            terms = [
                self._operation(net, name, states[state], filters, stride if state < 2 else 1)
                for name, state in (left, right)
            ]
            states.append(net.add(*terms))
        return net.concat([fit(net, states[state], filters) for state in self.result])

    def _operation(
        self, net: ImageNetwork, name: str, x: Feature, filters: int, stride: int
    ) -> Feature:
        match name:
            case "skip":
                if stride > 1:
                    return self.halving(net, x, filters)
                return x if x.channels == filters else squeeze(net, x, filters)
            case "max3":
                return fit(net, net.max_pool(x, 3, stride, self.pool_padding), filters)
            case "avg3":
                return fit(net, net.avg_pool(x, 3, stride, self.pool_padding), filters)
            case "sep3" | "sep5" | "sep7":
                return separable(net, x, filters, int(name[3]), stride)
            case "dil3":
                y = net.conv(net.relu(x), x.channels, 3, stride, groups=x.channels, dilation=2)
                return net.batch_norm(net.conv(y, filters, 1))
            case "1x7_7x1":
                # A bottleneck of a quarter of the filters.
                y = squeeze(net, x, filters // 4)
                y = net.batch_norm(net.conv(net.relu(y), y.channels, (1, 7), (1, stride)))
                y = net.batch_norm(net.conv(net.relu(y), y.channels, (7, 1), (stride, 1)))
                return squeeze(net, y, filters)
            case _:
                raise ValueError(f"there is no operation {name!r} in a genotype")


def genotype(
    text: str,
    result: Sequence[int],
    halving: Halving = factorised_reduction,
    pool_padding: Padding = "same",
) -> CellGenotype:
    """Return a cell from text such as ``"sep3 0, skip 1; max3 2, avg3 0"``, two terms per sum."""
    words = text.replace(";", ",").split(",")
    operations = ((name, int(state)) for name, state in (word.split() for word in words))
    return CellGenotype(tuple(operations), tuple(result), halving, pool_padding)
