"""The pieces of the C++ loader that have to agree with Python."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from runtime_ext.execution.native_executor import load_native_library
from runtime_ext.machine.cpu_features import _LINUX_NAME
from tests.refusals import refused

NATIVE = load_native_library()


@pytest.mark.parametrize(
    ("text", "digest"),
    [
        # FIPS 180-2, appendix B, and the empty text.
        (b"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        (b"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        (
            b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
        ),
        (b"a" * 1_000_000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"),
    ],
)
def test_sha256_of_known_texts(text: bytes, digest: str) -> None:
    assert NATIVE["sha256"](text) == digest


def test_sha256_of_every_length_around_a_block() -> None:
    for length in range(200):
        text = bytes(range(256))[:length]
        assert NATIVE["sha256"](text) == hashlib.sha256(text).hexdigest()


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    # Below the least normal number C's strtod reports a range error.
    | st.floats(allow_subnormal=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), VALUES, max_size=5))
@example({"a": [1e16, 1e15, 123456789012345680.0, 1e-4, 9.9e-5, 0.1, -0.0, 5e300, 1.0, 100.5]})
@example({"z": 1, "a": '\x7f\x1f"\\/\b\f\n\r\t é€ \U0001f600', "\U0001f600": 0, "\uffff": 0})
def test_json_is_written_as_python_writes_it(data: dict[str, Any]) -> None:
    """Checksums of meta data are of this text."""
    for indent in (None, 1):
        text = json.dumps(data, indent=indent).encode()
        assert NATIVE["sorted_json"](text) == json.dumps(data, sort_keys=True)


def test_json_that_would_overflow_the_stack_is_refused() -> None:
    for deep in (
        '{"a": ' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"a":' * 100_000 + "1" + "}" * 100_000,
    ):
        with refused(RuntimeError, "nested"):
            NATIVE["sorted_json"](deep.encode())
    text = json.dumps({"a": "[" * 1000 + '\\"' + "{" * 1000})
    assert NATIVE["sorted_json"](text.encode()) == text


def test_cpu_features_have_the_same_names() -> None:
    for name, linux in _LINUX_NAME.items():
        assert NATIVE["linux_name_of_feature"](name) == linux
    assert NATIVE["linux_name_of_feature"]("warp-drive") == ""
