"""The instructions that a target's code uses, and those that this machine has.

Only the features listed in ``runtime_ext/native/cpu_features.cc`` count: the C++ loader checks
them too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def required_features(target: Any) -> tuple[str, ...]:
    """Return the CPU features that code for a TVM target needs, in LLVM's names, sorted.

    The target is a ``tvm.target.Target`` of kind ``llvm``, or an argument to make one.
    """
    import tvm
    from tvm.target.codegen import llvm_get_cpu_features

    from runtime_ext.native_library import load_native_library

    if not isinstance(target, tvm.target.Target):
        target = tvm.target.Target(target)
    features: Any = llvm_get_cpu_features(target)
    decisive = map(str, load_native_library()["known_features"]())
    return tuple(sorted({str(name) for name in features} & set(decisive)))


def missing_features(required: Sequence[str]) -> tuple[str, ...]:
    """Return the features, in LLVM's names, that this machine is known to lack."""
    from runtime_ext.native_library import load_native_library

    return tuple(map(str, load_native_library()["missing_features"](list(required))))


def host_features() -> frozenset[str]:
    """Return the features, in LLVM's names, that this machine is known to have."""
    from runtime_ext.native_library import load_native_library

    library = load_native_library()
    known = library["known_features"]()
    return frozenset(map(str, known)).difference(map(str, library["missing_features"](known)))
