"""Convolutions by cuDNN, on the streams of an executor."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from runtime_ext.cuda.nvidia import cudnn
from runtime_ext.cuda.nvidia.cudnn import CudnnRefusal, Descriptor, Handle, Perf
from runtime_ext.cuda.nvidia.driver import OpenDevice
from runtime_ext.cuda.nvidia.driver import call as drive
from runtime_ext.cuda.nvidia.resources import DeviceBytes
from runtime_ext.kernels.library_convolution import Image, LibraryConvolution

# As in cuDNN's headers.
_DTYPE = {"float32": 0, "float16": 2}
_SUM = _DTYPE["float32"]
_NCHW, _NHWC = 0, 1
_CROSS_CORRELATION = 1
_DETERMINISTIC = 1
_RELU, _IDENTITY = 1, 5
_NANS = 0
_DEFAULT_MATH, _TENSOR_OP_MATH, _FMA_MATH = 0, 1, 3
#: How products may be rounded, by precision: those of float32 are exact.
_MATH = {"float32": _FMA_MATH, "tf32": _DEFAULT_MATH, "float16": _TENSOR_OP_MATH}
#: The only algorithm with which cuDNN adds a bias without an activation.
_PRECOMPUTED = 1
_ALGORITHMS = 8
#: Most bytes of a stream's workspace.
_MOST_WORKSPACE = 256 << 20

_ONE, _ZERO = ctypes.c_float(1.0), ctypes.c_float(0.0)


@dataclass(frozen=True, slots=True)
class _Choice:
    """The algorithm of a convolution, its math type, and its workspace in bytes."""

    algorithm: int
    math: int
    workspace: int


class CudnnLanes:
    """cuDNN on some streams of a GPU: each has its own handle and workspace."""

    def __init__(self, device: OpenDevice, queues: Mapping[int, Any]) -> None:
        self.queues = queues
        self._device = device
        self._handles: dict[int, Handle] = {}
        self._workspaces: dict[int, DeviceBytes] = {}

    def bind(
        self, lane: int, convolution: LibraryConvolution, addresses: Sequence[int]
    ) -> BoundConvolution:
        """Bind a convolution to buffers and a stream, and choose its algorithm.

        For the choice a convolution that is new to the process is run on these buffers, overwriting
        the result. Raise CudnnRefusal if cuDNN has no algorithm, CudnnError if cuDNN fails.
        """
        if lane not in self._handles:
            self._handles[lane] = Handle(self._device, self.queues[lane])
        bound = BoundConvolution(convolution, addresses, self._handles[lane], self, lane)
        key = (self._device.process, self._device.number, convolution)
        if key not in _choices:
            _choices[key] = self._chosen(bound)
        self._reserve(lane, _choices[key].workspace)
        bound.choose(_choices[key])
        return bound

    def workspace(self, lane: int) -> tuple[int | None, int]:
        """Return the address and bytes of a stream's workspace."""
        workspace = self._workspaces.get(lane)
        return (None, 0) if workspace is None else (workspace.address, workspace.nbytes)

    def close(self) -> None:
        """Release handles and workspaces."""
        for resource in (*self._handles.values(), *self._workspaces.values()):
            resource.close()

    def _chosen(self, bound: BoundConvolution) -> _Choice:
        """Return the first algorithm, by cuDNN's estimate of speed, that cuDNN then accepts."""
        reason = "no algorithm is deterministic and small enough"
        for choice in bound.choices():
            self._reserve(bound.lane, choice.workspace)
            bound.choose(choice)
            try:
                bound.issue()
            except CudnnRefusal as error:
                reason = str(error)
                continue
            drive("cuStreamSynchronize", self.queues[bound.lane])
            return choice
        raise CudnnRefusal(f"cuDNN does not compute a convolution: {reason}")

    def _reserve(self, lane: int, nbytes: int) -> None:
        """Make the stream's workspace large enough; nothing may be running on the stream."""
        workspace = self._workspaces.get(lane)
        if nbytes and (workspace is None or workspace.nbytes < nbytes):
            if workspace is not None:
                workspace.close()
            self._workspaces[lane] = DeviceBytes(self._device, nbytes)


#: The choice for each process, device and convolution.
_choices: dict[tuple[int, int, LibraryConvolution], _Choice] = {}


