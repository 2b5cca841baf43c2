"""The pieces of the C++ loader."""

from __future__ import annotations

import hashlib
import json

import pytest

from runtime_ext.native_library import load_native_library
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
    assert {NATIVE["sha256"](text, portably) for portably in (False, True)} == {digest}


def test_sha256_of_every_length_around_a_block() -> None:
    for length in range(200):
        text = bytes(range(256))[:length]
        for portably in (False, True):
            assert NATIVE["sha256"](text, portably) == hashlib.sha256(text).hexdigest()


def test_json_that_would_overflow_the_stack_is_refused() -> None:
    for deep in (
        '{"a": ' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"a":' * 100_000 + "1" + "}" * 100_000,
    ):
        with refused(RuntimeError, "nested"):
            NATIVE["parse_json"](deep.encode())
    NATIVE["parse_json"](json.dumps({"a": "[" * 1000 + '\\"' + "{" * 1000}).encode())


def test_features_that_are_not_known_are_missing() -> None:
    features = [str(name) for name in NATIVE["known_features"]()]
    assert {"sse4.2", "avx2", "avx512f"} <= set(features)
    assert list(NATIVE["missing_features"](["warp-drive"])) == ["warp-drive"]
    assert set(NATIVE["missing_features"](features)) < set(features)


def test_features_of_arm_are_read() -> None:
    cpuinfo = "processor\t: 0\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd asimdhp atomics asimddp\n"
    needed = ["neon", "fullfp16", "dotprod", "i8mm", "sve"]
    assert set(needed) < set(NATIVE["known_features"]())
    assert list(NATIVE["missing_features_there"](needed, cpuinfo)) == ["i8mm", "sve"]
    x86 = "vmx flags\t: avx2\nflags\t\t: fpu avx2 sse4_2\n"
    assert list(NATIVE["missing_features_there"](["avx2", "sse4.2", "neon"], x86)) == ["neon"]
