"""Operators that move data between instances (section 3.5, figures 8 and 9)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tvm_ios.graphturbo.cluster.binding import Binding, Bindings, infer_binding, main_output
from tvm_ios.graphturbo.cluster.spilling import Scope
from tvm_ios.graphturbo.dimensions import Dimensions
from tvm_ios.graphturbo.footprint import nbytes
from tvm_ios.graphturbo.instances import Instances


class Movement(Enum):
    """The kinds of operators that move data."""

    CONCATENATE = "concatenate"
    COPY = "copy"
    REDISTRIBUTE = "redistribute"


@dataclass(frozen=True, slots=True)
class Move:
    """An operator that moves a tensor's data from producers to a reader, before the reader runs.

    It concatenates the pieces of several producers, copies from the global buffer to the local one,
    or redistributes between cores. ``binding`` is that of its result: the reader's, and of two that
    differ the smaller factor along each axis.
    """

    movement: Movement
    tensor: int
    reader: int
    producers: tuple[int, ...]
    binding: Binding
    nbytes: int


def insert_moves(
    instances: Instances, bindings: Bindings, dimensions: Dimensions
) -> tuple[Move, ...]:
    """Return the moves before each instance, in the order in which they run."""
    return tuple(
        move
        for reader, instance in enumerate(instances.instances)
        for tensor in instance.needs
        for move in _before(instances, bindings, dimensions, reader, tensor)
    )


def _before(
    instances: Instances, bindings: Bindings, dimensions: Dimensions, reader: int, tensor: int
) -> list[Move]:
    producers = instances.sources(reader, tensor)
    if not producers:
        return []
    output, _ = main_output(instances, reader)
    wanted = infer_binding(dimensions, output, bindings.bind[reader], tensor)
    held = {p: _held(instances, bindings, dimensions, p, tensor) for p in producers}
    # Without a matching axis every core of the reader needs all pieces: they stay as they are.
    sides = [*held.values(), *([wanted] if wanted else [])]
    result = tuple(map(min, zip(*sides, strict=True)))
    moves: list[Move] = []
    for producer in producers:
        piece = instances.instances[producer].owned[tensor]
        size = nbytes(instances.layers, tensor, piece)
        if bindings.scope[producer] is not Scope.LOCAL:
            moves.append(Move(Movement.COPY, tensor, reader, (producer,), result, size))
        elif held[producer] != result:
            moves.append(Move(Movement.REDISTRIBUTE, tensor, reader, (producer,), result, size))
    if len(producers) > 1:
        size = nbytes(instances.layers, tensor, instances.instances[reader].needs[tensor])
        moves.append(Move(Movement.CONCATENATE, tensor, reader, producers, result, size))
    return moves


def _held(
    instances: Instances, bindings: Bindings, dimensions: Dimensions, producer: int, tensor: int
) -> Binding:
    """Return the binding of a piece in its producer, which divides it over the producer's cores.

    A producer's binding is that of its first output.
    """
    output, _ = main_output(instances, producer)
    bound = bindings.bind[producer]
    if output == tensor:
        return bound
    none = (1,) * len(dimensions.of(tensor))
    return infer_binding(dimensions, output, bound, tensor) or none