class BoundConvolution:
    """A convolution with its buffers and stream bound."""

    def __init__(
        self,
        convolution: LibraryConvolution,
        addresses: Sequence[int],
        handle: Handle,
        lanes: CudnnLanes,
        lane: int,
    ) -> None:
        self.lane = lane
        self._lanes, self._handle, self._spec = lanes, handle, convolution
        dtype = _DTYPE[convolution.dtype]
        self._data = _image(convolution.data, dtype)
        self._result = _image(convolution.result, dtype)
        order = _NHWC if convolution.channels_last else _NCHW
        self._weight = Descriptor("Filter")
        cudnn.call(
            "cudnnSetFilter4dDescriptor", self._weight.value, dtype, order, *convolution.filter
        )
        self._convolution = Descriptor("Convolution")
        window = (*convolution.pads, *convolution.strides, *convolution.dilations)
        mode_and_dtype = (_CROSS_CORRELATION, _SUM)
        cudnn.call(
            "cudnnSetConvolution2dDescriptor", self._convolution.value, *window, *mode_and_dtype
        )
        cudnn.call("cudnnSetConvolutionGroupCount", self._convolution.value, convolution.groups)
        channels = convolution.filter[0]
        self._bias = _image(Image(0, 0, (1, channels, 1, 1), (channels, 1, 1, 1)), dtype)
        self._activation = Descriptor("Activation")
        kind = _RELU if convolution.relu else _IDENTITY
        # The constant says how NaNs propagate; cuDNN fuses only with this one.
        cudnn.call("cudnnSetActivationDescriptor", self._activation.value, kind, _NANS, 0.0)

        size = np.dtype(convolution.dtype).itemsize

        def address(image: Image) -> int:
            return addresses[image.argument] + image.offset * size

        self._addresses = (
            address(convolution.data),
            addresses[convolution.weight],
            address(convolution.result),
            0 if convolution.bias is None else addresses[convolution.bias],
            address(convolution.residual or convolution.result),
        )
        self._choice = _Choice(_PRECOMPUTED, _DEFAULT_MATH, 0)

    def choose(self, choice: _Choice) -> None:
        """Use this algorithm from now on."""
        self._choice = choice
        cudnn.call("cudnnSetConvolutionMathType", self._convolution.value, choice.math)

    def choices(self) -> list[_Choice]:
        """Return deterministic algorithms that are exact enough, the fastest by estimate first."""
        exact_math = _MATH[self._spec.precision]
        cudnn.call("cudnnSetConvolutionMathType", self._convolution.value, exact_math)
        estimates, count = (Perf * _ALGORITHMS)(), ctypes.c_int()
        handle_and_descriptors = (self._handle.value, *(d.value for d in self._descriptors))
        name = "cudnnGetConvolutionForwardAlgorithm_v7"
        cudnn.call(name, *handle_and_descriptors, _ALGORITHMS, ctypes.byref(count), estimates)
        identity = self._spec.bias is not None and not self._spec.relu
        choices: list[_Choice] = []
        for perf in estimates[: count.value]:
            # A float32 is never rounded to float16, nor multiplied less exactly than asked for.
            math = exact_math if self._spec.precision == "float32" else perf.math
            allowed = math in (_DEFAULT_MATH, _TENSOR_OP_MATH, _FMA_MATH)
            if perf.status or perf.determinism != _DETERMINISTIC or not allowed:
                continue
            if identity and perf.algorithm != _PRECOMPUTED:
                continue
            cudnn.call("cudnnSetConvolutionMathType", self._convolution.value, math)
            size = ctypes.c_size_t()
            with suppress(CudnnRefusal):
                name = "cudnnGetConvolutionForwardWorkspaceSize"
                cudnn.call(name, *handle_and_descriptors, perf.algorithm, ctypes.byref(size))
                if size.value <= _MOST_WORKSPACE:
                    choices.append(_Choice(perf.algorithm, math, size.value))
        return choices

    def issue(self) -> None:
        """Issue the convolution on the stream; raise CudnnError if cuDNN refuses."""
        data, weight, result, bias, residual = self._addresses
        workspace, nbytes = self._lanes.workspace(self.lane)
        begin = (
            *(self._handle.value, ctypes.byref(_ONE), self._data.value, data),
            *(self._weight.value, weight, self._convolution.value),
            *(self._choice.algorithm, workspace, nbytes),
        )
        if self._spec.bias is None:
            cudnn.call(
                "cudnnConvolutionForward", *begin, ctypes.byref(_ZERO), self._result.value, result
            )
            return
        # Without a residual the result is given instead, times zero.
        scale = _ZERO if self._spec.residual is None else _ONE
        cudnn.call(
            "cudnnConvolutionBiasActivationForward",
            *begin,
            *(ctypes.byref(scale), self._result.value, residual),
            *(self._bias.value, bias, self._activation.value, self._result.value, result),
        )

    @property
    def _descriptors(self) -> tuple[Descriptor, ...]:
        return (self._data, self._weight, self._convolution, self._result)


def _image(image: Image, dtype: int) -> Descriptor:
    descriptor = Descriptor("Tensor")
    cudnn.call(
        "cudnnSetTensor4dDescriptorEx", descriptor.value, dtype, *image.extents, *image.strides
    )
    return descriptor
