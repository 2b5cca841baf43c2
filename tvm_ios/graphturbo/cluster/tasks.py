"""Programs of a cluster: ordered instances as steps, each a run of layers in tiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tvm_ios.devices.memory_hierarchy import MemoryHierarchy
from tvm_ios.graphturbo.box import common, intersects
from tvm_ios.graphturbo.cluster.binding import Bindings, infer_bindings
from tvm_ios.graphturbo.cluster.kernel import Kernel, LayerTask
from tvm_ios.graphturbo.cluster.moves import Move, insert_moves
from tvm_ios.graphturbo.cluster.tiling import Tiler, Tiling
from tvm_ios.graphturbo.footprint import nbytes
from tvm_ios.graphturbo.instances import Instances

#: A piece of a tensor: the instance that makes it (-1: an input of the graph), and the tensor.
Piece = tuple[int, int]
INPUT = -1


@dataclass(frozen=True, slots=True)
class Step:
    """A run of layers of an instance."""

    #: The number of the instance.
    instance: int
    #: The run's tiles.
    tiling: Tiling
    #: A tile of each layer.
    tasks: tuple[LayerTask, ...]
    #: For each tensor that the run reads from outside the bytes of each piece.
    reads: Mapping[int, Mapping[Piece, int]]
    #: Bytes of each piece that it makes for others.
    writes: Mapping[Piece, int]
    #: The moves before the run.
    moves: tuple[Move, ...] = ()


@dataclass(frozen=True)
class ClusterProgram:
    """The program of a cluster: steps that run one after another, and their derivation.

    ``order`` is that of the instances, ``bindings`` their cores and scopes, and ``moves`` the data
    movements between them.
    """

    instances: Instances
    order: tuple[int, ...]
    bindings: Bindings
    moves: tuple[Move, ...]
    steps: tuple[Step, ...] = field(repr=False)


def program_of(
    instances: Instances,
    order: Sequence[int],
    device: MemoryHierarchy,
    tiler: Tiler,
    *,
    most: int | None,
    overlapping: bool = False,
) -> ClusterProgram:
    """Bind instances to cores, insert moves, and cut each instance into runs of layers.

    At most ``most`` layers of an instance exchange tiles in the local buffer; if it is None, as
    many as fit. With ``overlapping``, instructions of different layers will overlap: then a run
    takes the time of the engine that works longest.
    """
    dimensions = tiler.dimensions
    bindings = infer_bindings(instances, order, dimensions, device.cores)
    moves = insert_moves(instances, bindings, dimensions)
    kernels: dict[tuple[int, ...], list[tuple[Tiling, tuple[LayerTask, ...]]]] = {}
    # Instances of a sub-graph are homogeneous where they touch the same tensors (a part of a join
    # may not): a middle one stands for all.
    kinds = [(i.subgraph, *sorted(i.work.boxes)) for i in instances.instances]
    steps: list[Step] = []
    for number in order:
        instance, kind = instances.instances[number], kinds[number]
        if kind not in kernels:
            alike = [other for other, its_kind in enumerate(kinds) if its_kind == kind]
            middle, bound = alike[len(alike) // 2], bindings.bind[number]
            kernel = Kernel(instances, middle, tiler, device, bound, overlapping)
            kernels[kind] = kernel.runs(most)
        before = tuple(move for move in moves if move.reader == number)
        for tiling, tasks in kernels[kind]:
            read = {t: _pieces(instances, number, t) for task in tasks for t in task.loads}
            made = {
                (number, t): nbytes(instances.layers, t, instance.work.boxes[t])
                for task in tasks
                for t in task.stores
                if t in instance.work.boxes
            }
            steps.append(Step(number, tiling, tasks, read, made, before))
            before = ()
    return ClusterProgram(instances, tuple(order), bindings, moves, tuple(steps))


def _pieces(instances: Instances, reader: int, tensor: int) -> dict[Piece, int]:
    """Return the pieces of a tensor that an instance reads, and the bytes of each."""
    layers, instance = instances.layers, instances.instances[reader]
    if tensor not in instance.needs:
        return {(reader, tensor): nbytes(layers, tensor, instance.work.boxes[tensor])}
    box = instance.needs[tensor]
    if tensor not in instances.makers:
        return {(INPUT, tensor): nbytes(layers, tensor, box)}
    pieces = {maker: instances.instances[maker].owned[tensor] for maker in instances.makers[tensor]}
    return {
        (maker, tensor): nbytes(layers, tensor, common(owned, box))
        for maker, owned in pieces.items()
        if intersects(owned, box)
    }
