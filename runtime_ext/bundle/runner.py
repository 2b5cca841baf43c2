"""The command line of a bundle's ``run.py``: search, build, verify and measure on this machine.

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
    """Run a bundle; return 0, 1 for a stated failure, or 2 for a wrong command line."""
    options = _parser().parse_args(arguments)
    try:
        results = run_bundle(folder, options)
    except (UserError, OSError) as error:
        interrupts.raise_if_received()
        if options.debug:
            raise
        print(f"run.py: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    if options.json or _of_saved(options):
        print(json.dumps(results))
    else:
        _print(results)
    return 0


def run_bundle(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Run a bundle; return the content of ``results.json``, or the samples of a contest.

    Raise UserError if the bundle cannot run here, or a program's outputs are wrong.
    """
    begin = time.perf_counter()
    bundle = read_bundle(folder)
    output = options.output or folder / RESULTS
    make_folder(output)
    backend = open_bundle(bundle, options.lanes, output / "compiled", cudnn=options.cudnn)
    limits = limits_of(bundle, options.max_measurements, options.time_limit)
    measure_again = not _of_saved(options)
    report = _Progress()
    searches = bundle_search(bundle, backend, output, limits, report, measure_again=measure_again)
    search, timer = searches.search, searches.timer
    if options.contest:
        files = {name: Path(path) for name, path in json.loads(sys.stdin.readline()).items()}
        search.find("sequential", priced=True)
        return time_saved(bundle, backend, timer, files)
    if options.peers or options.warps:
        # Groups share the lanes by the latencies of their units, which the log has.
        search.find("sequential", priced=True)
        named = [pair.partition("=") for pair in options.schedules]
        files = {name: Path(path) for name, _, path in named}
        if options.peers:
            from runtime_ext.bundle.peers import compare_peers

            peers = options.peers.split(",")
            results = compare_peers(bundle, backend, timer, files, peers, report)
        else:
            from runtime_ext.bundle.warps import profile_warps

            results = profile_warps(bundle, backend, timer, files, report)
        name = "peers.json" if options.peers else "warps.json"
        write_atomically(output / name, json.dumps(results, indent=1).encode())
        return results
    policies = tuple(options.policy.split(",")) if options.policy else bundle.about["policies"]
    found, skipped = search_policies(search, policies, output)
    schedules = {policy: result.schedule for policy, result in found.items()}
    files = {policy: output / f"schedule-{policy}.json" for policy in found}
    same_options = ["--lanes", str(backend.device.lanes), "--output", str(output)]
    same_options += [] if options.cudnn else ["--no-cudnn"]
    verdict = compare_policies(bundle, backend, timer, schedules, files, same_options, report)
    results = _results(bundle, backend, found, verdict)
    results["search"]["stages_measured"] = timer.stages_measured
    results["skipped"] = {**skipped, **verdict.skipped}
    results["unfused"] = timer.unfused
    results["unsupported"] = timer.forms.unsupported
    results["seconds"] = time.perf_counter() - begin
    write_atomically(output / "results.json", json.dumps(results, indent=1).encode())
    searches.end_run()
    return results


def _of_saved(options: argparse.Namespace) -> bool:
    """Return whether the options run saved schedules instead of a search."""
    return bool(options.contest or options.peers or options.warps)


def _results(
    bundle: Bundle, backend: Backend[BundledKernels], found: Mapping[str, Found], verdict: Verdict
) -> dict[str, Any]:
    statistics = [r.statistics for r in found.values() if r.statistics is not None]
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
        "library_units": {name: _library_units(r.schedule) for name, r in found.items()},
        "kept": verdict.kept,
        "reference": verdict.reference,
        "confirmed": {name: asdict(ratio) for name, ratio in verdict.confirmed.items()},
        "search": {
            "units": len(bundle.graph),
            "states": sum(s.states or 0 for s in statistics),
            "transitions": sum(s.transitions or 0 for s in statistics),
            "candidates": max((s.candidates or 0 for s in statistics), default=0),
            "complete": all(s.complete for s in statistics),
        },
    }


def _library_units(schedule: Schedule) -> int:
    """Return the number of units that a kernel library computes."""
    return sum(name == CUDNN for name in schedule.kernels.values())


def _print(results: Mapping[str, Any]) -> None:
    print(f"{results['model']}, batch {results['batch']}, on {results['device']}")
    print(f"{'policy':14} {'stages':>6} {'latency':>12} {'to sequential':>14} {'error':>9}")
    for row in results["policies"]:
        error = "" if row["max_rel_error"] is None else f"{row['max_rel_error']:9.1e}"
        print(
            f"{row['policy']:14} {row['stages']:6} {row['latency_ms']:9.3f} ms "
            f"{row['ratio']:14.3f} {error}"
        )
    print(f"errors: to the outputs of {results['reference'] or 'nobody (--verify off)'}")
    for policy, reason in results["skipped"].items():
        print(f"{policy}: skipped: {reason}")
    if by_cudnn := results["library_units"][results["kept"]]:
        print(f"cuDNN {results['cudnn']} computes {by_cudnn} of {results['search']['units']} units")
    ratio = results["confirmed"]["sequential"]
    compared = (
        "no ratio to it has a 95 % interval below one"
        if results["kept"] == "sequential"
        else f"in {ratio['pairs']} pairs of runs in fresh processes {ratio['median']:.3f} of "
        f"sequential ({ratio['low']:.3f} to {ratio['high']:.3f})"
    )
    print(f"kept {results['kept']}: {compared}")


class _Progress:
    """A progress callback that prints a line for each tenth of a piece of work, on stderr."""

    def __init__(self) -> None:
        self._printed: dict[str, int] = {}

    def __call__(self, what: str, done: int, total: int) -> None:
        interrupts.raise_if_received()
        tenth = 10 * done // max(1, total)
        if self._printed.get(what) != tenth:
            self._printed[what] = tenth
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
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument(
        "--peers",
        metavar="NAMES",
        help="instead of a search compare saved schedules with others, between commas: "
        f"{', '.join(peer_names())} (tvm if the bundle has it)",
    )
    modes.add_argument(
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
