"""Allocate aligned buffers; pack constants, and hold each content once per process."""

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
_PAGE = 4096
_shared: weakref.WeakValueDictionary[str, Array] = weakref.WeakValueDictionary()
#: The shared arrays by identity, so that they are not hashed again.
_by_identity: weakref.WeakValueDictionary[int, Array] = weakref.WeakValueDictionary()


def allocate(buffer_type: BufferType) -> Array:
    """Return a zeroed buffer aligned to 64 bytes. Raise UserError if type or size is impossible."""
    _dtype(buffer_type)  # A type that NumPy does not have has no size either.
    return view(allocate_bytes(buffer_type.nbytes), buffer_type)


def allocate_bytes(nbytes: int) -> Array:
    """Return zeroed bytes whose first one is aligned to 64; raise UserError if memory is lacking.

    Garbage may be denormal numbers, on which kernels take a hundred times longer. Behind the bytes
    are as many as an aligned vector has, which kernels may read, whatever is there.
    """
    try:
        raw = np.zeros(nbytes + 2 * ALIGNMENT, np.uint8)
    except (MemoryError, ValueError) as error:
        raise UserError(f"a buffer of {nbytes} bytes cannot be allocated: {error}") from error
    first = -raw.ctypes.data % ALIGNMENT
    return raw[first : first + nbytes]


def slack(memory: Array) -> Array:
    """Return the bytes behind memory of :func:`allocate_bytes`, or a view of its beginning."""
    raw = memory
    while isinstance(raw.base, np.ndarray):
        raw = raw.base
    first = memory.ctypes.data + memory.nbytes - raw.ctypes.data
    return raw[first : first + ALIGNMENT]


def fits_kernels(address: int, nbytes: int) -> bool:
    """Return whether kernels may use memory of others: it is aligned, and has the slack behind it.

    What they read there does not matter, but it must be mapped: it lies in the last byte's page.
    """
    last = address + nbytes - 1
    return address % ALIGNMENT == 0 and last // _PAGE == (last + ALIGNMENT) // _PAGE


def view(memory: Array, buffer_type: BufferType, offset: int = 0) -> Array:
    """Return the part of ``memory`` from byte ``offset`` on as an array of this type and shape.

    Raise UserError if NumPy has no such type.
    """
    dtype = _dtype(buffer_type)
    try:
        return memory[offset : offset + buffer_type.nbytes].view(dtype).reshape(buffer_type.shape)
    except ValueError as error:
        raise UserError(
            f"a buffer of shape {buffer_type.shape} cannot be allocated: {error}"
        ) from error


def is_numpy_type(name: str) -> bool:
    """Return whether NumPy itself has this type, and it is of numbers."""
    try:
        return np.dtype(name).kind in "biuf"
    except TypeError:
        return False


def _dtype(buffer_type: BufferType) -> np.dtype[Any]:
    if not is_numpy_type(buffer_type.dtype):
        raise UserError(
            f"a buffer of type {buffer_type.dtype!r} cannot be allocated; use a number type of "
            "NumPy's"
        )
    return np.dtype(buffer_type.dtype)


def share_constant(array: Array, key: str | None = None) -> Array:
    """Return an aligned array of equal content, the same one for all callers in this process.

    It must not be written to. ``key`` is the array's :func:`content_key`, if already computed.
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
    """Share a constant as :func:`share_constant` does, but without a copy if its content is new."""
    if not array.flags.writeable:
        # NumPy 1 makes read-only arrays of DLPack's tensors, and cannot make tensors of these
        # again.
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
    """Return the SHA-256 of an array's type, shape and content."""
    digest = hashlib.sha256(f"{array.dtype}{list(array.shape)}".encode())
    digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


class PackedConstants:
    """A cache of packed constants.

    A search builds many programs of the same constants, most of which are packed alike: packing
    them and hashing the result would take longer than the rest of a build.
    """

    def __init__(self) -> None:
        #: By a constant's address and packing: the constant, which keeps the address in use, and
        #: the key of its packed content.
        self._keys: dict[tuple[object, ...], tuple[Array, str]] = {}

    def packed(self, constant: Array, transform: ParamTransform) -> tuple[str, Array]:
        """Return the content key of a transformed constant, and the transformed array.

        All programs share that array; ``constant`` must not be written to afterwards.
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
