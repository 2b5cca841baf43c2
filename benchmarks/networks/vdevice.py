"""All schedulers on one vDevice, beside the bound that no schedule of these kernels can beat.

For each network and each number of lanes: TVM's own build, the sequential program, greedy, IOS,
Rammer and IOS with all three strategies, in turn in one process; and the larger of the critical
path and the work over lanes, from the times of the same kernels in the sequential program on one
lane. Then what stands between the last policy and the bound, and what the profiled rTask times
predict for more lanes than the machine has. Each network runs in a process of its own; what was
measured is kept (``--again`` repeats it).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.report import read_figures, update_result
from runtime_ext.machine.this_machine import available_lanes
from tvm_ios.cli.frame.output import console

RESULT = "vdevice"
SMALL = ("resnext29", "lstm_tc", "nasnet_a_cifar")
NETWORKS = ("squeezenet", "inception_v3", "nasnet_a", "randwire", *SMALL)
POLICIES = ("sequential", "greedy", "ios-both", "rammer", "ios-holistic")
PREDICTED = (4, 8, 16, 64)
PROFILES = 40


def measure(network: str, lanes: int) -> dict[str, Any]:
    """Everything about one network; in a process whose TVM runs on so many threads."""
    from relay_passes.load import load_model
    from relay_passes.measured_module import MeasuredModule
    from relay_passes.pipeline import apply_schedule
    from relay_passes.relax.target_units import RelaxUnits
    from relay_passes.search_options import SearchOptions
    from runtime_ext.build import build
    from runtime_ext.execution.bound_model import bind_library
    from runtime_ext.peers.tvm_build import compile_tvm_build
    from tvm_ios.contest.contest import verified
    from tvm_ios.contest.outputs import Reference, Sample
    from tvm_ios.contest.rounds import run_in_turn
    from tvm_ios.contest.rules import Rules

    loaded = load_model(network)
    prepared = loaded.prepared()
    options = SearchOptions(lanes=lanes)
    search = MeasuredModule(RelaxUnits(prepared, options))

    def built(policy: str, count: int) -> Any:
        schedule = search.search.find(policy).schedule
        return build(
            apply_schedule(prepared, search.timer.timed(schedule)),
            lanes=count,
            name=loaded.name,
            compiler=search.units.backend.compiler,
        )

    models = {policy: built(policy, lanes) for policy in POLICIES}
    sessions = {policy: model.session() for policy, model in models.items()}
    inputs = sessions["sequential"].random_inputs(0)
    with tempfile.TemporaryDirectory() as folder:
        tvm_build = Path(folder) / "tvm.so"
        compile_tvm_build(loaded.module, options.resolved_target, tvm_build)
        tvm = bind_library(tvm_build)(inputs)
        reference = Reference((Sample(inputs, tvm.outputs(tvm.run())),))
        for policy, session in sessions.items():
            verified(policy, session, reference)
        runners = {"tvm": tvm.run, **{policy: s.run for policy, s in sessions.items()}}
        samples = run_in_turn(runners, Rules(rounds=60, seconds=20.0, minimum=6, warm_up=1))
    latency = {name: statistics.median(seconds) for name, seconds in samples.items()}

    bound = ideal_of(built("sequential", 1), lanes)
    return {
        "network": network,
        "lanes": lanes,
        "units": len(prepared.units),
        "latency_ms": {name: seconds * 1e3 for name, seconds in latency.items()},
        "bound_ms": {name: seconds * 1e3 for name, seconds in bound.items()},
        "accounts": {
            policy: account(models[policy].program, session, bound["work over lanes"])
            for policy, session in sessions.items()
        },
        "predicted_ms": {str(count): predict(search, prepared, count) for count in PREDICTED},
    }


def ideal_of(model: Any, lanes: int) -> dict[str, float]:
    """The two bounds, from a program of one lane."""
    from tvm_ios.explain.ideal import ideal, one_lane_seconds
    from tvm_ios.explain.tasks import find_work

    session = model.session()
    session.run(**session.random_inputs(0))
    runs = [[span.end - span.begin for span in session.profile()] for _ in range(PROFILES)]
    session.close()
    work = find_work(model.program)
    bounds = ideal(work, one_lane_seconds(work, sorted(runs, key=sum)[: PROFILES // 4]), lanes)
    return {"critical path": bounds.critical_path, "work over lanes": bounds.work_over_lanes}


def account(program: Any, session: Any, work: float) -> dict[str, float]:
    """Where the lanes' time goes, in shares of it, in the quietest runs.

    ``kernels`` is what the kernels' time over the lanes is to what it was on one lane: above 1
    they are slower beside each other or in pieces.
    """
    from tvm_ios.explain.intervals import length
    from tvm_ios.explain.timeline import quietest, read_timeline

    runs = [read_timeline(program, session.profile()) for _ in range(PROFILES)]
    units = frozenset(range(len(program.units)))
    rows = [
        (
            run.busy(units) / run.lanes / work,
            run.busy(units) / run.lanes / run.seconds,
            sum(map(length, run.waiting)) / run.lanes / run.seconds,
            sum(map(length, run.launching)) / run.lanes / run.seconds,
        )
        for run in quietest(runs, lambda run: run.seconds)
    ]
    names = ("kernels", "busy", "waiting", "launching")
    return {n: statistics.median(c) for n, c in zip(names, zip(*rows, strict=True), strict=True)}


def predict(search: Any, prepared: Any, lanes: int) -> dict[str, float]:
    """Milliseconds on so many lanes if every rTask takes as long as it was profiled on one.

    IOS's are the optima under composed costs, which let co-scheduled stages do as well as their
    bound; Rammer's are simulated.
    """
    from tvm_ios.costs.composed import ComposedCost
    from tvm_ios.costs.costs import costs_of_model
    from tvm_ios.graph.merge_rule import mergeable
    from tvm_ios.ios.network import search_graph
    from tvm_ios.policies.registry import policy_named
    from tvm_ios.rammer.rprogram import simulate
    from tvm_ios.rammer.wavefront import wavefront_programs
    from tvm_ios.search import Search

    graph, timer = prepared.units, search.timer
    latencies = {
        timer.unit_key(graph, unit): [
            sum(
                -(-tasks // count) * seconds
                for tasks, seconds in zip(kernel.tasks, kernel.task_seconds, strict=True)
            )
            for count in range(1, lanes + 1)
        ]
        for unit in range(len(graph))
        for kernel in timer.rkernels(unit)[:1]
    }
    cost = ComposedCost(latencies, timer.unit_key, lanes)
    milliseconds: dict[str, float] = {}
    for policy in POLICIES:
        if policy == "rammer":
            programs = wavefront_programs(graph, timer.rkernels, lanes)
            milliseconds[policy] = sum(simulate(programs)) * 1e3
            continue
        strategies, limits = policy_named(policy).strategies, search.options.limits
        if strategies:
            blocks = search.problem.blocks
            schedule, _ = search_graph(graph, blocks, cost, strategies, limits.pruning, mergeable)
        else:
            priced = Search(search.problem, costs_of_model(cost), limits)
            schedule = priced.find(policy, priced=True).schedule
        milliseconds[policy] = schedule.latency * 1e3
    return milliseconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", default=NETWORKS)
    parser.add_argument("--lanes", default=str(available_lanes()), help="such as 1,2,4")
    parser.add_argument("--again", action="store_true", help="also what was measured before")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    lanes = [int(count) for count in given.lanes.split(",")]
    if given.here:
        json.dump(measure(given.networks[0], lanes[0]), sys.stdout)
        return
    for network in given.networks:
        for count in lanes:
            measured = {(row["network"], row["lanes"]) for row in read_figures(RESULT)}
            if (network, count) in measured and not given.again:
                continue
            console().print(f"{network}, {count} lanes")
            command = [
                sys.executable,
                "-m",
                __spec__.name,
                network,
                "--lanes",
                str(count),
                "--here",
            ]
            environment = {**os.environ, "TVM_NUM_THREADS": str(count)}
            done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=environment)
            update_result(RESULT, [json.loads(done.stdout)], "network", "lanes")
    report(read_figures(RESULT))


def report(rows: Sequence[dict[str, Any]]) -> None:
    """Print what was measured."""
    table = Table("network", "lanes", "bound", title="milliseconds, and ratios to the bound")
    for policy in ("tvm", *POLICIES):
        table.add_column(policy)
    for row in rows:
        bound = max(row["bound_ms"].values())
        texts = [
            f"{row['latency_ms'][p]:.2f} ({row['latency_ms'][p] / bound:.2f})"
            for p in ("tvm", *POLICIES)
        ]
        table.add_row(row["network"], str(row["lanes"]), f"{bound:.2f}", *texts)
    console().print(table)

    table = Table("network", "lanes", "room", "taken", title="what stands before the bound")
    for name in ("policy", "kernels", "busy", "waiting", "launching"):
        table.add_column(name)
    for row in rows:
        bound, latency = max(row["bound_ms"].values()), row["latency_ms"]
        room = latency["sequential"] - bound
        best = min(POLICIES, key=lambda policy: latency[policy])
        taken = (latency["sequential"] - latency[best]) / room if room > 0 else 0.0
        told = row["accounts"][best]
        shares = (f"{told[name]:.0%}" for name in ("busy", "waiting", "launching"))
        table.add_row(
            row["network"],
            str(row["lanes"]),
            f"{room / latency['sequential']:.0%}",
            f"{taken:.0%}",
            best,
            f"{told['kernels']:.2f}",
            *shares,
        )
    console().print(table)

    table = Table("network", "lanes", title="predicted milliseconds")
    for policy in POLICIES:
        table.add_column(policy)
    for row in rows:
        for count, predicted in row["predicted_ms"].items():
            table.add_row(row["network"], count, *(f"{predicted[p]:.2f}" for p in POLICIES))
    console().print(table)

    small = [row for row in rows if row["network"] in SMALL]
    for policy in POLICIES if small else ():
        ratio = statistics.geometric_mean(
            row["latency_ms"][policy] / row["latency_ms"]["tvm"] for row in small
        )
        console().print(f"{policy} to tvm, networks of small operators: {ratio:.4f}")


if __name__ == "__main__":
    main()
