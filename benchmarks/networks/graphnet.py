"""A draw of GraphNet's torch models by ``torch.compile``: right, taken, and as fast as Inductor's?

FOLDER is a checkout of https://github.com/PaddlePaddle/GraphNet, whose files ``model.py`` and
``weight_meta.py`` are **executed**. Each sample runs in processes of its own with a limit of time:

1. by our backend with an empty cache: whether it is right, what torch runs instead and why, and the
   seconds of the first call;
2. by Inductor with an empty cache: the seconds of its first call;
3. all in turn: ours, eager mode, Inductor as it is by default, and with ``freezing``, by which it
   folds weights. The figures are medians of the ratios of runs that follow one another;
4. with ``--autotune`` ours and Inductor with ``freezing`` and ``max_autotune`` in turn.

Weights are buffers with random numbers as a sample describes them. The *error* of an output is
relative to its largest number, and counts as rounding up to what a last digit of all weights and
inputs changes. Results are written sample by sample; what is there already is not measured again.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.networks.graphnet_samples import build, count_numbers, flat_tensors, sample_names
from benchmarks.report import read_figures, update_result
from tvm_ios.cli.frame.output import console
from tvm_ios.contest.outputs import difference, output_errors
from tvm_ios.contest.pairs import paired_ratio
from tvm_ios.contest.rounds import run_in_turn
from tvm_ios.contest.rules import Rules
from tvm_ios.contest.tolerance import tolerance, widened

OURS, EAGER = "tvm_ios", "eager"
INDUCTOR, FREEZING, AUTOTUNE = "inductor", "freezing", "autotune"
#: Inductor's options by the name of a backend.
_OPTIONS: dict[str, dict[str, Any]] = {
    INDUCTOR: {},
    FREEZING: {"freezing": True},
    AUTOTUNE: {"freezing": True, "max_autotune": True},
}
_RULES = Rules(rounds=41, seconds=12, minimum=6, warm_up=1, hopeless_seconds=4)
#: Outcomes in which all of a sample or a part of it is a program of ours.
_TAKEN = ("taken", "taken in part")


def compiled(folder: Path, backend: str) -> Callable[[], list[Any]]:
    """Return a call of a sample by a backend."""
    import torch

    module, inputs = build(folder)
    run: Callable[..., Any] = module
    if backend != EAGER:
        name = OURS if backend == OURS else INDUCTOR
        run = torch.compile(module, backend=name, options=_OPTIONS.get(backend), dynamic=False)

    def call() -> list[Any]:
        with torch.inference_mode():
            return flat_tensors(run(*inputs))

    return call


def timed_first_call(folder: Path, backend: str) -> tuple[float, list[Any]]:
    call = compiled(folder, backend)
    begin = time.perf_counter()
    outputs = call()
    return time.perf_counter() - begin, outputs


def checked(folder: Path) -> dict[str, Any]:
    """Return the first call by our backend: its seconds, graphs, and error."""
    import tvm_ios

    try:
        expected = compiled(folder, EAGER)()
    except Exception as error:
        return {"unusable": f"eager mode fails: {str(error).splitlines()[0][:200]}"}
    seconds, outputs = timed_first_call(folder, OURS)
    shown = ("where", "reason", "operators", "seconds")
    graphs = [
        {name: value for name, value in asdict(graph).items() if name in shown}
        for graph in tvm_ios.torch_report().graphs
        if graph.where
    ]
    found = {"seconds": seconds, "graphs": graphs}
    theirs, ours = _of_one_size(expected, expected), _of_one_size(outputs, expected)
    limit = tolerance("float32", theirs, quantised=False)
    if difference(_of_one_size(compiled(folder, EAGER)(), expected), theirs, limit):
        return {**found, "is_random": True}
    if how := difference(ours, theirs, limit):
        own_error = output_errors(_of_one_size(_moved(folder), expected), theirs)[1]
        how = difference(ours, theirs, widened(limit, own_error))
    return {**found, "wrong": how, "error": output_errors(ours, theirs)[1]}


def _of_one_size(tensors: Sequence[Any], like: Sequence[Any]) -> list[Any]:
    """Return tensors as arrays, those of floats divided by the largest number of others."""
    import torch

    arrays: list[Any] = []
    for tensor, other in zip(tensors, like, strict=True):
        if not other.is_floating_point():
            arrays.append(tensor.numpy())
            continue
        finite = other.double()[torch.isfinite(other)].abs()
        largest = finite.max() if finite.numel() else torch.tensor(0.0)
        arrays.append((tensor.double() / (largest if largest > 0 else 1)).numpy())
    return arrays


def _moved(folder: Path) -> list[Any]:
    """Return a sample's outputs with the next number in place of each weight and input."""
    import torch

    module, inputs = build(folder)

    def next_of(tensor: Any) -> Any:
        if not isinstance(tensor, torch.Tensor) or not tensor.is_floating_point():
            return tensor
        return torch.nextafter(tensor, torch.full_like(tensor, torch.inf))

    for name, value in list(module.named_buffers()):
        setattr(module, name, next_of(value))
    with torch.inference_mode():
        return flat_tensors(module(*map(next_of, inputs)))


