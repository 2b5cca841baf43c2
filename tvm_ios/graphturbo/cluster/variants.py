"""Simulated variants: layer by layer, AStitch's way, and the four of the paper's figure 15."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from tvm_ios.devices.memory_hierarchy import MemoryHierarchy
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.graphturbo.cluster.placement import Placement
from tvm_ios.graphturbo.cluster.simulate import Optimisations, Simulation, simulate
from tvm_ios.graphturbo.cluster.spilling import Scope
from tvm_ios.graphturbo.cluster.tasks import ClusterProgram, program_of
from tvm_ios.graphturbo.cluster.tiling import Tiler
from tvm_ios.graphturbo.dimensions import Dimensions
from tvm_ios.graphturbo.grouping import SubGraph, group
from tvm_ios.graphturbo.instances import Instances, split_into_instances
from tvm_ios.graphturbo.layers import Layers, form_layers
from tvm_ios.graphturbo.orders import InstanceOrder, order_instances
from tvm_ios.graphturbo.split_info import Splitter
from tvm_ios.progress import Progress, silent

#: Each of figure 15's bars adds to the one before; ``astitch`` is from figure 14.
#:
#: - ``layers``: a kernel for each layer, results in memory (TVM)
#: - ``astitch``: one kernel; results stay whole in local buffers, or go to memory
#: - ``global``: kernels are sub-graphs, results in the global buffer
#: - ``local``: layers of a kernel exchange tiles in the local buffers, which keep what fits
#: - ``instances``: sub-graphs are split, and their instances ordered
#: - ``prefetch``: instructions of different layers overlap
VARIANTS = ("layers", "astitch", "global", "local", "instances", "prefetch")

#: The most layers that exchange tiles where time decides.
_STITCHED = 8

#: The most instances whose optimal order is searched for.
_EXACT = 32

#: The most instances that are simulated if larger ones are: starting more kernels takes too long.
_MOST = 512

#: Variants whose instances are the fastest of several sizes.
_SPLIT = ("instances", "prefetch")

_RULES = {
    "layers": Optimisations(Scope.MEMORY, kernel_a_layer=True),
    "astitch": Optimisations(Scope.LOCAL, spills_to_memory=True),
    "global": Optimisations(Scope.GLOBAL),
    "local": Optimisations(Scope.LOCAL),
    "instances": Optimisations(Scope.LOCAL),
    "prefetch": Optimisations(Scope.LOCAL, across_layers=True),
}


@dataclass(frozen=True, slots=True)
class Chosen:
    """The bytes that instances were sized to, and the order in which they run."""

    capacity: int
    order: InstanceOrder


@dataclass(frozen=True)
class Variants:
    """The variants of a network with the batch of a cluster, each simulated when asked for.

    ``with_sums`` says whether sums continue the layer before them; by default if the fastest
    placement is sought.
    """

    graph: OpGraph
    device: MemoryHierarchy
    placement: Placement = Placement.FASTEST
    progress: Progress = field(default=silent, repr=False, compare=False)
    with_sums: bool | None = None

    def __getitem__(self, variant: str) -> Simulation:
        """Return the simulation of a variant; names are those of :data:`VARIANTS`."""
        if variant in _SPLIT:
            self.split(variant)
        elif variant not in self._simulated:
            program = self.program(variant)
            self._simulated[variant] = simulate(program, self.device, _RULES[variant])
        return self._simulated[variant]

    def throughput(self, variant: str) -> float:
        """Return the images a second of all clusters."""
        return self.graph.batch * self.device.clusters / self[variant].seconds

    def program(self, variant: str) -> ClusterProgram:
        """Return the program of a variant."""
        if variant in _SPLIT:
            return self.split(variant)[1]
        if variant == "local":
            return self._unsplit(self._coarse(self.device.global_buffer), self._most)
        if variant == "global":
            return self._unsplit(self._coarse(self.device.global_buffer), 1)
        everything = SubGraph((1 << len(self.layers)) - 1, None)
        return self._unsplit((everything,), 1)

    @cached_property
    def layers(self) -> Layers:
        """The layers of the graph."""
        fastest = self.placement is Placement.FASTEST
        return form_layers(
            self.graph, with_sums=fastest if self.with_sums is None else self.with_sums
        )

    @property
    def _most(self) -> int | None:
        """The most layers that are stitched; None if all that fit are."""
        return _STITCHED if self.placement is Placement.FASTEST else None

    @cached_property
    def tiler(self) -> Tiler:
        """The tiler for the local buffers."""
        buffer = self.device.cluster_local_buffer
        return Tiler(self.layers, Dimensions(self.graph), buffer)

    def split(self, variant: str) -> tuple[Chosen, ClusterProgram]:
        """Return the fastest instances of several sizes, the whole batch included, as a program."""
        if variant not in self._programs:
            rules = _RULES[variant]
            ways: list[tuple[ClusterProgram, Chosen]] = []
            for done, way in enumerate(self._ways):
                self.progress(f"sizes of {variant}", done, len(self._ways))
                ways.append((self._compiled(*way, rules), way[1]))
            self.progress(f"sizes of {variant}", len(ways), len(ways))
            if rules.across_layers:
                chosen, program = self.split("instances")
                ways.append((program, chosen))
            timed = ((simulate(way[0], self.device, rules), way) for way in ways)
            simulation, (program, chosen) = min(timed, key=lambda way: way[0].seconds)
            self._programs[variant] = chosen, program
            self._simulated[variant] = simulation
        return self._programs[variant]

    def _compiled(
        self, instances: Instances, chosen: Chosen, rules: Optimisations
    ) -> ClusterProgram:
        return program_of(
            instances,
            chosen.order.order,
            self.device,
            self.tiler,
            most=self._most,
            overlapping=rules.across_layers,
        )

    @cached_property
    def _programs(self) -> dict[str, tuple[Chosen, ClusterProgram]]:
        return {}

    @cached_property
    def _ways(self) -> list[tuple[Instances, Chosen]]:
        """Instances of several sizes: of the local buffers, and of shares of the global one.

        Pieces that wait for other instances, and weights, take room there too (section 3.6). The
        published rule has one size.
        """
        buffer, local = self.device.global_buffer, self.device.cluster_local_buffer
        sizes = [buffer]
        if self.placement is Placement.FASTEST:
            sizes += [*(b for part in (2, 4) if (b := buffer // part) > local), local]
        ways: dict[tuple[tuple[int, int], ...], tuple[Instances, Chosen]] = {}
        splits = [(capacity, self._coarse(capacity)) for capacity in sizes]
        if self.placement is Placement.FASTEST:
            # Include sub-graphs that are not split at all.
            splits.append((buffer, tuple(SubGraph(s.layers, None) for s in splits[0][1])))
        for capacity, subgraphs in splits:
            instances = split_into_instances(self.layers, subgraphs)
            if not ways or len(instances) <= _MOST:
                order = order_instances(instances, exact=len(instances) <= _EXACT)[0]
                key = tuple((s.layers, s.factor) for s in subgraphs)
                ways.setdefault(key, (instances, Chosen(capacity, order)))
        return list(ways.values())

    @cached_property
    def _simulated(self) -> dict[str, Simulation]:
        return {}

    @cached_property
    def _grouped(self) -> dict[int, tuple[SubGraph, ...]]:
        return {}

    def _coarse(self, capacity: int) -> tuple[SubGraph, ...]:
        if capacity not in self._grouped:
            self._grouped[capacity] = group(Splitter(self.layers, capacity, self.device.cores))
        return self._grouped[capacity]

    def _unsplit(self, subgraphs: tuple[SubGraph, ...], most: int | None) -> ClusterProgram:
        """Return the program of sub-graphs that each compute the whole batch as one instance."""
        whole = [SubGraph(subgraph.layers, None) for subgraph in subgraphs]
        instances = split_into_instances(self.layers, whole)
        return program_of(instances, range(len(instances)), self.device, self.tiler, most=most)


def tune_batch(
    run: Callable[[int], float], most: int, fits: Callable[[int], bool] = lambda _: True
) -> int:
    """Return the batch of a cluster with the highest throughput (section 5.1).

    ``run`` returns the seconds of a batch. Powers of two up to ``most`` that fit are tried; one
    always fits.
    """
    batches = [1 << i for i in range(most.bit_length()) if 1 << i <= most]
    return max((b for b in batches if b == 1 or fits(b)), key=lambda b: b / run(b))
