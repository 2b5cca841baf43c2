"""Describe this machine or a named one, to choose the entries of a deployment that it can run."""

from __future__ import annotations

from collections.abc import Sequence

from runtime_ext.cuda.nvidia.driver import open_device, runs_on
from runtime_ext.isa.x86 import LEVELS
from runtime_ext.machine.cpu_features import missing_features
from runtime_ext.machine.this_machine import available_lanes
from runtime_ext.native_errors import CudaError
from tvm_ios.deployment.choice import Machine
from tvm_ios.deployment.entry import Entry
from tvm_ios.deployment.registry import DeploymentError


def this_machine(entries: Sequence[Entry], lanes: int | None = None) -> Machine:
    """Return this machine's features, lanes and GPU architectures that the entries need.

    Programs may use ``lanes`` lanes, by default as many as there are CPUs for this process.
    """
    features = {feature for entry in entries for feature in entry.features}
    return Machine(
        features=frozenset(features.difference(missing_features(sorted(features)))),
        lanes=lanes or available_lanes(),
        gpu_archs=_gpu_archs({entry.arch for entry in entries if entry.on_gpu}),
        streams=lanes,
    )


def machine_of(entries: Sequence[Entry], arch: str, lanes: int | None = None) -> Machine:
    """Return a machine of an instruction-set level, or with a GPU of an architecture.

    ``arch`` is for example ``x86-64-v3``, or ``sm_90``, whose CPU is this one. Programs may use
    ``lanes`` lanes, by default any number. Raise DeploymentError if the architecture is unknown.
    """
    if arch.startswith("sm_") and arch[3:].isdigit():
        gpu = divmod(int(arch[3:]), 10)
        here = this_machine(entries, lanes)
        archs = frozenset(e.arch for e in entries if runs_on(e.arch, gpu))
        return Machine(here.features, here.lanes, archs, lanes)
    if arch not in LEVELS:
        known = ", ".join((*LEVELS, "sm_90 and the like"))
        raise DeploymentError(f"{arch!r} is no architecture: use {known}")
    below = list(LEVELS)[list(LEVELS).index(arch) :]
    features = {f for entry in entries if entry.arch in below for f in entry.features}
    most = max((entry.lanes for entry in entries), default=1)
    return Machine(frozenset(features), lanes or most)


def _gpu_archs(archs: set[str]) -> frozenset[str]:
    """Return those of the architectures that the first GPU here runs.

    Without architectures, CUDA is not opened.
    """
    if not archs:
        return frozenset()
    try:
        capability = open_device().compute_capability
    except CudaError:
        return frozenset()
    return frozenset(arch for arch in archs if runs_on(arch, capability))
