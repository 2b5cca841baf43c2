"""All checks, in the order in which faults lead to others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from runtime_ext.doctor.check import Check, Status
from runtime_ext.doctor.compiled_code import check_compiled_code
from runtime_ext.doctor.compiler import check_compiler
from runtime_ext.doctor.packages import check_packages, check_python
from runtime_ext.doctor.processor import check_gpu, check_lanes, check_processor
from runtime_ext.doctor.surroundings import check_cache, check_environment

#: Looks at one thing, or at several of a kind.
Checker = Callable[[], Iterable[Check]]

#: By the names that failures of their own go under.
CHECKERS: Mapping[str, Checker] = {
    "python": check_python,
    "packages": check_packages,
    "compiler": check_compiler,
    "processor": check_processor,
    "lanes": check_lanes,
    "gpu": check_gpu,
    "cache": check_cache,
    "environment": check_environment,
    "compiled code": check_compiled_code,
}


def examine(checkers: Mapping[str, Checker] = CHECKERS) -> list[Check]:
    """Run all checks; one that fails itself is a problem and keeps no other from running."""
    found: list[Check] = []
    for name, checker in checkers.items():
        try:
            # Keeps what a checker has found before it fails.
            found.extend(checker())
        except Exception as error:
            reason = f"{type(error).__name__}: {error}".partition("\n")[0]
            detail = f"could not be looked at: {reason}"
            found.append(Check(name, Status.PROBLEM, detail, "report this"))
    return found
