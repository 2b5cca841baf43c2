"""The CUDA executor: a lane is a stream, and a run is one launch of a captured graph.

The same calls issue a run eagerly and into a capture: fork and join are events, so that work that
is given a stream, such as that of a library, can be captured too. The first run is eager and waits
after every launch: CUDA loads code lazily, which a capture forbids, and if a kernel fails its unit
is known.

The C++ library has another one (``runtime_ext/native/cuda.cc``), for executables that run without
Python. Python has its own because bundles measure and run on machines with NVIDIA's driver and
neither TVM nor tvm-ffi, which the library is linked with; and because it does more: it calls cuDNN,
captures several runs into one graph to time them, issues launches without a graph, and takes any
device. So users of Python run the executor that was also measured. Both follow the same rule for
events (:mod:`runtime_ext.cuda.event_graph`) and are tested on a stand-in for the driver.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from runtime_ext.cuda.bound_calls import KernelCall, bound_calls, require_resident
from runtime_ext.cuda.event_graph import EventGraph, Node, event_graph
from runtime_ext.cuda.machine_code.launchable import Launchable, LaunchedWork
from runtime_ext.cuda.nvidia.cudnn_convolution import CudnnLanes
from runtime_ext.cuda.nvidia.driver import OpenDevice, call, driver, open_device
from runtime_ext.cuda.nvidia.memory import DeviceMemory
from runtime_ext.cuda.nvidia.resources import DriverHandle, event, shared_module, stream
from runtime_ext.execution.executor import Exclusive, Span
from runtime_ext.native_errors import CudaError, KernelError
from tvm_ios.program.memory_plan import MemoryPlan
from tvm_ios.program.program import Program


class CudaExecutor:
    """An executor of a program with one stream per lane; not re-entrant.

    ``kernels`` maps the program's symbols to kernels or library calls, and ``addresses`` are those
    of its buffers on the device; the caller keeps the memory. Runs replay a captured graph, or are
    issued launch by launch if not ``captured``. Raise KeyError if a symbol has no kernel,
    ProgramError if a launch is not of a whole kernel, ``[0, 1)``, and CudaError if the device
    rejects the kernels, or a library that they need is missing.
    """

    def __init__(
        self,
        program: Program,
        kernels: Mapping[str, LaunchedWork],
        addresses: Sequence[int],
        *,
        device: OpenDevice,
        captured: bool = True,
    ) -> None:
        self.device = device
        self._program = program
        self._graph = event_graph(program)
        device.use()
        self._modules = {
            symbol: shared_module(device, kernel.cubin)
            for symbol in program.kernels
            if isinstance(kernel := kernels[symbol], Launchable)
        }
        for symbol, module in self._modules.items():
            require_resident(device, kernels[symbol], module)
        used = {node.lane for node in self._graph.nodes} | {self._graph.origin}
        self._streams = {lane: stream(device) for lane in used}
        self._cudnn = CudnnLanes(device, {lane: s.handle for lane, s in self._streams.items()})
        self._calls = bound_calls(
            program, self._graph, kernels, addresses, self._modules, self._cudnn
        )
        self._begin = event(device)
        self._events = {number: event(device) for number in self._graph.recorded}
        self._captured = captured
        self._replay: DriverHandle | None = None
        self._warm = False
        self._exclusive = Exclusive()

    @property
    def origin(self) -> Any:
        """The stream on which runs begin and end."""
        return self._streams[self._graph.origin].handle

    @property
    def launches(self) -> int:
        """The number of launches of a run."""
        return len(self._graph.nodes)

    def run(self) -> None:
        """Run the program once and wait until all of it has finished."""
        with self._exclusive:
            self.device.use()
            if self._warm_up():
                return
            self._start()
            self._finish()

    def benchmark(self, number: int, repeat: int) -> list[float]:
        """Return samples of a run's seconds by the device's clock, each a mean of ``number``."""
        with self._exclusive:
            self.device.use()
            self._warm_up()
            begin, end = (event(self.device, timing=True) for _ in range(2))
            samples: list[float] = []
            for _ in range(repeat):
                call("cuEventRecord", begin.handle, self.origin)
                for _ in range(number):
                    self._start()
                call("cuEventRecord", end.handle, self.origin)
                self._finish()
                samples.append(call("cuEventElapsedTime", begin.handle, end.handle) * 1e-3 / number)
            return samples

    def profile(self) -> tuple[Span, ...]:
        """Run once and return the span of every launch, lane by lane, timed by events."""
        with self._exclusive:
            self.device.use()
            self._warm_up()
            timed = TimedLaunches(self.device, len(self._graph.nodes), in_graph=self._captured)
            if self._captured:
                # With events in the graph the times do not include the host's launch times.
                replay = self._capture(1, timed)
                call("cuGraphLaunch", replay.handle, self.origin)
            else:
                self._issue(timed)
            self._finish()
            return timed.spans(self._graph)

    def capture(self, repeats: int = 1) -> DriverHandle:
        """Return a graph of ``repeats`` runs in sequence, to be launched on :attr:`origin`."""
        with self._exclusive:
            self.device.use()
            self._warm_up()
            return self._capture(repeats)

    def close(self) -> None:
        """Release streams, events and the graph; later runs are refused."""
        self._exclusive.close()
        self._cudnn.close()
        resources = [*self._streams.values(), self._begin, *self._events.values()]
        for resource in [self._replay, *resources]:
            if resource is not None:
                resource.close()

    def _warm_up(self) -> bool:
        """Run for the first time, and capture later runs; return False if that is done already."""
        if self._warm:
            return False
        self._issue(checked=True)
        self._finish()
        if self._captured:
            self._replay = self._capture(1)
        self._warm = True
        return True

    def _start(self) -> None:
        if self._replay is None:
            self._issue()
        else:
            call("cuGraphLaunch", self._replay.handle, self.origin)

    def _finish(self) -> None:
        try:
            call("cuStreamSynchronize", self.origin)
        except CudaError as error:
            raise KernelError(
                f"a kernel of the program failed: {error}; a first run in a new process says which"
            ) from error

    def _capture(self, repeats: int, timed: TimedLaunches | None = None) -> DriverHandle:
        mode = driver().CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        with _garbage_collection_off():
            call("cuStreamBeginCapture", self.origin, mode)
            try:
                for _ in range(repeats):
                    self._issue(timed)
            except BaseException:
                # The streams can be used again only when the capture has ended.
                with suppress(CudaError):
                    call("cuStreamEndCapture", self.origin)
                raise
            graph = call("cuStreamEndCapture", self.origin)
        description = DriverHandle(self.device, graph, "cuGraphDestroy")
        replay = DriverHandle(
            self.device, call("cuGraphInstantiate", graph, 0), "cuGraphExecDestroy"
        )
        description.close()
        call("cuGraphUpload", replay.handle, self.origin)
        return replay

    def _issue(self, timed: TimedLaunches | None = None, *, checked: bool = False) -> None:
        """Issue all launches of a run on their streams."""
        graph = self._graph
        if timed is not None:
            timed.record(timed.origin, self.origin)
        if any(node.forks for node in graph.nodes):
            call("cuEventRecord", self._begin.handle, self.origin)
        for number, node in enumerate(graph.nodes):
            queue = self._streams[node.lane].handle
            if node.forks:
                call("cuStreamWaitEvent", queue, self._begin.handle, 0)
            for other in node.awaits:
                call("cuStreamWaitEvent", queue, self._events[other].handle, 0)
            if timed is not None:
                timed.record(timed.before[number], queue)
            # An event is no kernel that another may follow early.
            self._launch(number, node, queue, checked, early=timed is None)
            if timed is not None:
                timed.record(timed.after[number], queue)
            if number in self._events:
                call("cuEventRecord", self._events[number].handle, queue)
        for number in graph.joins:
            call("cuStreamWaitEvent", self.origin, self._events[number].handle, 0)

    def _launch(self, number: int, node: Node, queue: Any, checked: bool, *, early: bool) -> None:
        try:
            bound = self._calls[number]
            if isinstance(bound, KernelCall):
                bound.issue(early=early)
            else:
                bound.issue()
            if checked:
                call("cuStreamSynchronize", queue)
        except CudaError as error:
            launch = node.launch
            raise KernelError(
                f"unit '{self._program.units[launch.unit]}' failed in kernel "
                f"'{self._program.kernels[launch.kernel]}' on lane {node.lane}: {error}"
            ) from error


def run_on_device(
    program: Program,
    kernels: Mapping[str, LaunchedWork],
    constants: Mapping[str, np.ndarray[Any, Any]],
    plan: MemoryPlan | None,
    device: int,
    *,
    captured: bool = True,
) -> tuple[DeviceMemory, CudaExecutor]:
    """Allocate a program's memory on the GPU with this number; return it and an executor."""
    opened = open_device(device)
    memory = DeviceMemory(opened, program, constants, plan)
    return memory, CudaExecutor(
        program, kernels, memory.addresses, device=opened, captured=captured
    )


