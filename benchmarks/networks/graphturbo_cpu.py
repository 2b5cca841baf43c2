"""Instances on lanes against layer by layer, ONNX Runtime and TVM's own build on this machine.

For each network and batch: the sequential program, what the policies ``graphturbo`` (lanes run
whole instances) and ``holistic`` (the best of all policies, block by block) come to, and the other
runners, in turn in a fresh process on the same inputs, after their outputs were compared. Each
network and batch is searched and measured in processes of its own, and what was measured is kept:
kill it at any time, and run it again (``--again`` repeats what is known).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
from typing import Any

from rich.table import Table

from benchmarks.report import read_figures, update_result
from runtime_ext.machine.this_machine import available_lanes
from tvm_ios.cli.frame.output import console

RESULT = "graphturbo_cpu"
NETWORKS = ("squeezenet", "mobilenet_v2", "resnet50", "densenet121", "nasnet_a_mobile")
BATCHES = (1, 8, 32)
OURS = ("sequential", "graphturbo", "holistic")
OTHERS = ("onnxruntime", "tvm")


def measure(
    network: str, batch: int, lanes: int, others: list[str], time_limit: float, seconds: float
) -> dict[str, Any]:
    from relay_passes.load import load_model
    from relay_passes.measured_module import MeasuredModule
    from relay_passes.pipeline import apply_schedule
    from relay_passes.relax.target_units import RelaxUnits
    from relay_passes.search_options import SearchOptions
    from runtime_ext.build import build
    from runtime_ext.peers.registry import available_peers
    from runtime_ext.peers.side_by_side import SideBySide, run_side_by_side
    from runtime_ext.peers.tvm_build import compile_tvm_build
    from tvm_ios.contest.rules import Rules
    from tvm_ios.contest.verdict import ratio_of
    from tvm_ios.files.atomic import temporary_folder
    from tvm_ios.ios.lazy import Budget
    from tvm_ios.models.source import ModelSource
    from tvm_ios.policies.policy import Limits

    loaded = load_model(ModelSource(network, batch=batch))
    budget = Budget(max_measurements=200, time_limit=time_limit)
    options = SearchOptions(lanes=lanes, limits=Limits(budget=budget))
    search = MeasuredModule(RelaxUnits(loaded.prepared(), options))
    schedules = {policy: search.search.find(policy).schedule for policy in OURS}
    models = {
        policy: build(
            apply_schedule(search.prepared, search.timer.timed(schedule)),
            lanes=lanes,
            name=loaded.name,
            compiler=search.units.backend.compiler,
        )
        for policy, schedule in schedules.items()
    }
    with temporary_folder() as folder:
        for policy, model in models.items():
            model.save(folder / policy)
        onnx, tvm_build = folder / "model.onnx", folder / "tvm.so"
        assert loaded.onnx is not None
        onnx.write_bytes(loaded.onnx.SerializeToString())
        peers = [peer.name for peer in available_peers(others)]
        if "tvm" in peers:
            compile_tvm_build(loaded.module, options.resolved_target, tvm_build, None)
        rules = Rules(rounds=60, seconds=seconds, minimum=6, warm_up=1)
        programs = {policy: folder / policy for policy in models}
        outcome = run_side_by_side(SideBySide(programs, lanes, rules, peers, onnx, tvm_build))
    ratios = {
        name: {other: ratio_of(outcome.samples, name, other) for other in outcome.samples}
        for name in OURS
    }
    latency = {name: statistics.median(values) for name, values in outcome.samples.items()}
    return {
        "model": network,
        "batch": batch,
        "lanes": lanes,
        "latency_ms": {name: 1e3 * s for name, s in latency.items()},
        "images_a_second": {name: batch / s for name, s in latency.items()},
        "speed_up": {
            name: {
                other: {"median": 1 / r.median, "low": 1 / r.high, "high": 1 / r.low}
                for other, r in values.items()
                if other != name
            }
            for name, values in ratios.items()
        },
        "max_rel_error": dict(outcome.errors),
        "failed": dict(outcome.failed),
        "subgraphs": {
            policy: []
            if schedule.instances is None
            else [
                {"units": len(s.units), "factor": s.factor, "axes": sorted(set(s.axes))}
                for s in schedule.instances.subgraphs
            ]
            for policy, schedule in schedules.items()
        },
        "units": len(search.graph),
        "arena_bytes": {policy: model.memory.plan.nbytes for policy, model in models.items()},
    }


def show(rows: list[dict[str, Any]]) -> None:
    columns = {
        f"{ours} to {other}": (ours, other)
        for ours, other in (
            ("graphturbo", "sequential"),
            ("holistic", "sequential"),
            *(("holistic", other) for other in OTHERS),
        )
    }
    table = Table(title="throughput of ours over another's, medians of pairs of runs")
    for column in ("model", "batch", "sequential ms", *columns, "units split", "arena MiB"):
        table.add_column(column, justify="left" if column == "model" else "right")
    for batch in sorted({row["batch"] for row in rows}):
        selected = [row for row in rows if row["batch"] == batch]
        for row in selected:
            split = sum(s["units"] for s in row["subgraphs"]["holistic"])
            arena = row["arena_bytes"]
            table.add_row(
                row["model"],
                str(batch),
                f"{row['latency_ms']['sequential']:.1f}",
                *(_text(_speed_up(row, *pair)) for pair in columns.values()),
                f"{split} of {row['units']}",
                ", ".join(f"{arena[policy] / 2**20:.1f}" for policy in OURS),
            )
        means = (_mean([_speed_up(row, *pair) for row in selected]) for pair in columns.values())
        table.add_row("geometric mean", str(batch), "", *map(_text, means), end_section=True)
    console().print(table)


def _speed_up(row: dict[str, Any], ours: str, other: str) -> float | None:
    ratio = row["speed_up"][ours].get(other)
    return None if ratio is None else ratio["median"]


def _mean(values: list[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return math.prod(numbers) ** (1 / len(numbers)) if numbers else None


def _text(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("networks", nargs="*", help=f"of the zoo; by default {NETWORKS}")
    parser.add_argument("--batch", type=int, action="append", help=f"by default {BATCHES}")
    parser.add_argument("--lanes", type=int, default=available_lanes())
    parser.add_argument("--against", default=",".join(OTHERS), help="peers")
    parser.add_argument("--time-limit", type=float, default=60.0, help="of a policy's search")
    parser.add_argument("--seconds", type=float, default=40.0, help="of all runs, about")
    parser.add_argument("--again", action="store_true", help="measure what is known again")
    parser.add_argument("--show", action="store_true", help="only show what is known")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    networks, batches = given.networks or NETWORKS, given.batch or BATCHES
    if given.one:
        others = [name for name in given.against.split(",") if name]
        limits = (given.time_limit, given.seconds)
        print(json.dumps(measure(networks[0], batches[0], given.lanes, others, *limits)))
        return
    failed = 0
    for network in () if given.show else networks:
        for batch in batches:
            wanted = (network, batch, given.lanes)
            measured = [(r["model"], r["batch"], r["lanes"]) for r in read_figures(RESULT)]
            if wanted in measured and not given.again:
                continue
            command = [sys.executable, "-m", __spec__.name, network, "--one"]
            for option in ("batch", "lanes", "against", "time_limit", "seconds"):
                value = batch if option == "batch" else getattr(given, option)
                command += [f"--{option.replace('_', '-')}", str(value)]
            environment = os.environ | {"TVM_NUM_THREADS": str(given.lanes)}
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
            if done.returncode:
                print(f"{network}, batch {batch}: ended with {done.returncode}", file=sys.stderr)
                failed += 1
                continue
            row = json.loads(done.stdout.splitlines()[-1])
            update_result(RESULT, [row], "model", "batch", "lanes")
    show(read_figures(RESULT))
    sys.exit(min(failed, 1))


if __name__ == "__main__":
    main()
