"""Memory of buffers: aligned for the kernels, and constants held once a process."""

from __future__ import annotations

import hashlib
import threading
import weakref
from typing import Any

import numpy as np

from tvm_ios.errors import UserError
from tvm_ios.program.program import ALIGNMENT, BufferType

_lock = threading.Lock()
_shared: weakref.WeakValueDictionary[str, np.ndarray[Any, Any]] = weakref.WeakValueDictionary()
#: The same by identity, so that an array that is shared already is not hashed again.
_by_identity: weakref.WeakValueDictionary[int, np.ndarray[Any, Any]] = weakref.WeakValueDictionary()


def allocate(kind: BufferType) -> np.ndarray[Any, Any]:
    """A buffer of zeros whose first byte is aligned to 64; raises as the two below."""
    _dtype(kind)  # a type that NumPy has not has no size either
    return view(allocate_bytes(kind.nbytes), kind)


def allocate_bytes(nbytes: int) -> np.ndarray[Any, Any]:
    """Bytes whose first one is aligned to 64.

    Zeros and not garbage: old bits may be denormal numbers, which take a hundred times longer.

    Raises
    ------
    UserError
        If this machine has not as much memory.
    """
    try:
        raw = np.zeros(nbytes + ALIGNMENT, np.uint8)
    except (MemoryError, ValueError) as error:
        raise UserError(f"a buffer of {nbytes} bytes cannot be allocated: {error}") from error
    first = -raw.ctypes.data % ALIGNMENT
    return raw[first : first + nbytes]


def view(memory: np.ndarray[Any, Any], kind: BufferType, offset: int = 0) -> np.ndarray[Any, Any]:
    """A buffer that lies in some bytes, from ``offset`` on.

    Raises
    ------
    UserError
        If NumPy has no such type.
    """
    dtype = _dtype(kind)
    try:
        return memory[offset : offset + kind.nbytes].view(dtype).reshape(kind.shape)
    except ValueError as error:
        raise UserError(f"a buffer of shape {kind.shape} cannot be allocated: {error}") from error


def _dtype(kind: BufferType) -> np.dtype[Any]:
    try:
        dtype = np.dtype(kind.dtype)
    except TypeError:
        dtype = np.dtype(object)
    if dtype.kind not in "biuf":
        raise UserError(
            f"a buffer of type {kind.dtype!r} cannot be allocated; use a number type of NumPy's"
        )
    return dtype


def share_constant(array: np.ndarray[Any, Any], key: str | None = None) -> np.ndarray[Any, Any]:
    """An aligned array of equal content, the same one for all who ask in this process.

    It must not be written to.

    Parameters
    ----------
    array
        The content.
    key
        Its :func:`content_key`, if that is known already.
    """
    if _by_identity.get(id(array)) is array:
        return array
    key = key or content_key(array)
    with _lock:
        shared = _shared.get(key)
        if shared is None:
            shared = allocate(BufferType(array.shape, str(array.dtype)))
            np.copyto(shared, array)
            _share(key, shared)
        return shared


def adopt_constant(array: np.ndarray[Any, Any], key: str) -> np.ndarray[Any, Any]:
    """As :func:`share_constant`, but an aligned array that nobody shares yet is not copied."""
    if not array.flags.writeable:
        # NumPy 1 makes such arrays of DLPack's tensors, and no tensors of such arrays.
        return share_constant(array, key)
    with _lock:
        shared = _shared.get(key)
        if shared is None:
            shared = array
            _share(key, shared)
        return shared


def _share(key: str, array: np.ndarray[Any, Any]) -> None:
    _shared[key] = array
    _by_identity[id(array)] = array


def content_key(array: np.ndarray[Any, Any]) -> str:
    """SHA-256 of type, shape and content."""
    digest = hashlib.sha256(f"{array.dtype}{list(array.shape)}".encode())
    digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
