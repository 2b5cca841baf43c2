"""A tuning task: a contraction of a model, and how often a run computes it."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from runtime_ext.kernels.spec import Contraction


@dataclass(frozen=True)
class ContractionTask:
    """A contraction of a model to be tuned, once for all places that compute it."""

    #: The name of the first unit, or of merged units joined by ``+``, that has it.
    name: str
    #: The contraction with the default blocking.
    spec: Contraction
    #: How many times a run of the model computes it.
    weight: int
    #: In how many places it could replace several units, by computing them merged.
    merged: int

    @property
    def flops(self) -> int:
        """Floating-point operations, padding included."""
        spec = self.spec
        pixels = spec.batch * prod(spec.window.output)
        return 2 * pixels * prod(spec.window.kernel) * spec.channels * sum(spec.parts)

    @property
    def text(self) -> str:
        """A description for people: kernel, stride, channels, image size and groups."""
        spec, window = self.spec, self.spec.window
        height, width = window.output
        size = f"{width}" if height == 1 else f"{height}x{width}"
        kernel = "x".join(map(str, window.kernel))
        stride = "" if window.strides == (1, 1) else f"/{max(window.strides)}"
        groups = "" if spec.groups == 1 else f", {spec.groups} groups"
        inputs = spec.channels * spec.groups
        return f"{kernel}{stride}, {inputs} to {sum(spec.parts)} at {size}{groups}"
