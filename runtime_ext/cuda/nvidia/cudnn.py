"""Find cuDNN's C library, version 9, call its functions with errors raised, and pool its handles.

Bound by ctypes: only the library is needed, no header, compiler or other package. It is opened
when the first program that uses it gets its streams.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from ctypes import POINTER, c_char_p, c_double, c_float, c_int, c_size_t, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

from runtime_ext.cuda.nvidia.driver import OpenDevice
from runtime_ext.cuda.nvidia.resources import stream
from runtime_ext.native_errors import CudaError
from tvm_ios.measuring.device import UnsupportedError

#: The library's name for the loader, and its place in Python packages (beside torch, or alone).
_NAME = "libcudnn.so.9"
_IN_PACKAGE = Path("nvidia", "cudnn", "lib", _NAME)
#: Libraries that cuDNN opens by name.
_OPENED = ("cublasLt", "nvrtc")
#: Statuses of these thousands mean that cuDNN does not support a call.
_REFUSALS = range(2000, 4000)


class CudnnError(CudaError):
    """cuDNN is missing or failed; the message is one sentence."""


class CudnnRefusal(CudnnError, UnsupportedError):
    """cuDNN does not support a computation, or not in the requested way."""


class Perf(ctypes.Structure):
    """``cudnnConvolutionFwdAlgoPerf_t``: an algorithm, and cuDNN's estimates for it."""

    _fields_ = (
        ("algorithm", c_int),
        ("status", c_int),
        ("time", c_float),
        ("memory", c_size_t),
        ("determinism", c_int),
        ("math", c_int),
        ("reserved", c_int * 3),
    )


_INTS = (c_int,) * 4
_CONVOLUTION = (c_void_p,) * 5  # handle; descriptors of data, weight, convolution, result
#: Types of the functions' parameters, from cuDNN's headers; handles, descriptors and addresses are
#: pointers.
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cudnnCreate": (POINTER(c_void_p),),
    "cudnnDestroy": (c_void_p,),
    "cudnnSetStream": (c_void_p, c_void_p),
    "cudnnSetTensor4dDescriptorEx": (c_void_p, c_int, *_INTS, *_INTS),
    "cudnnSetFilter4dDescriptor": (c_void_p, c_int, c_int, *_INTS),
    "cudnnSetConvolution2dDescriptor": (c_void_p, *_INTS, *_INTS),
    "cudnnSetConvolutionGroupCount": (c_void_p, c_int),
    "cudnnSetConvolutionMathType": (c_void_p, c_int),
    "cudnnSetActivationDescriptor": (c_void_p, c_int, c_int, c_double),
    "cudnnGetConvolutionForwardAlgorithm_v7": (*_CONVOLUTION, c_int, POINTER(c_int), POINTER(Perf)),
    "cudnnGetConvolutionForwardWorkspaceSize": (*_CONVOLUTION, c_int, POINTER(c_size_t)),
    "cudnnConvolutionForward": (*(c_void_p,) * 7, c_int, c_void_p, c_size_t, *(c_void_p,) * 3),
    "cudnnConvolutionBiasActivationForward": (
        *(*(c_void_p,) * 7, c_int, c_void_p, c_size_t),
        *(c_void_p,) * 8,
    ),
    **{f"cudnnCreate{kind}Descriptor": (POINTER(c_void_p),) for kind in
       ("Tensor", "Filter", "Convolution", "Activation")},
    **{f"cudnnDestroy{kind}Descriptor": (c_void_p,) for kind in
       ("Tensor", "Filter", "Convolution", "Activation")},
}  # fmt: skip


def version() -> str:
    """Return the installed cuDNN's version, such as ``9.28.0``; raise CudnnError without one."""
    number = int(_library().cudnnGetVersion())
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def usable_version(device: OpenDevice) -> str:
    """Return cuDNN's version; raise CudnnError if this driver and GPU cannot use it."""
    queue = stream(device)
    Handle(device, queue.handle).close()
    return version()


def call(name: str, *arguments: Any) -> None:
    """Call a cuDNN function; raise CudnnError, or CudnnRefusal if it is unsupported."""
    library = _library()
    status = getattr(library, name)(*arguments)
    if status:
        words = ctypes.create_string_buffer(512)
        library.cudnnGetLastErrorString(words, len(words))
        message = " ".join(words.value.decode(errors="replace").split())
        failure = f"{name} failed with {library.cudnnGetErrorString(status).decode()}"
        error = CudnnRefusal if status in _REFUSALS else CudnnError
        raise error(f"{failure}: {message}" if message else failure)


class Handle:
    """A cuDNN handle on one stream, returned to a pool when it is closed or unreachable.

    Creating one takes long, so returned handles are used again.
    """

    def __init__(self, device: OpenDevice, queue: Any) -> None:
        device.use()
        free = _free(device)
        with _lock:
            value = free.pop() if free else None
        if value is None:
            handle = c_void_p()
            call("cudnnCreate", ctypes.byref(handle))
            value = handle.value
        self.value = value
        self.close: Callable[[], Any] = weakref.finalize(self, free.append, value)
        call("cudnnSetStream", value, int(queue))


class Descriptor:
    """A cuDNN descriptor of some kind; destroyed when it is unreachable."""

    def __init__(self, kind: str) -> None:
        descriptor = c_void_p()
        call(f"cudnnCreate{kind}Descriptor", ctypes.byref(descriptor))
        self.value = descriptor.value
        destroy = getattr(_library(), f"cudnnDestroy{kind}Descriptor")
        # At the end of the process the library itself is unloaded with all of them.
        weakref.finalize(self, destroy, descriptor.value).atexit = False


_lock = threading.Lock()
_handles: dict[tuple[int, int], list[int | None]] = {}


def _free(device: OpenDevice) -> list[int | None]:
    # A forked child has no context, and so none of its parent's handles.
    with _lock:
        return _handles.setdefault((os.getpid(), device.number), [])


@cache
def _library() -> Any:
    _load_dependencies()
    for name in _names():
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        for function, arguments in _SIGNATURES.items():
            getattr(library, function).argtypes = arguments
        library.cudnnGetVersion.restype = c_size_t
        library.cudnnGetErrorString.restype = c_char_p
        library.cudnnGetLastErrorString.argtypes = (c_char_p, c_size_t)
        library.cudnnGetLastErrorString.restype = None
        return library
    raise CudnnError(
        f"cuDNN ({_NAME}) is not installed: pip install nvidia-cudnn-cu13, or leave it out by "
        "--no-cudnn"
    )


def _load_dependencies() -> None:
    """Load the libraries that cuDNN opens by name, which packages have in separate folders.

    cuDNN may end the process if it does not find them.
    """
    with suppress(ImportError):
        pathfinder = importlib.import_module("cuda.pathfinder")
        for name in _OPENED:
            with suppress(RuntimeError):
                pathfinder.load_nvidia_dynamic_lib(name)


def _names() -> Iterator[str]:
    """Yield names to load, the loader's first, which finds a library that torch has opened."""
    yield _NAME
    for folder in sys.path:
        path = Path(folder) / _IN_PACKAGE
        if path.is_file():
            yield str(path)
