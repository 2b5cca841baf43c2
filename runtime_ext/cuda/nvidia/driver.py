"""CUDA's driver API: calls that raise, and devices.

Only the driver is needed to launch compiled kernels, no CUDA runtime, toolkit or TVM. Nothing is
imported before a device is opened.
"""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from functools import cache
from typing import Any

from runtime_ext.native_errors import CudaError, ForkError


@cache
def driver() -> Any:
    """Import ``cuda.bindings.driver``; raise CudaError if it or the driver is missing."""
    try:
        module: Any = importlib.import_module("cuda.bindings.driver")
    except ImportError as error:
        raise CudaError(
            "CUDA devices are used through the package cuda-bindings, which is not installed: "
            "pip install 'tvm-ios[cuda]'"
        ) from error
    try:
        (status,) = module.cuInit(0)
    except RuntimeError as error:
        raise CudaError(
            "there is no CUDA device here: NVIDIA's driver (libcuda.so.1) is not installed"
        ) from error
    if status:
        raise CudaError(f"there is no usable CUDA device here: cuInit says {status.name}")
    return module


def call(name: str, *arguments: Any) -> Any:
    """Call a driver function and return its values; raise CudaError if it fails."""
    api = driver()
    status, *values = getattr(api, name)(*arguments)
    if status:
        _, text = api.cuGetErrorString(status)
        words = text.decode() if text else "an error without a description"
        raise CudaError(f"{name} failed with {status.name}: {words}")
    return values[0] if len(values) == 1 else tuple(values) or None


@dataclass(frozen=True, slots=True)
class OpenDevice:
    """An opened GPU.

    ``number`` counts GPUs as CUDA does, ``name`` is NVIDIA's, and ``compute_capability`` is (9, 0)
    for sm_90. ``context`` is the primary context, which other libraries of the process use too.
    ``process`` opened the GPU: a forked child has no context.
    """

    number: int
    name: str
    compute_capability: tuple[int, int]
    l2_bytes: int
    context: Any
    process: int

    def use(self) -> None:
        """Make it the calling thread's device; raise ForkError in a forked process."""
        if os.getpid() != self.process:
            raise ForkError(
                "CUDA was opened by the process that this one was forked from; open the "
                "session here, and start processes with 'spawn'"
            )
        call("cuCtxSetCurrent", self.context)

    def attribute(self, name: str) -> int:
        """Return one of the driver's ``CU_DEVICE_ATTRIBUTE_`` numbers."""
        return _attribute(self.number, name)

    def require(self, arch: str) -> None:
        """Require that code of an architecture runs here, or raise CudaError."""
        if not runs_on(arch, self.compute_capability):
            major, minor = self.compute_capability
            raise CudaError(
                f"the kernels were compiled for {arch} and {self.name} is sm_{major}{minor}; "
                f"compile them with --arch sm_{major}{minor}"
            )


def runs_on(arch: str, compute_capability: tuple[int, int]) -> bool:
    """Return whether machine code of an architecture (``sm_90``) runs on a device.

    It runs on later minor versions of the same major one. Code of ``sm_90a`` runs on 9.0 only; code
    of ``sm_100f`` runs on its family, just as plain code.
    """
    digits = arch.removeprefix("sm_").rstrip("af")
    if not arch.startswith("sm_") or not digits.isdigit():
        return False
    major, minor = divmod(int(digits), 10)
    if arch.endswith("a"):
        return (major, minor) == compute_capability
    return major == compute_capability[0] and minor <= compute_capability[1]


def open_device(number: int = 0) -> OpenDevice:
    """Open a GPU, or return it if it is open; raise CudaError if there is none."""
    return _open(number, os.getpid())


@cache
def _open(number: int, process: int) -> OpenDevice:
    count = call("cuDeviceGetCount")
    if not 0 <= number < count:
        raise CudaError(f"there is no CUDA device {number}; there are {count}")
    handle = call("cuDeviceGet", number)
    device = OpenDevice(
        number=number,
        name=call("cuDeviceGetName", 128, handle).split(b"\0")[0].decode(),
        compute_capability=(
            _attribute(number, "COMPUTE_CAPABILITY_MAJOR"),
            _attribute(number, "COMPUTE_CAPABILITY_MINOR"),
        ),
        l2_bytes=_attribute(number, "L2_CACHE_SIZE"),
        context=call("cuDevicePrimaryCtxRetain", handle),
        process=process,
    )
    device.use()
    return device


def _attribute(device: int, name: str) -> int:
    key = getattr(driver().CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
    return call("cuDeviceGetAttribute", key, call("cuDeviceGet", device))
