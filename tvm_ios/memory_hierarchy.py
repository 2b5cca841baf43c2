"""Accelerators as a hierarchy: clusters of cores with local buffers around a global buffer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from tvm_ios.devices import DeviceError
from tvm_ios.json_text import JsonError, json_object

#: What a description states, and in which unit; no unit is a count.
_FIGURES = {
    "clusters": "",
    "cores": "",
    "compute_units": "",
    "local_buffer": "byte",
    "global_buffer": "byte",
    "memory_bandwidth": "byte/s",
    "global_bandwidth": "byte/s",
    "local_bandwidth": "byte/s",
    "peak_flops": "FLOP/s",
    "kernel_overhead": "s",
}


@dataclass(frozen=True, slots=True)
class MemoryHierarchy:
    """The abstraction of figure 1 of the GraphTurbo paper.

    Attributes
    ----------
    name, description
        For people.
    clusters, cores, compute_units
        Clusters of the device (d), cores of a cluster (c), compute units of a core (u).
    local_buffer
        Bytes of the local buffer of a core (LB).
    global_buffer
        Bytes of the buffer that the cores of a cluster share (GB).
    memory_bandwidth
        Bytes a second from main memory, all clusters together.
    global_bandwidth, local_bandwidth
        Bytes a second between a cluster's cores and its global buffer, and from all its local
        buffers together.
    peak_flops
        Floating-point operations a second of the device.
    kernel_overhead
        Seconds to start a kernel on a cluster.
    sources
        For each figure whether it is published, and where, read from the machine, or assumed.
    """

    name: str
    description: str
    clusters: int
    cores: int
    compute_units: int
    local_buffer: int
    global_buffer: int
    memory_bandwidth: float
    global_bandwidth: float
    local_bandwidth: float
    peak_flops: float
    kernel_overhead: float
    sources: Mapping[str, str] = field(hash=False)

    @property
    def cluster_local_buffer(self) -> int:
        """Bytes of the local buffers of a cluster: an instance is spread over its cores."""
        return self.cores * self.local_buffer


def load_hierarchy(name: str) -> MemoryHierarchy:
    """Read a hierarchy that comes with the package, or a file of the same form.

    Parameters
    ----------
    name
        One of :func:`hierarchy_names`, or the path of a ``.json`` file.

    Raises
    ------
    DeviceError
        If there is none, or its file lacks or misstates a figure.
    """
    if name.endswith(".json"):
        path = Path(name)
        if not path.is_file():
            raise DeviceError(f"there is no file {name} of a memory hierarchy")
        text = path.read_text(errors="replace")
    elif name in hierarchy_names():
        text = (_folder() / f"{name}.json").read_text()
    else:
        known = ", ".join(hierarchy_names())
        raise DeviceError(
            f"no memory hierarchy is called {name!r}: use {known}, or the path of a .json file"
        )
    try:
        return _hierarchy(name, json_object(text))
    except JsonError as error:
        raise DeviceError(f"the file {name} is no memory hierarchy: {error}") from error


def hierarchy_names() -> tuple[str, ...]:
    """The hierarchies that come with the package."""
    names = (file.name for file in _folder().iterdir())
    return tuple(sorted(n.removesuffix(".json") for n in names if n.endswith(".json")))


def _folder() -> Any:
    return resources.files("tvm_ios") / "hierarchy_data"


def _hierarchy(origin: str, data: dict[str, Any]) -> MemoryHierarchy:
    if data.get("format") != "tvm-ios memory hierarchy" or data.get("version") != 1:
        raise DeviceError(f"{origin} is not a tvm-ios memory hierarchy of version 1")
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for key, unit in _FIGURES.items():
        try:
            figure = data["figures"][key]
            value, sources[key] = float(figure["value"]), str(figure["source"])
            right_unit = str(figure["unit"]) == unit
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise DeviceError(
                f"the device {origin} needs a value, unit and source for {key!r}"
            ) from error
        counts = unit in ("", "byte")
        positive = value >= 0 if key == "kernel_overhead" else value > 0
        if not (right_unit and positive and math.isfinite(value)) or (counts and value % 1):
            raise DeviceError(
                f"the device {origin} misstates {key!r}: give it in {unit or 'whole numbers'}"
            )
        values[key] = int(value) if counts else value
    return MemoryHierarchy(
        str(data.get("name", origin)), str(data.get("description", "")), **values, sources=sources
    )
