"""Constants are packed once, as long as a program has them."""

from __future__ import annotations

import gc
from unittest.mock import patch

import numpy as np

from runtime_ext.execution.buffers import PackedConstants, content_key
from tvm_ios.program.constant_transform import ParamTransform

_TRANSPOSED = ParamTransform((("transpose", (1, 0)),))


def _weights(offset: float) -> np.ndarray:
    return np.arange(6, dtype=np.float32).reshape(2, 3) + np.float32(offset)


def test_a_constant_is_packed_once() -> None:
    packed, weights = PackedConstants(), _weights(0.25)
    key, array = packed.packed(weights, _TRANSPOSED)
    assert array.tolist() == weights.T.tolist()
    assert key == content_key(weights.T)
    # A view of the same bytes, as each build makes one.
    with patch.object(ParamTransform, "apply", side_effect=AssertionError):
        again, same = packed.packed(weights.view(), _TRANSPOSED)
    assert (again, same is array) == (key, True)


def test_other_bytes_shapes_and_transforms_are_packed_on_their_own() -> None:
    packed, weights = PackedConstants(), _weights(0.5)
    cases = (
        (weights, _TRANSPOSED),
        (weights, ParamTransform()),
        (weights.reshape(3, 2), _TRANSPOSED),
        (weights.T, _TRANSPOSED),
        (weights[:1], _TRANSPOSED),
        (_weights(0.5) + 1, _TRANSPOSED),
    )
    for constant, transform in cases:
        key, array = packed.packed(constant, transform)
        want = transform.apply(constant)
        assert (array.shape, array.tolist()) == (want.shape, want.tolist())
        assert key == content_key(want)


def test_what_no_program_has_any_more_is_packed_again() -> None:
    packed, weights = PackedConstants(), _weights(0.75)
    key, array = packed.packed(weights, _TRANSPOSED)
    del array
    gc.collect()
    again, array = packed.packed(weights, _TRANSPOSED)
    assert again == key
    assert array.tolist() == weights.T.tolist()
