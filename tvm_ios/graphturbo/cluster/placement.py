"""The rules by which a plan sizes instances, and cuts them into runs of layers."""

from __future__ import annotations

from enum import StrEnum


class Placement(StrEnum):
    """A rule that decides which tensors stay in the local buffers."""

    #: Runs of layers, and sizes of instances, of the least simulated time. Sums continue the layer
    #: before them, as in TVM's kernels.
    FASTEST = "fastest"
    #: That of GraphTurbo's paper: instances fit the global buffer, and all of an instance that can
    #: exchange tiles in the local buffers does (sections 4.1 and 4.2).
    PUBLISHED = "published"
