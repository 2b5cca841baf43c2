"""Check the versions of installed packages against those that tvm-ios requires."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from importlib import metadata

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from runtime_ext.doctor.check import Check, Status
from tvm_ios.distributions import COMPLETE, RUNTIME, installed_versions

_USES = {
    COMPLETE: "makes, tunes, runs and explains executables",
    RUNTIME: "runs, times and explains executables; `pip install tvm-ios` instead makes them",
}


def check_python() -> Iterator[Check]:
    """Check the interpreter, and the system, for which kernels must exist."""
    version, machine = platform.python_version(), platform.machine()
    detail = f"{platform.python_implementation()} {version} on {platform.system()} {machine}"
    required = ",".join(_metadata("Requires-Python"))
    if not SpecifierSet(required).contains(version, prereleases=True):
        remedy = f"make a virtual environment with Python {required} and install tvm-ios there"
        yield Check("python", Status.PROBLEM, detail, remedy)
    elif platform.system() != "Linux" or machine not in ("x86_64", "aarch64"):
        remedy = "use Linux on x86-64 or 64-bit Arm: kernels and the executor are made for these"
        yield Check("python", Status.PROBLEM, detail, remedy)
    else:
        yield Check("python", Status.OK, detail)


def check_packages() -> Iterator[Check]:
    """Check tvm-ios itself, its requirements, and the packages of its extras."""
    versions = installed_versions()
    if not versions:
        yield Check(
            COMPLETE,
            Status.WARNING,
            "runs from its source and is not installed: the versions it needs are not known",
            "run `pip install -e .` in the folder of its source",
        )
        return
    yield from _ours(versions)
    optional: dict[str, list[str]] = {}
    for requirement in map(Requirement, metadata.requires(_ours_name()) or []):
        if _applies(requirement, ""):
            yield _required(requirement)
        elif requirement.name != COMPLETE:
            extras = [
                extra for extra in _metadata("Provides-Extra") if _applies(requirement, extra)
            ]
            optional.setdefault(str(_without_marker(requirement)), []).extend(extras)
    for text, extras in optional.items():
        if extras:
            yield _optional(Requirement(text), extras)


def _ours(versions: Mapping[str, str]) -> Iterator[Check]:
    for name, version in versions.items():
        use = f"{version}: {_USES[name]}"
        yield Check(name, Status.OK, use)
    if len(versions) > 1:
        alike = len(set(versions.values())) == 1
        yield Check(
            "distributions",
            Status.WARNING if alike else Status.PROBLEM,
            f"{COMPLETE} and {RUNTIME} are both installed and own the same files"
            + ("" if alike else ", of two versions"),
            f"run `pip uninstall {RUNTIME}`, then "
            f"`pip install --force-reinstall --no-deps {COMPLETE}`",
        )


def _ours_name() -> str:
    return next(iter(installed_versions()), COMPLETE)


def _required(requirement: Requirement) -> Check:
    install = f"run `pip install '{_without_marker(requirement)}'`"
    version = _version(requirement.name)
    if version is None:
        return Check(requirement.name, Status.PROBLEM, "is not installed", install)
    if not _holds(requirement, version):
        detail = f"{version}, but tvm-ios needs {requirement.specifier}"
        return Check(requirement.name, Status.PROBLEM, detail, install)
    return Check(requirement.name, Status.OK, version)


def _optional(requirement: Requirement, extras: list[str]) -> Check:
    version = _version(requirement.name)
    extra_names = ", ".join(extras)
    if version is None:
        install = f"pip install 'tvm-ios[{extras[0]}]'"
        detail = f"is not installed; the extra {extra_names} brings it ({install})"
        return Check(requirement.name, Status.OK, detail)
    if not _holds(requirement, version):
        detail = f"{version}, but the extra {extra_names} needs {requirement.specifier}"
        return Check(requirement.name, Status.WARNING, detail, f"run `pip install '{requirement}'`")
    return Check(requirement.name, Status.OK, f"{version} (extra {extra_names})")


def _holds(requirement: Requirement, version: str) -> bool:
    return requirement.specifier.contains(version, prereleases=True)


def _applies(requirement: Requirement, extra: str) -> bool:
    """Return whether a requirement holds here with this extra, or with none if it is empty."""
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def _without_marker(requirement: Requirement) -> Requirement:
    bare = Requirement(str(requirement))
    bare.marker = None
    return bare


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _metadata(key: str) -> list[str]:
    try:
        return [str(value) for value in metadata.metadata(_ours_name()).get_all(key) or []]
    except metadata.PackageNotFoundError:
        return []
