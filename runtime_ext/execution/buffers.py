"""Memory of buffers: aligned for the kernels, and constants packed and held once a process."""

from __future__ import annotations

import hashlib
import threading
import weakref
from typing import Any

import numpy as np

from tvm_ios.errors import UserError
from tvm_ios.files.array_files import Array
from tvm_ios.program.constant_transform import ParamTransform
from tvm_ios.program.program import ALIGNMENT, BufferType

_lock = threading.Lock()
_shared: weakref.WeakValueDictionary[str, Array] = weakref.WeakValueDictionary()
#: The shared arrays by identity, so that they are not hashed again.
_by_identity: weakref.WeakValueDictionary[int, Array] = weakref.WeakValueDictionary()


def allocate(buffer_type: BufferType) -> Array:
    """A buffer of zeros whose first byte is aligned to 64; raises as the two below."""
    _dtype(buffer_type)  # A type that NumPy does not have has no size either.
    return view(allocate_bytes(buffer_type.nbytes), buffer_type)


def allocate_bytes(nbytes: int) -> Array:
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


def view(memory: Array, buffer_type: BufferType, offset: int = 0) -> Array:
    """A buffer that lies in some bytes, from ``offset`` on.

    Raises
    ------
    UserError
        If NumPy has no such type.
    """
    dtype = _dtype(buffer_type)
    try:
        return memory[offset : offset + buffer_type.nbytes].view(dtype).reshape(buffer_type.shape)
    except ValueError as error:
        raise UserError(
            f"a buffer of shape {buffer_type.shape} cannot be allocated: {error}"
        ) from error


def _dtype(buffer_type: BufferType) -> np.dtype[Any]:
    try:
        dtype = np.dtype(buffer_type.dtype)
    except TypeError:
        dtype = np.dtype(object)
    if dtype.kind not in "biuf":
        raise UserError(
            f"a buffer of type {buffer_type.dtype!r} cannot be allocated; use a number type of "
            "NumPy's"
        )
    return dtype


def share_constant(array: Array, key: str | None = None) -> Array:
    """An aligned array of equal content, the same one for all who ask in this process.

    It must not be written to.

    Parameters
    ----------
    array
        The content.
    key
        Its :func:`content_key`, if it was computed before.
    """
    if _by_identity.get(id(array)) is array:
        return array
    key = key or content_key(array)
    with _lock:
        constant = _shared.get(key)
        if constant is None:
            constant = allocate(BufferType(array.shape, str(array.dtype)))
            np.copyto(constant, array)
            _share(key, constant)
        return constant


def adopt_constant(array: Array, key: str) -> Array:
    """As :func:`share_constant`, but an aligned array that nobody shares yet is not copied."""
    if not array.flags.writeable:
        # NumPy 1 makes such arrays of DLPack's tensors, and no tensors of such arrays.
        return share_constant(array, key)
    with _lock:
        constant = _shared.get(key)
        if constant is None:
            constant = array
            _share(key, constant)
        return constant


def _share(key: str, array: Array) -> None:
    _shared[key] = array
    _by_identity[id(array)] = array


def content_key(array: Array) -> str:
    """SHA-256 of type, shape and content."""
    digest = hashlib.sha256(f"{array.dtype}{list(array.shape)}".encode())
    digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


class PackedConstants:
    """Packs constants, and knows what it has packed.

    A search builds many programs of the same constants, of which most are packed alike: packing
    and the digest of its content would take longer than anything else of a build.
    """

    def __init__(self) -> None:
        #: By where a constant lies, and how it is packed: the constant, which so stays there, and
        #: the key of what it became.
        self._keys: dict[tuple[object, ...], tuple[Array, str]] = {}

    def packed(self, constant: Array, transform: ParamTransform) -> tuple[str, Array]:
        """The key of a packed constant's content, and the constant, which all programs share.

        The constant must not be written to after that.
        """
        place = constant.ctypes.data, constant.dtype, constant.shape, constant.strides, transform
        if place in self._keys:
            _, key = self._keys[place]
            if (shared := _shared.get(key)) is not None:
                return key, shared
        array = transform.apply(constant)
        key = content_key(array)
        self._keys[place] = constant, key
        return key, share_constant(array, key)
