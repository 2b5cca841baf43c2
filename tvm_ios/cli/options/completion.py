"""Suggestions of the shell where a model, a policy, a cost or the like is named."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable

#: Suffixes of models.
MODEL_SUFFIXES = (".onnx", ".pt2", ".json")


def complete_model(incomplete: str) -> list[str]:
    """Return zoo names, files of models, and folders on the way to them."""
    from tvm_ios import zoo

    return [*_starting(zoo.names(), incomplete), *_files(incomplete, MODEL_SUFFIXES)]


def complete_policy(incomplete: str) -> list[str]:
    """Return names of policies."""
    from tvm_ios.policies.registry import policy_names

    return _starting(policy_names(), incomplete)


def complete_cost(incomplete: str) -> list[str]:
    """Return ``measured``, devices, accelerators, cost models, logs of measurements, and files."""
    from tvm_ios.costs.named import cost_names
    from tvm_ios.devices.memory_hierarchy import hierarchy_names

    names = dict.fromkeys((*cost_names(), *hierarchy_names()))
    return [*_starting(names, incomplete), *_files(incomplete, (".jsonl", ".json"))]


def complete_engine(incomplete: str) -> list[str]:
    """Return the engines of this package, and files."""
    from tvm_ios.devices.engine import engine_names

    return [*_starting(engine_names(), incomplete), *_files(incomplete, (".json",))]


def complete_peers(incomplete: str) -> list[str]:
    """Complete the last of several peers joined by commas."""
    from runtime_ext.peers.registry import peer_names

    return _joined(peer_names("cpu"), incomplete)


def complete_device(incomplete: str) -> list[str]:
    """Return names of timing devices of other packages."""
    from tvm_ios.measuring.timing_device import timing_device_names

    return _starting(timing_device_names(), incomplete)


def complete_memory_schedulers(incomplete: str) -> list[str]:
    """Complete the last of several memory schedulers joined by commas."""
    from tvm_ios.memory.schedulers import MEMORY_SCHEDULERS

    return _joined(MEMORY_SCHEDULERS, incomplete)


def complete_policies(incomplete: str) -> list[str]:
    """Complete the last of several policies joined by commas."""
    from tvm_ios.policies.registry import policy_names

    return _joined(policy_names(), incomplete)


def _joined(names: Iterable[str], incomplete: str) -> list[str]:
    done, comma, last = incomplete.rpartition(",")
    left = [name for name in names if name not in done.split(",")]
    return [f"{done}{comma}{name}" for name in _starting(left, last)]


def _starting(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _files(incomplete: str, suffixes: tuple[str, ...]) -> list[str]:
    paths: list[str] = []
    for path in sorted(glob.glob(f"{glob.escape(incomplete)}*")):
        if os.path.isdir(path):
            paths.append(f"{path}/")
        elif path.endswith(suffixes):
            paths.append(path)
    return paths
