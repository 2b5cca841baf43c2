"""Constants as kernels want them, packed once for all programs of a model."""

from __future__ import annotations

from runtime_ext.execution.buffers import content_key, share_constant, shared_constant
from tvm_ios.files.array_files import Array
from tvm_ios.program.constant_transform import ParamTransform


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
            if (shared := shared_constant(key)) is not None:
                return key, shared
        array = transform.apply(constant)
        key = content_key(array)
        self._keys[place] = constant, key
        return key, share_constant(array, key)
