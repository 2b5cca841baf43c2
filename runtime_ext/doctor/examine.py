"""Run all checks, causes before their consequences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module

from runtime_ext.doctor.check import Check, Status

#: Makes one check, or several of a kind.
Checker = Callable[[], Iterable[Check]]


def _named(module: str, function: str) -> Checker:
    """Return a checker that is imported when called: a broken import is a finding too."""
    return lambda: getattr(import_module(f"runtime_ext.doctor.{module}"), function)()


#: All checkers, by the name under which a failure of the checker itself is reported.
CHECKERS: Mapping[str, Checker] = {
    "python": _named("packages", "check_python"),
    "packages": _named("packages", "check_packages"),
    "compiler": _named("compiler", "check_compiler"),
    "processor": _named("processor", "check_processor"),
    "lanes": _named("processor", "check_lanes"),
    "gpu": _named("processor", "check_gpu"),
    "cache": _named("surroundings", "check_cache"),
    "environment": _named("surroundings", "check_environment"),
    "compiled code": _named("compiled_code", "check_compiled_code"),
}


def examine(checkers: Mapping[str, Checker] = CHECKERS) -> list[Check]:
    """Run all checks. One that raises is reported as a problem, and the others still run."""
    checks: list[Check] = []
    for name, checker in checkers.items():
        try:
            # Keeps the findings that a checker made before it failed.
            checks.extend(checker())
        except Exception as error:
            reason = f"{type(error).__name__}: {error}".partition("\n")[0]
            detail = f"could not be looked at: {reason}"
            remedy = "install tvm-ios again (`pip install .`), then report this"
            checks.append(Check(name, Status.PROBLEM, detail, remedy))
    return checks
