"""The C++ library (``runtime_ext/native``): the loader of executables and their executors.

It is part of the installed package. It is looked for in this order: the file that the environment
variable ``TVM_IOS_NATIVE_LIB`` names; in the package runtime_ext; in the installed distribution
``tvm-ios`` (an editable install keeps it there).
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

import tvm_ffi
from tvm_ffi.error import register_error

from runtime_ext.native_errors import (
    BusyError,
    CudaError,
    ExecutableError,
    ForkError,
    KernelError,
    SessionError,
)
from tvm_ios.deployment.registry import DeploymentError
from tvm_ios.distributions import built_file

# The library raises them by name.
for _error in (
    BusyError,
    CudaError,
    DeploymentError,
    ExecutableError,
    ForkError,
    KernelError,
    SessionError,
):
    register_error(_error.__name__, _error)

_LIBRARY = "libtvm_ios_native.so"
#: Version of the interface of the C++ functions, on which both sides have to agree.
INTERFACE = 13


@cache
def load_native_library() -> Any:
    """Load the C++ library, and return its functions by name.

    Raise ImportError if it was not built or belongs to another version of this package.
    """
    path = native_library_path()
    library = tvm_ffi.load_module(path)
    version = library["interface_version"]()
    if version != INTERFACE:
        raise ImportError(
            f"{path} has interface {version} and this package needs {INTERFACE}; "
            "install tvm-ios again"
        )
    return library


def native_library_path() -> Path:
    """Return the path of the C++ library; raise ImportError if it was not built."""
    override = os.environ.get("TVM_IOS_NATIVE_LIB")
    if override:
        return Path(override).absolute()
    try:
        return built_file("runtime_ext", _LIBRARY)
    except ImportError as error:
        raise ImportError(f"{error}, or name a built one in TVM_IOS_NATIVE_LIB") from error
