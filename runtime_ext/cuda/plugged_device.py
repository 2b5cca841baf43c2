"""A timing device of another package, as a device of measured searches and as a session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runtime_ext.cuda.launch_graphs import launch_graph
from runtime_ext.execution.model_program import ModelProgram
from tvm_ios.files.array_files import Array
from tvm_ios.measuring.device import NO_CONSTANTS, Function, launches_alone
from tvm_ios.measuring.launch_graph import LaunchGraph
from tvm_ios.measuring.timing_device import RunningDevice, TimingDevice, outputs_of, timed
from tvm_ios.program.program import Program


@dataclass(frozen=True)
class PluggedDevice:
    """A timing device with a number of streams; see :class:`tvm_ios.measuring.device.Device`."""

    device: TimingDevice
    lanes: int
    splits = False

    @property
    def concurrency(self) -> int:
        """The number of graphs that the device times at once."""
        return self.device.timing.concurrency

    @property
    def name(self) -> str:
        """The device's name and version, which are written into logs."""
        return f"{self.device.name} {self.device.version}"

    def time_program(
        self, program: Program, function: Function, constants: Mapping[str, Array] = NO_CONSTANTS
    ) -> list[float]:
        """Return samples, in seconds, of a stage's program, with the edge to the next stage.

        Raise UntimedError if the device has none.
        """
        timing = self.device.timing
        between = max(0.0, timing.edge - timing.launch_overhead)
        return [between + seconds for seconds in self._samples(program, function, constants)]

    def profile_phases(self, program: Program, function: Function) -> list[list[float]]:
        """Return samples of the seconds of each launch of a one-lane program, run alone."""
        return [self._samples(alone, function) for alone in launches_alone(program)]

    def _samples(
        self, program: Program, function: Function, constants: Mapping[str, Array] = NO_CONSTANTS
    ) -> list[float]:
        graph = launch_graph(program, function, self.device.arch, constants)
        return list(timed(self.device, graph).samples)

    def launch_overhead(self) -> list[float]:
        """Return the device's own figure of the launch overhead in its times."""
        return [self.device.timing.launch_overhead]


class PluggedSession:
    """A program on a device that computes; see :class:`tvm_ios.contest.contest.AnySession`."""

    def __init__(self, device: RunningDevice, model: ModelProgram, graph: LaunchGraph) -> None:
        self._device, self._model, self._graph = device, model, graph
        self._inputs: dict[str, Array] = {}
        self._outputs: Mapping[str, Array] = {}

    def run(self, /, **inputs: Any) -> None:
        """Run once; inputs set before stay."""
        self._inputs |= {port.buffer: inputs[port.name] for port in self._model.inputs}
        self._outputs = outputs_of(self._device, self._graph, self._inputs)

    def get_output(self, which: int, /) -> Array:
        """Return an output of the last run."""
        return self._outputs[self._model.outputs[which].buffer]

    def close(self) -> None:
        """Do nothing, since nothing is open."""
