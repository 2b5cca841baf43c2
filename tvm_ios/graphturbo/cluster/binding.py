"""Which cores compute an instance, and at which buffer its output lies (Algorithm 4)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tvm_ios.graphturbo.box import Box
from tvm_ios.graphturbo.cluster.spilling import Scope
from tvm_ios.graphturbo.dimensions import Dimensions
from tvm_ios.graphturbo.instances import Instances

#: Cores along each axis of a tensor; () where nothing can be inferred.
Binding = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Bindings:
    """For each instance, by number, the binding and the scope of its output.

    Attributes
    ----------
    bind
        Cores along each axis of its first output.
    scope
        The local buffer, or the global one where two readers want it divided differently.
    """

    bind: tuple[Binding, ...]
    scope: tuple[Scope, ...]


def infer_bindings(
    instances: Instances, order: Sequence[int], dimensions: Dimensions, cores: int
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
    """
    bind: list[Binding] = [()] * len(instances)
    scope = [Scope.LOCAL] * len(instances)
    for number in reversed(order):
        tensor, box = main_output(instances, number)
        plain = plain_binding(box, cores)
        if bind[number] and scope[number] is Scope.LOCAL:
            # What a reader asked for stays unless it uses fewer cores: of equals it is the one
            # that needs no redistribution.
            bind[number] = max(bind[number], plain, key=math.prod)
            continue
        bind[number] = plain
        for read in instances.instances[number].needs:
            for producer in instances.sources(number, read):
                made, piece = main_output(instances, producer)
                asked = infer_binding(dimensions, tensor, plain, made)
                if not asked or not divides(asked, piece):
                    continue
                if not bind[producer]:
                    bind[producer] = asked
                elif bind[producer] != asked:
                    scope[producer] = Scope.GLOBAL
    return Bindings(tuple(bind), tuple(scope))


def main_output(instances: Instances, number: int) -> tuple[int, Box]:
    """The output whose axes an instance's binding divides, and what the instance makes of it."""
    return next(iter(instances.instances[number].owned.items()))


def plain_binding(box: Box, cores: int) -> Binding:
    """The cores along each axis: as many as divide an extent evenly, from the outermost axis on.

    Parameters
    ----------
    box
        What is to be divided.
    cores
        Tried are the powers of two up to these.
    """
    left = cores
    binding: list[int] = []
    for begin, end in box:
        factor = 1 << (left.bit_length() - 1)
        while (end - begin) % factor:
            factor //= 2
        binding.append(factor)
        left //= factor
    return tuple(binding)


def infer_binding(dimensions: Dimensions, output: int, bound: Binding, read: int) -> Binding:
    """The binding of an input that needs no communication.

    Parameters
    ----------
    dimensions
        Of the graph.
    output, bound
        A tensor, and how it is bound.
    read
        A tensor that it is computed from.

    Returns
    -------
    tuple of int
        () if what is bound matches no axis of the input: then each core needs all of it.
    """
    inferred = [1] * len(dimensions.of(read))
    for dimension, factor in zip(dimensions.of(output), bound, strict=True):
        axis = dimensions.matching_axis(dimension, read)
        if axis is not None:
            inferred[axis] = factor
    return tuple(inferred) if math.prod(inferred) > 1 or math.prod(bound) == 1 else ()


def divides(bound: Binding, box: Box) -> bool:
    """Whether a binding gives every core equally much of a box."""
    return all((end - begin) % factor == 0 for factor, (begin, end) in zip(bound, box, strict=True))
