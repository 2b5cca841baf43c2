"""Cells as searches publish them: a list of operations on numbered states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm_ios.zoo.cells.stacking import adjust, factorised_reduction, separable, squeeze
from tvm_ios.zoo.writing.network import Feature, ImageNetwork


@dataclass(frozen=True, slots=True)
class CellGenotype:
    """A cell. States 0 and 1 are the tensor before and the tensor now, at the cell's channels.

    Attributes
    ----------
    operations
        Each two of them are summed to the next state, 2, 3, ...: a name and the state it reads.
        In a reduction cell those that read states 0 and 1 have a stride of two.
    result
        The states that the cell concatenates.
    """

    operations: tuple[tuple[str, int], ...]
    result: tuple[int, ...]

    def normal(self, net: ImageNetwork, now: Feature, before: Feature, filters: int) -> Feature:
        """Append the cell at the resolution of the tensor now."""
        states = [adjust(net, before, now, filters), squeeze(net, now, filters)]
        return self._append(net, states, 1)

    def reduction(
        self, net: ImageNetwork, now: Feature, before: Feature | None, filters: int
    ) -> Feature:
        """Append the cell at half the resolution; the first of a network reads one tensor twice."""
        before = now if before is None else before
        states = [adjust(net, before, now, filters), squeeze(net, now, filters)]
        return self._append(net, states, 2)

    def _append(self, net: ImageNetwork, states: list[Feature], stride: int) -> Feature:
        for left, right in zip(self.operations[::2], self.operations[1::2], strict=True):
            terms = [
                _operation(net, name, states[state], stride if state < 2 else 1)
                for name, state in (left, right)
            ]
            states.append(net.add(*terms))
        return net.concat([states[state] for state in self.result])


def genotype(text: str, result: Sequence[int]) -> CellGenotype:
    """A cell from words such as ``"sep3 0, skip 1; max3 2, avg3 0"``, a sum each."""
    words = text.replace(";", ",").split(",")
    operations = ((name, int(state)) for name, state in (word.split() for word in words))
    return CellGenotype(tuple(operations), tuple(result))


def _operation(net: ImageNetwork, name: str, x: Feature, stride: int) -> Feature:
    match name:
        case "skip":
            return x if stride == 1 else factorised_reduction(net, x, x.channels)
        case "max3":
            return net.max_pool(x, 3, stride)
        case "avg3":
            return net.avg_pool(x, 3, stride)
        case "sep3" | "sep5" | "sep7":
            return separable(net, x, x.channels, int(name[3]), stride)
        case "dil3":
            y = net.conv(net.relu(x), x.channels, 3, stride, groups=x.channels, dilation=2)
            return net.batch_norm(net.conv(y, x.channels, 1))
        case "1x7_7x1":
            y = net.conv(net.relu(x), x.channels, (1, 7), (1, stride))
            return net.batch_norm(net.conv(y, x.channels, (7, 1), (stride, 1)))
        case _:
            raise ValueError(f"there is no operation {name!r} in a genotype")