@contextmanager
def _garbage_collection_off() -> Iterator[None]:
    """Suspend garbage collection: freeing device memory would abort a capture."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class TimedLaunches:
    """Events before and after every launch of a run, which may be captured into a graph."""

    def __init__(self, device: OpenDevice, count: int, *, in_graph: bool) -> None:
        self._in_graph = in_graph
        self.origin = event(device, timing=True)
        self.before = [event(device, timing=True) for _ in range(count)]
        self.after = [event(device, timing=True) for _ in range(count)]

    def record(self, moment: DriverHandle, queue: Any) -> None:
        """Record one of the events on a stream."""
        if self._in_graph:
            flag = driver().CUevent_record_flags.CU_EVENT_RECORD_EXTERNAL
            call("cuEventRecordWithFlags", moment.handle, queue, flag)
        else:
            call("cuEventRecord", moment.handle, queue)

    def spans(self, graph: EventGraph) -> tuple[Span, ...]:
        """Return the begin and end times of the launches, lane by lane."""
        spans = [
            Span(node.lane, node.number, self._seconds(begin), self._seconds(end))
            for node, begin, end in zip(graph.nodes, self.before, self.after, strict=True)
        ]
        return tuple(sorted(spans, key=lambda span: (span.lane, span.launch)))

    def _seconds(self, moment: DriverHandle) -> float:
        return call("cuEventElapsedTime", self.origin.handle, moment.handle) * 1e-3
