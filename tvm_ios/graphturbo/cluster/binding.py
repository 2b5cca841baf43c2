"""Which cores compute an instance, and at which buffer its output lies (Algorithm 4)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from tvm_ios.graphturbo.box import Box
from tvm_ios.graphturbo.dimensions import Dimensions
from tvm_ios.graphturbo.instances import Instances

#: Cores along each axis of a tensor; () is not known yet.
Binding = tuple[int, ...]


class Scope(Enum):
    """Where a tensor lies, nearest first."""

    LOCAL = "local buffer"
    GLOBAL = "global buffer"
    MEMORY = "memory"


@dataclass(frozen=True, slots=True)
class Bindings:
    """For each instance, by number, the binding and the scope of its output.

    Attributes
    ----------
    bind
        Cores along each axis of its first output.
    scope
        Local, or global where a reader would need it divided otherwise.
    """

    bind: tuple[Binding, ...]
    scope: tuple[Scope, ...]


def infer_bindings(
    instances: Instances,
    order: Sequence[int],
    dimensions: Dimensions,
    cores: int,
    unbindable: Mapping[int, frozenset[int]] | None = None,
) -> Bindings:
    """Algorithm 4: from the last instance of an order to the first.

    Parameters
    ----------
    instances, order
        All instances, and how they run.
    dimensions
        Say which axis of an input goes with an axis of the output.
    cores
        Of a cluster.
    unbindable
        For some tensors the axes that may not be divided over cores.
    """
    banned = unbindable or {}
    made = instances.instances
    bind: list[Binding] = [()] * len(instances)
    scope = [Scope.LOCAL] * len(instances)
    for number in reversed(order):
        tensor, box = next(iter(made[number].owned.items()))
        plain = plain_binding(box, cores, banned.get(tensor, frozenset()))
        if bind[number] and scope[number] is Scope.LOCAL:
            # What a reader asked for stays unless it uses fewer cores: of equals it is the one
            # that needs no redistribution.
            asked_cores = math.prod(bind[number])
            valid = _valid(bind[number], box, banned.get(tensor, frozenset()))
            if not valid or math.prod(plain) > asked_cores:
                bind[number] = plain
            continue
        bind[number] = plain
        for read in made[number].needs:
            for producer in instances.sources(number, read):
                first, piece = next(iter(made[producer].owned.items()))
                asked = infer_binding(dimensions, tensor, plain, first)
                if not asked or not _valid(asked, piece, banned.get(first, frozenset())):
                    continue
                if not bind[producer]:
                    bind[producer] = asked
                elif bind[producer] != asked:
                    scope[producer] = Scope.GLOBAL
    return Bindings(tuple(bind), tuple(scope))


def plain_binding(box: Box, cores: int, banned: frozenset[int] = frozenset()) -> Binding:
    """As many cores as divide an extent evenly, from the outermost axis inwards.

    Parameters
    ----------
    box
        What is to be divided.
    cores
        Tried are the powers of two up to these.
    banned
        Axes that may not be divided.
    """
    left = cores
    found: list[int] = []
    for axis, (begin, end) in enumerate(box):
        factor = 1 if axis in banned else 1 << (left.bit_length() - 1)
        while (end - begin) % factor:
            factor //= 2
        found.append(factor)
        left //= factor
    return tuple(found)


def infer_binding(dimensions: Dimensions, output: int, bound: Binding, read: int) -> Binding:
    """The binding of an input that needs no communication; () if no axis of it goes with one."""
    found = [1] * len(dimensions.of(read))
    matched = False
    for dimension, factor in zip(dimensions.of(output), bound, strict=True):
        axis = dimensions.matching_axis(dimension, read)
        if axis is not None:
            found[axis], matched = factor, True
    return tuple(found) if matched else ()


def _valid(bound: Binding, box: Box, banned: frozenset[int]) -> bool:
    return all(
        (end - begin) % factor == 0 and not (factor > 1 and axis in banned)
        for axis, (factor, (begin, end)) in enumerate(zip(bound, box, strict=True))
    )
