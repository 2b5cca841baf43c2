"""What ``run.py`` of a bundle does: search, build, verify and measure on this machine.

It may be killed at any time: the next run finds all measurements in the log.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from runtime_ext.backend import Backend
from runtime_ext.bundle.backend import machine_facts, open_bundle
from runtime_ext.bundle.compare import compare_policies, time_saved
from runtime_ext.bundle.contents import RESULTS, Bundle, read_bundle
from runtime_ext.bundle.kernels import BundledKernels
from runtime_ext.bundle.search import bundle_search, limits_of, search_policies
from runtime_ext.kernels.library_convolution import CUDNN
from runtime_ext.peers.registry import peer_names
from tvm_ios import interrupts
from tvm_ios.contest.verdict import Verdict
from tvm_ios.errors import UserError
from tvm_ios.files.atomic import make_folder, write_atomically
from tvm_ios.policies.policy import Found
from tvm_ios.schedule.schedule import Schedule


def main(folder: Path, arguments: Sequence[str]) -> int:
    """Run a bundle; gives the exit code: 0, 1 for a stated failure, 2 for a wrong command line."""
    wanted = _parser().parse_args(arguments)
    try:
        results = run_bundle(folder, wanted)
    except (UserError, OSError) as error:
        interrupts.raise_if_received()
        if wanted.debug:
            raise
        print(f"run.py: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    if wanted.json or _of_saved(wanted):
        print(json.dumps(results))
    else:
        _print(results)
    return 0


def run_bundle(folder: Path, wanted: argparse.Namespace) -> dict[str, Any]:
    """What is written to ``results.json``; samples by policy for a contest.

    Raises
    ------
    UserError
        If the bundle cannot run here, or a schedule computes something else.
    """
    begin = time.perf_counter()
    bundle = read_bundle(folder)
    output = wanted.output or folder / RESULTS
    make_folder(output)
    backend = open_bundle(bundle, wanted.lanes, output / "compiled", cudnn=wanted.cudnn)
    limits = limits_of(bundle, wanted.max_measurements, wanted.time_limit)
    again = not _of_saved(wanted)
    report = _Progress()
    measured = bundle_search(bundle, backend, output, limits, report, again=again)
    search, timer = measured.search, measured.timer
    if wanted.contest:
        files = {name: Path(path) for name, path in json.loads(sys.stdin.readline()).items()}
        search.find("sequential", priced=True)
        return time_saved(bundle, backend, timer, files)
    if wanted.peers or wanted.warps:
        # Groups share the lanes by the latencies of their units, which the log has.
        search.find("sequential", priced=True)
        named = [pair.partition("=") for pair in wanted.schedules]
        files = {name: Path(path) for name, _, path in named}
        if wanted.peers:
            from runtime_ext.bundle.peers import compare_peers

            peers = wanted.peers.split(",")
            made = compare_peers(bundle, backend, timer, files, peers, report)
        else:
            from runtime_ext.bundle.warps import profile_warps

            made = profile_warps(bundle, backend, timer, files, report)
        name = "peers.json" if wanted.peers else "warps.json"
        write_atomically(output / name, json.dumps(made, indent=1).encode())
        return made
    policies = tuple(wanted.policy.split(",")) if wanted.policy else bundle.about["policies"]
    found, skipped = search_policies(search, policies, output)
    schedules = {policy: made.schedule for policy, made in found.items()}
    files = {policy: output / f"schedule-{policy}.json" for policy in found}
    options = ["--lanes", str(backend.device.lanes), "--output", str(output)]
    options += [] if wanted.cudnn else ["--no-cudnn"]
    verdict = compare_policies(bundle, backend, timer, schedules, files, options, report)
    made = _results(bundle, backend, found, verdict)
    made["search"]["stages_measured"] = timer.stages_measured
    made["skipped"] = {**skipped, **verdict.skipped}
    made["unfused"] = timer.unfused
    made["unsupported"] = timer.forms.unsupported
    made["seconds"] = time.perf_counter() - begin
    write_atomically(output / "results.json", json.dumps(made, indent=1).encode())
    measured.end_run()
    return made


def _of_saved(wanted: argparse.Namespace) -> bool:
    """Whether saved schedules are run, and none searched."""
    return bool(wanted.contest or wanted.peers or wanted.warps)


def _results(
    bundle: Bundle,
    backend: Backend[BundledKernels],
    found: Mapping[str, Found],
    verdict: Verdict,
) -> dict[str, Any]:
    counted = [made.statistics for made in found.values() if made.statistics is not None]
    about = bundle.about
    return {
        "model": about["model"],
        "batch": bundle.graph.batch,
        "device": backend.device.name,
        "lanes": backend.device.lanes,
        "target": about["target"],
        "made_with": about["versions"],
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        **machine_facts(bundle, backend),
        "policies": [result.to_json() for result in verdict.results],
        "library_units": {name: _library_units(made.schedule) for name, made in found.items()},
        "kept": verdict.kept,
        "confirmed": {name: asdict(ratio) for name, ratio in verdict.confirmed.items()},
        "search": {
            "units": len(bundle.graph),
            "states": sum(s.states or 0 for s in counted),
            "transitions": sum(s.transitions or 0 for s in counted),
            "candidates": max((s.candidates or 0 for s in counted), default=0),
            "complete": all(s.complete for s in counted),
        },
    }


def _library_units(schedule: Schedule) -> int:
    """How many units a kernel library computes."""
    return sum(name == CUDNN for name in schedule.kernels.values())


def _print(results: Mapping[str, Any]) -> None:
    print(f"{results['model']}, batch {results['batch']}, on {results['device']}")
    print(f"{'policy':14} {'stages':>6} {'latency':>12} {'to sequential':>14} {'error':>9}")
    for row in results["policies"]:
        print(
            f"{row['policy']:14} {row['stages']:6} {row['latency_ms']:9.3f} ms "
            f"{row['ratio']:14.3f} {row['max_rel_error']:9.1e}"
        )
    for policy, why in results["skipped"].items():
        print(f"{policy}: skipped: {why}")
    if used := results["library_units"][results["kept"]]:
        print(f"cuDNN {results['cudnn']} computes {used} of {results['search']['units']} units")
    ratio = results["confirmed"]["sequential"]
    print(
        f"kept {results['kept']}: in {ratio['pairs']} pairs of runs in fresh processes "
        f"{ratio['median']:.3f} of sequential ({ratio['low']:.3f} to {ratio['high']:.3f})"
    )


class _Progress:
    """One line a tenth of a piece of work, on stderr."""

    def __init__(self) -> None:
        self._said: dict[str, int] = {}

    def __call__(self, what: str, done: int, total: int) -> None:
        interrupts.raise_if_received()
        tenth = 10 * done // max(1, total)
        if self._said.get(what) != tenth:
            self._said[what] = tenth
            print(f"{what}: {done} of {total}", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="run.py",
        description="Search schedules of this bundle's model by measuring on this machine, verify "
        "and time them. Kill it at any time: the next run goes on where it was.",
    )
    parser.add_argument("--policy", metavar="NAMES", help="policies to try, between commas")
    parser.add_argument("--lanes", type=_natural, help="threads, or streams")
    parser.add_argument(
        "--max-measurements", type=int, default=400, help="stages to measure for a policy, at most"
    )
    parser.add_argument(
        "--time-limit", type=float, metavar="SECONDS", help="of a policy's search, at most"
    )
    parser.add_argument(
        "--cudnn",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="measure cuDNN's convolutions beside the bundle's own, on a GPU where it is installed",
    )
    parser.add_argument("-o", "--output", type=Path, help="where results go  [results/ in here]")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument(
        "--peers",
        metavar="NAMES",
        help="instead of a search compare saved schedules with others, between commas: "
        f"{', '.join(peer_names())} (tvm if the bundle has it)",
    )
    instead.add_argument(
        "--warps",
        action="store_true",
        help="instead of a search say how many warps saved schedules keep active on a GPU; "
        "needs torch, whose profiler sees it",
    )
    parser.add_argument(
        "--schedules", nargs="+", metavar="NAME=FILE", default=[], help="for these two, ours"
    )
    # A fresh process: the policies and files of schedules are on its standard input.
    parser.add_argument("--contest", action="store_true", help=argparse.SUPPRESS)
    return parser


def _natural(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number
