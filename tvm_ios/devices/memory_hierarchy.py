"""Accelerators as a hierarchy: clusters of cores with local buffers around a global buffer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tvm_ios.devices.figure_files import DeviceError, FigureFiles

_FILES = FigureFiles(
    "memory hierarchy",
    "hierarchy_data",
    {
        "clusters": "",
        "cores": "",
        "compute_units": "",
        "local_buffer": "byte",
        "global_buffer": "byte",
        "memory_bandwidth": "byte/s",
        "global_bandwidth": "byte/s",
        "local_bandwidth": "byte/s",
        "peak_flops": "FLOP/s",
        "vector_flops": "FLOP/s",
        "kernel_overhead": "s",
        "weight_clusters": "",
    },
)


@dataclass(frozen=True, slots=True)
class MemoryHierarchy:
    """An accelerator as in figure 1 of the GraphTurbo paper: clusters of cores with buffers."""

    #: For people.
    name: str
    description: str
    #: Clusters of the device (d), cores of a cluster (c), compute units of a core (u).
    clusters: int
    cores: int
    compute_units: int
    #: Bytes of the local buffer of a core (LB).
    local_buffer: int
    #: Bytes of the buffer that the cores of a cluster share (GB).
    global_buffer: int
    #: Bytes a second from main memory, all clusters together.
    memory_bandwidth: float
    #: Bytes a second between a cluster's cores and its global buffer, and from all its local
    #: buffers together.
    global_bandwidth: float
    local_bandwidth: float
    #: Floating-point operations a second of the device, in convolutions and matrix products.
    peak_flops: float
    #: Floating-point operations a second in all other operators.
    vector_flops: float
    #: Seconds to start a kernel on a cluster.
    kernel_overhead: float
    #: The clusters that one fetch of weights from memory serves.
    weight_clusters: int
    #: For each figure whether it is published, and where, read from the machine, or assumed.
    sources: Mapping[str, str] = field(hash=False)

    @property
    def cluster_local_buffer(self) -> int:
        """Bytes of the local buffers of a cluster: an instance is spread over its cores."""
        return self.cores * self.local_buffer


def load_hierarchy(name: str) -> MemoryHierarchy:
    """Read a hierarchy of the package by its name, or a ``.json`` file of the same form.

    Raise DeviceError if there is none, or its file lacks or misstates a figure.
    """
    file = _FILES.load(name)
    if file.values["weight_clusters"] > file.values["clusters"]:
        raise DeviceError(
            f"the memory hierarchy {name} misstates 'weight_clusters': it has "
            f"{file.values['clusters']} clusters"
        )
    return MemoryHierarchy(file.name, file.description, **file.values, sources=file.sources)


def hierarchy_names() -> tuple[str, ...]:
    """Return the names of the package's hierarchies."""
    return _FILES.names()
