"""Binding of instances to cores, and of their outputs to buffers (Algorithm 4)."""

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
    """The binding of each instance to cores, and the buffer of its output, by instance number.

    ``bind`` holds the cores along each axis of the first output. ``scope`` is the local buffer, or
    the global one where two readers want the output divided differently.
    """

    bind: tuple[Binding, ...]
    scope: tuple[Scope, ...]


def infer_bindings(
    instances: Instances, order: Sequence[int], dimensions: Dimensions, cores: int
) -> Bindings:
    """Return the bindings of all instances, inferred from the last to the first (Algorithm 4)."""
    bind: list[Binding] = [()] * len(instances)
    scope = [Scope.LOCAL] * len(instances)
    for number in reversed(order):
        tensor, box = main_output(instances, number)
        plain = plain_binding(box, cores)
        if bind[number] and scope[number] is Scope.LOCAL:
            # A binding that a reader asked for stays unless it uses fewer cores: of equals it
            # needs no redistribution.
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
    """Return the output whose axes an instance's binding divides, and the instance's box of it."""
    return next(iter(instances.instances[number].owned.items()))


def plain_binding(box: Box, cores: int) -> Binding:
    """Return the cores along each axis of a box: as many as divide it evenly, outermost axis first.

    Only powers of two up to ``cores`` are tried.
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
    """Return the binding of an input that needs no communication, given that of an output.

    Return () if no divided axis matches an axis of the input: then each core needs all of it.
    """
    inferred = [1] * len(dimensions.of(read))
    for dimension, factor in zip(dimensions.of(output), bound, strict=True):
        axis = dimensions.matching_axis(dimension, read)
        if axis is not None:
            inferred[axis] = factor
    return tuple(inferred) if math.prod(inferred) > 1 or math.prod(bound) == 1 else ()


def divides(bound: Binding, box: Box) -> bool:
    """Return whether a binding gives every core an equal part of a box."""
    return all((end - begin) % factor == 0 for factor, (begin, end) in zip(bound, box, strict=True))
