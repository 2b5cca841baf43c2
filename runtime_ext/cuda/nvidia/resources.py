"""Resources on a GPU: memory, streams, events and modules, each freed with its owner."""

from __future__ import annotations

import ctypes
import hashlib
import os
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from runtime_ext.cuda.nvidia.driver import OpenDevice, call, driver
from runtime_ext.execution.buffers import content_key
from runtime_ext.native_errors import CudaError
from tvm_ios.files.array_files import Array

_lock = threading.Lock()


class DriverHandle:
    """A handle of the driver that is released once: by :meth:`close`, or when it is unreachable.

    ``release`` names the driver's function that does it.
    """

    def __init__(self, device: OpenDevice, handle: Any, release: str) -> None:
        self.device = device
        self.handle = handle
        self.close: Callable[[], Any] = weakref.finalize(self, _release, device, handle, release)


def _release(device: OpenDevice, handle: Any, release: str) -> None:
    # A forked child has no context, and at the end of the process the driver may be gone.
    if os.getpid() == device.process:
        with suppress(CudaError):
            device.use()
            call(release, handle)


class DeviceBytes(DriverHandle):
    """Uninitialised GPU memory, aligned to 256 bytes; raises CudaError if there is too little."""

    def __init__(self, device: OpenDevice, nbytes: int) -> None:
        device.use()
        try:
            handle = call("cuMemAlloc", max(nbytes, 1))
        except CudaError as error:
            raise CudaError(f"{device.name} cannot allocate {nbytes} bytes: {error}") from error
        super().__init__(device, handle, "cuMemFree")
        self.address = int(handle)
        self.nbytes = nbytes


class PinnedArray(DriverHandle):
    """An array in page-locked memory of the host, from and to which copies of a GPU are fast.

    :attr:`array` must not outlive it.
    """

    def __init__(self, device: OpenDevice, shape: tuple[int, ...], dtype: str) -> None:
        device.use()
        nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        handle = call("cuMemHostAlloc", max(nbytes, 1), 0)
        super().__init__(device, handle, "cuMemFreeHost")
        self.address = int(handle)
        memory = (ctypes.c_uint8 * nbytes).from_address(self.address)
        self.array: Array = np.ndarray(shape, dtype, memory)


def stream(device: OpenDevice) -> DriverHandle:
    """Create a stream that does not wait for the process's default stream."""
    flag = driver().CUstream_flags.CU_STREAM_NON_BLOCKING
    return DriverHandle(device, call("cuStreamCreate", flag), "cuStreamDestroy")


def event(device: OpenDevice, *, timing: bool = False) -> DriverHandle:
    """Create an event; one that records no time is cheaper."""
    flags = driver().CUevent_flags
    flag = flags.CU_EVENT_DEFAULT if timing else flags.CU_EVENT_DISABLE_TIMING
    return DriverHandle(device, call("cuEventCreate", flag), "cuEventDestroy")


class Module(DriverHandle):
    """Machine code loaded onto a GPU."""

    def __init__(self, device: OpenDevice, cubin: bytes) -> None:
        device.use()
        super().__init__(device, call("cuModuleLoadData", cubin), "cuModuleUnload")

    def function(self, entry: str, shared_bytes: int) -> Any:
        """Return one of its kernels, allowed to use this much dynamic shared memory."""
        function = call("cuModuleGetFunction", self.handle, entry.encode())
        if shared_bytes > 48 << 10:
            attribute = driver().CUfunction_attribute
            name = attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            call("cuFuncSetAttribute", function, name, shared_bytes)
        return function


def upload(address: int, array: Array) -> None:
    """Copy a contiguous array to a GPU and wait for the copy."""
    call("cuMemcpyHtoD", address, array.ctypes.data, array.nbytes)
    # The call returns when the driver has a copy of pageable memory. The transfer then
    # continues on the default stream, for which ours do not wait.
    call("cuStreamSynchronize", 0)


_constants: weakref.WeakValueDictionary[tuple[int, str], DeviceBytes] = (
    weakref.WeakValueDictionary()
)
_modules: weakref.WeakValueDictionary[tuple[int, str], Module] = weakref.WeakValueDictionary()


def shared_constant(device: OpenDevice, array: Array) -> DeviceBytes:
    """Return GPU memory with the array's content, uploaded once for all users in this process."""
    key = (device.number, content_key(array))
    with _lock:
        memory = _constants.get(key)
        if memory is None:
            content = np.ascontiguousarray(array)
            memory = DeviceBytes(device, content.nbytes)
            upload(memory.address, content)
            _constants[key] = memory
        return memory


def shared_module(device: OpenDevice, cubin: bytes) -> Module:
    """Return the loaded machine code, loaded once for all users in this process."""
    key = (device.number, hashlib.sha256(cubin).hexdigest())
    with _lock:
        module = _modules.get(key)
        if module is None:
            module = _modules[key] = Module(device, cubin)
        return module
