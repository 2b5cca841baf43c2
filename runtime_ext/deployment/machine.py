"""Describe this machine or a named one, to choose the entries of a deployment that it can run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from runtime_ext.cuda.nvidia.driver import runs_on
from runtime_ext.isa.levels import NAMES, level_named, levels_below
from runtime_ext.native_library import load_native_library
from tvm_ios.deployment.entry import Entry
from tvm_ios.deployment.registry import DeploymentError


@dataclass(frozen=True, slots=True)
class Machine:
    """The features and limits by which a machine can run entries."""

    #: CPU features that it has, in LLVM's names.
    features: frozenset[str]
    #: Threads that a program may use.
    lanes: int
    #: The architectures of entries whose code its GPU runs.
    gpu_archs: frozenset[str] = frozenset()
    #: Streams that a program for a GPU may use; any number if None.
    streams: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain data, as the C++ library reads it."""
        return {
            "features": sorted(self.features),
            "lanes": self.lanes,
            "gpu_archs": sorted(self.gpu_archs),
            "streams": self.streams,
        }


def this_machine(entries: Sequence[Entry], lanes: int | None = None) -> Machine:
    """Return this machine's features, lanes and GPU architectures that the entries need.

    Programs may use ``lanes`` lanes, by default as many as there are CPUs for this process.
    """
    asked = json.dumps({"entries": [entry.to_json() for entry in entries]}).encode()
    here = load_native_library()["this_machine"](asked, lanes or 0)
    features, gpu_archs = (frozenset(map(str, here[key])) for key in ("features", "gpu_archs"))
    return Machine(features, here["lanes"], gpu_archs, lanes)


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
    try:
        below = levels_below(level_named(arch))
    except KeyError:
        known = f"{NAMES}, sm_90 and the like"
        raise DeploymentError(f"{arch!r} is no architecture: use {known}") from None
    features = {f for entry in entries if entry.arch in below for f in entry.features}
    most = max((entry.lanes for entry in entries), default=1)
    return Machine(frozenset(features), lanes or most)