def in_turn(folder: Path, backends: Sequence[str]) -> dict[str, Any]:
    """Return the median milliseconds by backend, and the ratios of ours to the others."""
    runs = {name: compiled(folder, name) for name in backends}
    failed: dict[str, str] = {}
    for name, run in list(runs.items()):
        try:
            run()
        except Exception as error:
            if name in (OURS, EAGER):
                raise
            failed[name] = str(error).splitlines()[0][:200]
            del runs[name]
    seconds = run_in_turn(runs, _RULES)
    ratios = {}
    for name in runs.keys() - {OURS}:
        pairs = zip(seconds[OURS], seconds[name], strict=False)
        ratio = paired_ratio(*zip(*pairs, strict=True))
        ratios[name] = [ratio.median, ratio.low, ratio.high]
    milliseconds = {name: statistics.median(s) * 1e3 for name, s in seconds.items()}
    return {"milliseconds": milliseconds, "ratios": ratios, "failed": failed}


def child(what: str, folder: Path, threads: int) -> dict[str, Any]:
    import torch

    torch.set_num_threads(threads)
    if what == "check":
        return checked(folder)
    if what == "first":
        return {"seconds": timed_first_call(folder, INDUCTOR)[0]}
    return in_turn(
        folder, (OURS, AUTOTUNE) if what == AUTOTUNE else (OURS, EAGER, INDUCTOR, FREEZING)
    )


def measured(what: str, sample: str, given: argparse.Namespace, caches: Path) -> dict[str, Any]:
    """Return the figures of a process, or how it ended without any as ``failed``."""
    command = [sys.executable, "-m", "benchmarks.networks.graphnet", str(given.folder)]
    command += ["--only", sample, "--threads", str(given.threads), "--child", what]
    environment = {
        **os.environ,
        "TVM_IOS_CACHE": str(caches / "tvm_ios"),
        "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
    }
    with (caches / what).open("w+") as output, (caches / "errors").open("w+") as errors:
        process = subprocess.Popen(
            command, env=environment, stdout=output, stderr=errors, start_new_session=True
        )
        try:
            code = process.wait(given.limit)
        except subprocess.TimeoutExpired:
            return {"failed": f"it takes more than {given.limit:.0f} s"}
        finally:
            # Workers of compilers as well.
            _kill_group(process)
        if code == 0:
            output.seek(0)
            return json.loads(output.read().splitlines()[-1])
        errors.seek(0)
        lines = errors.read().strip().splitlines() or [""]
        return {"failed": f"exit status {code}: {lines[-1][:300]}"}


