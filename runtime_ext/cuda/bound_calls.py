"""Bind the launches of a program to their arguments, as the driver takes them."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping, Sequence
from typing import Any

from runtime_ext.cuda.event_graph import EventGraph
from runtime_ext.cuda.machine_code.launchable import Launchable, LaunchedWork
from runtime_ext.cuda.nvidia.cudnn_convolution import BoundConvolution, CudnnLanes
from runtime_ext.cuda.nvidia.driver import OpenDevice, call, driver
from runtime_ext.cuda.nvidia.resources import Module
from runtime_ext.native_errors import CudaError
from tvm_ios.program.program import Program, ProgramError


class KernelCall:
    """A kernel launch with its arguments bound."""

    def __init__(
        self,
        kernel: Launchable,
        function: Any,
        addresses: list[int],
        sizes: list[int],
        queue: Any,
        *,
        early: bool,
    ) -> None:
        self._function_and_sizes = (function, *kernel.grid, *kernel.block, kernel.shared_bytes)
        self._cleared = [(addresses[place], sizes[place]) for place in kernel.cleared]
        self._queue = queue
        # The driver wants an array of pointers to the arguments, here addresses of buffers.
        self._values = (ctypes.c_uint64 * len(addresses))(*addresses)
        first = ctypes.addressof(self._values)
        self._pointers = (ctypes.c_uint64 * len(addresses))(
            *(first + 8 * place for place in range(len(addresses)))
        )
        self._parameters = ctypes.addressof(self._pointers)
        self._cooperative = kernel.cooperative
        self._early = _early_launch(kernel, queue) if early else None

    def issue(self, *, early: bool = True) -> None:
        """Clear the buffers that the kernel wants zeroed, and launch it on its stream.

        Without ``early`` it begins when the launch before it has ended, whatever it allows.
        """
        for address, nbytes in self._cleared:
            call("cuMemsetD8Async", address, 0, nbytes, self._queue)
        launch = (*self._function_and_sizes, self._queue, self._parameters)
        if early and self._early is not None:
            call("cuLaunchKernelEx", self._early, self._function_and_sizes[0], self._parameters, 0)
        elif self._cooperative:
            # Only then does the driver make room for all blocks, however a multiprocessor divides
            # its memory for the kernel before, and keeps two such kernels apart.
            call("cuLaunchCooperativeKernel", *launch)
        else:
            call("cuLaunchKernel", *launch, 0)


def bound_calls(
    program: Program,
    graph: EventGraph,
    kernels: Mapping[str, LaunchedWork],
    addresses: Sequence[int],
    modules: Mapping[str, Module],
    lanes: CudnnLanes,
) -> list[KernelCall | BoundConvolution]:
    """Return the launches of a program in the order of its graph, with their arguments bound.

    Raise ProgramError if a launch is of a range of tiles.
    """
    launchables = {symbol: k for symbol, k in kernels.items() if isinstance(k, Launchable)}
    functions = {
        symbol: module.function(launchables[symbol].entry, launchables[symbol].shared_bytes)
        for symbol, module in modules.items()
    }
    calls: list[KernelCall | BoundConvolution] = []
    followers = graph.followers
    for number, node in enumerate(graph.nodes):
        launch = node.launch
        symbol = program.kernels[launch.kernel]
        if (launch.begin, launch.end) != (0, 1):
            raise ProgramError(
                f"lane {node.lane} launches the tiles {launch.begin} to {launch.end} of kernel "
                f"{symbol!r}, and CUDA kernels run whole"
            )
        arguments = [addresses[b] for b in launch.buffers]
        kernel = kernels[symbol]
        if isinstance(kernel, Launchable):
            sizes = [program.buffers[b].type.nbytes for b in launch.buffers]
            queue = lanes.queues[node.lane]
            before = graph.nodes[followers[number]].launch.kernel if number in followers else None
            # Kernels that are launched cooperatively come when all else has ended.
            early = before is not None and _is_plain(kernels[program.kernels[before]])
            function = functions[symbol]
            calls.append(
                KernelCall(kernel, function, arguments, sizes, queue, early=early and kernel.early)
            )
        else:
            calls.append(lanes.bind(node.lane, kernel, arguments))
    return calls


def _is_plain(work: LaunchedWork) -> bool:
    """Return whether work is one kernel that is not launched cooperatively."""
    return isinstance(work, Launchable) and not work.cooperative


def _early_launch(kernel: Launchable, queue: Any) -> Any:
    """Return how the driver launches a kernel before the one before it has ended."""
    api = driver()
    attribute = api.CUlaunchAttribute()
    attribute.id = api.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
    attribute.value.programmaticStreamSerializationAllowed = 1
    config = api.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = kernel.grid
    config.blockDimX, config.blockDimY, config.blockDimZ = kernel.block
    config.sharedMemBytes, config.hStream = kernel.shared_bytes, queue
    config.attrs, config.numAttrs = [attribute], 1
    return config


def require_resident(device: OpenDevice, kernel: LaunchedWork, module: Module) -> None:
    """Raise CudaError if not all blocks of a cooperative kernel can run at once on the device.

    Its blocks wait for each other, so on a part of a GPU, or a smaller one of the same
    architecture, they would wait forever.
    """
    if not isinstance(kernel, Launchable) or not kernel.cooperative:
        return
    function = module.function(kernel.entry, kernel.shared_bytes)
    threads, blocks = math.prod(kernel.block), math.prod(kernel.grid)
    occupancy = "cuOccupancyMaxActiveBlocksPerMultiprocessor"
    resident_blocks = device.attribute("MULTIPROCESSOR_COUNT") * call(
        occupancy, function, threads, kernel.shared_bytes
    )
    if blocks > resident_blocks:
        raise CudaError(
            f"kernel '{kernel.entry}' needs {blocks} blocks at once and {device.name} holds "
            f"{resident_blocks}: compile the model for this device"
        )
