"""``python -m tests.golden PYTHON``: hold what this environment makes against another's.

Schedules by described costs must be the same, bit for bit; latencies are of runs in turn.
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

from rich.progress import track

from benchmarks.in_turn import compared, session_runner, shown
from runtime_ext.execution.executable import load
from tvm_ios.zoo import names

_DEVICES = ("v100", "h200", "cpu")
_POLICIES = ("greedy", "ios-both", "graphturbo", "holistic")


def _run(python: str, *arguments: object) -> str:
    """Return the failure of a command, which is empty if there was none."""
    command = [python, "-m", "tvm_ios", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stderr.strip() if done.returncode else ""


def _compared_schedule(network: str, device: str, policy: str, pythons: tuple[str, str]) -> str:
    """Return how two schedules differ, or nothing."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in ("before.json", "after.json")]
        options = ("--cost", device, "--policy", policy)
        failed = [
            _run(python, "schedule", network, *options, "-o", file)
            for python, file in zip(pythons, files, strict=True)
        ]
        if any(failed):
            return "" if failed[0] == failed[1] else f"{failed[0]} / {failed[1]}"
        return "" if files[0].read_bytes() == files[1].read_bytes() else "other schedules"


def _compared_latency(network: str, pythons: tuple[str, str]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        runners = []
        for python, name in zip(pythons, ("before", "after"), strict=True):
            if failed := _run(python, "optimize", network, "-o", f"{folder}/{name}"):
                return f"{name}: {failed}"
            session = load(f"{folder}/{name}").session()
            session.set_input(**session.random_inputs())
            runners.append(session_runner(session))
        ratio, (old, new) = compared(*runners)
    return f"{old * 1e3:.3f} ms before, {new * 1e3:.3f} after, {shown(asdict(ratio))} of before"


def _main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    parser.add_argument("before", help="the Python of an environment that has what was before")
    parser.add_argument("--networks", nargs="+", help="instead of all of the zoo")
    parser.add_argument("--timed", nargs="*", default=["squeezenet"], help="what is optimised")
    options = parser.parse_args()
    pythons = (options.before, sys.executable)
    cases = list(itertools.product(options.networks or names(), _DEVICES, _POLICIES))
    with ThreadPoolExecutor(2) as threads:
        results = threads.map(lambda case: _compared_schedule(*case, pythons), cases)
        differing = [
            f"{' '.join(case)}: {found}"
            for case, found in track(zip(cases, results, strict=True), "schedules", len(cases))
            if found
        ]
    print(
        f"{len(cases) - len(differing)} of {len(cases)} schedules are the same",
        *differing,
        sep="\n",
    )
    for network in options.timed:
        print(f"{network}: {_compared_latency(network, pythons)}")
    return bool(differing)


if __name__ == "__main__":
    sys.exit(_main())