def _kill_group(process: subprocess.Popen[Any]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()


def row_of(sample: str, given: argparse.Namespace, known: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of a sample, with its outcome and the reasons for it.

    Those ``known`` of an earlier run that only checked are kept.
    """
    row = known or _counted(sample, given)
    with tempfile.TemporaryDirectory() as folder:
        caches = Path(folder)
        if "outcome" not in row:
            row |= _judged(measured("check", sample, given, caches))
        for name, what in _steps_left(row, given).items():
            row[name] = measured(what, sample, given, caches)
    return row


def _steps_left(row: dict[str, Any], given: argparse.Namespace) -> dict[str, str]:
    """Return the steps that are still to be measured of a sample, by the names of their figures."""
    if given.check or row["outcome"] not in _TAKEN:
        return {}
    steps = {"inductor_first": "first", "in_turn": "turn"}
    if given.autotune:
        steps["autotuned"] = AUTOTUNE
    return {name: what for name, what in steps.items() if name not in row}


def _counted(sample: str, given: argparse.Namespace) -> dict[str, Any]:
    """Return the size of a sample, with an outcome if it is not run."""
    row: dict[str, Any] = {"sample": sample, "threads": given.threads}
    try:
        row["numbers"] = count_numbers(given.folder / "samples" / sample)
    except FileNotFoundError:
        return {**row, "outcome": "skipped", "reasons": ["it has no weight_meta.py"]}
    if row["numbers"] > given.most * 1e6:
        reason = f"more than {given.most:g} million numbers"
        return {**row, "outcome": "skipped", "reasons": [reason]}
    return row


def _judged(first: dict[str, Any]) -> dict[str, Any]:
    if "failed" in first:
        late = first["failed"].startswith("it takes")
        return {"outcome": "too late" if late else "failed", "reasons": [first["failed"]]}
    if "unusable" in first:
        return {"outcome": "skipped", "reasons": [first["unusable"]]}
    kept = {"first": first}
    graphs = first["graphs"]
    reasons = [graph["reason"] for graph in graphs if graph["where"] != OURS]
    if first.get("is_random"):
        return {**kept, "outcome": "draws random numbers", "reasons": reasons}
    if first["wrong"]:
        return {**kept, "outcome": "wrong", "reasons": [first["wrong"], *reasons]}
    outcome = "taken in part" if reasons else "taken"
    if len(reasons) == len(graphs):
        outcome = "left to torch"
    return {**kept, "outcome": outcome, "reasons": reasons}


def show(rows: Sequence[dict[str, Any]]) -> None:
    """Print the numbers of samples by outcome and reason, and the geometric means of ratios."""
    outcomes = Table("outcome", "samples")
    for outcome, count in Counter(row["outcome"] for row in rows).most_common():
        outcomes.add_row(outcome, str(count))
    reasons = Table("outcome", "reason", "samples", "seconds")
    found: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        for reason in dict.fromkeys(map(_kind_of, row["reasons"])):
            seconds = row.get("first", {}).get("seconds", float("nan"))
            found.setdefault((row["outcome"], reason), []).append(seconds)
    for (outcome, reason), seconds in sorted(found.items(), key=lambda item: -len(item[1])):
        reasons.add_row(outcome, reason, str(len(seconds)), f"{max(seconds):.1f}")
    means = Table("ours to", "geometric mean", "samples", "largest")
    for name, ratios in _ratios(rows).items():
        if ratios:
            means.add_row(
                name,
                f"{statistics.geometric_mean(ratios):.2f}",
                str(len(ratios)),
                f"{max(ratios):.2f}",
            )
    for table in (outcomes, reasons, means):
        if table.rows:
            console().print(table)


def _kind_of(reason: str) -> str:
    """Return a reason without numbers and the names of values, in which equal ones differ."""
    return re.sub(r"'[^']*'|\b\d[\d.e+-]*", "...", reason)[:160]


def _ratios(rows: Sequence[dict[str, Any]]) -> dict[str, list[float]]:
    """Return the ratios of ours to others, by their name: of later calls, and of first ones."""
    names = {
        EAGER: "eager",
        INDUCTOR: "Inductor",
        FREEZING: "Inductor with freezing",
        AUTOTUNE: "Inductor with max_autotune",
    }
    found: dict[str, list[float]] = {}
    for row in rows:
        ratios = {**_ratios_in(row, "in_turn"), **_ratios_in(row, "autotuned")}
        for name, shown in names.items():
            if name in ratios:
                found.setdefault(shown, []).append(ratios[name][0])
        best = [ratios[name][0] for name in _OPTIONS if name in ratios]
        if best:
            found.setdefault("the best of Inductor's", []).append(max(best))
        theirs = row.get("inductor_first", {}).get("seconds")
        if theirs:
            first = found.setdefault("Inductor's first call", [])
            first.append(row["first"]["seconds"] / theirs)
    return found


def _ratios_in(row: dict[str, Any], step: str) -> dict[str, list[float]]:
    return row.get(step, {}).get("ratios", {})


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="a checkout of GraphNet")
    parser.add_argument("--draw", type=int, default=60, help="number of samples")
    parser.add_argument("--seed", type=int, default=0, help="which samples are drawn")
    parser.add_argument("--most", type=float, default=150, help="million numbers of a sample")
    parser.add_argument("--only", nargs="+", help="these samples, measured again")
    parser.add_argument("--threads", type=int, default=2, help="threads of each")
    parser.add_argument("--limit", type=float, default=300, help="seconds of each process")
    parser.add_argument("--check", action="store_true", help="the first step alone")
    parser.add_argument("--autotune", action="store_true", help="the last step, too")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        (sample,) = given.only
        print(json.dumps(child(given.child, given.folder / "samples" / sample, given.threads)))
        return
    samples = given.only or sample_names(given.folder, given.seed)[: given.draw]
    rows = {
        row["sample"]: row for row in read_figures("graphnet") if row["threads"] == given.threads
    }
    for number, sample in enumerate(samples, 1):
        row = rows.get(sample, {})
        if given.only or row.get("outcome") == "skipped":
            row = {}
        if not row or _steps_left(row, given):
            rows[sample] = row = row_of(sample, given, row)
            update_result("graphnet", [row], "sample", "threads")
            console().print(f"{number}/{len(samples)} {sample}: {row['outcome']}")
    show([rows[sample] for sample in samples])


if __name__ == "__main__":
    main()
