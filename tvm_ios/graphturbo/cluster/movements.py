"""The operators that move data between instances (section 3.5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from tvm_ios.graphturbo.box import Box, volume
from tvm_ios.graphturbo.cluster.binding import Binding, Bindings, Scope
from tvm_ios.graphturbo.footprint import nbytes
from tvm_ios.graphturbo.instances import Instances


class Movement(Enum):
    """What an auxiliary operator does."""

    CONCATENATE = "concatenate"
    COPY = "copy"
    REDISTRIBUTE = "redistribute"
    SPLIT = "split"


@dataclass(frozen=True, slots=True)
class Move:
    """An operator before an instance.

    Attributes
    ----------
    movement
        Collect the pieces of several producers; copy what does not lie in the local buffer into
        it; exchange between cores what lies divided otherwise; or take the part of a piece that
        only some of its readers need.
    tensor, reader
        Of which tensor, before which instance.
    producers
        Instances whose pieces it reads.
    binding
        Of its result: of two that differ the smaller factor along each axis.
    nbytes
        That it moves.
    """

    movement: Movement
    tensor: int
    reader: int
    producers: tuple[int, ...]
    binding: Binding
    nbytes: int


def insert_movements(instances: Instances, bindings: Bindings) -> tuple[Move, ...]:
    """The moves before each instance, in the order in which they run.

    Parameters
    ----------
    instances
        With their dependences.
    bindings
        Binding and scope of each instance's output.
    """
    moves: list[Move] = []
    for reader, instance in enumerate(instances.instances):
        for tensor, need in instance.needs.items():
            producers = instances.sources(reader, tensor)
            moves += _before(instances, bindings, reader, tensor, need, producers)
    return tuple(moves)


def _before(
    instances: Instances,
    bindings: Bindings,
    reader: int,
    tensor: int,
    need: Box,
    producers: tuple[int, ...],
) -> list[Move]:
    layers = instances.layers
    moves: list[Move] = []
    pieces: Mapping[int, Box] = {p: instances.instances[p].owned[tensor] for p in producers}
    bound = [bindings.bind[p] for p in producers]
    common = tuple(map(min, zip(*bound, strict=True))) if len({*map(len, bound)}) == 1 else ()
    for producer, piece in pieces.items():
        size = nbytes(layers, tensor, piece)
        if volume(piece) > volume(need) and len(producers) == 1:
            part = nbytes(layers, tensor, need)
            moves.append(Move(Movement.SPLIT, tensor, reader, (producer,), common, part))
            size = part
        if bindings.scope[producer] is not Scope.LOCAL:
            moves.append(Move(Movement.COPY, tensor, reader, (producer,), common, size))
        elif bindings.bind[producer] != common:
            moves.append(Move(Movement.REDISTRIBUTE, tensor, reader, (producer,), common, size))
    if len(producers) > 1:
        size = nbytes(layers, tensor, need)
        moves.append(Move(Movement.CONCATENATE, tensor, reader, producers, common, size))
    return moves
