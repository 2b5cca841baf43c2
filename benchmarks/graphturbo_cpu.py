"""Instances on lanes against layer by layer on this machine's CPU, with the same kernels.

For each network and batch: the sequential program and, for some sizes of an instance, the program
whose lanes run whole instances depth first (policy ``graphturbo``), in turn in one process; the
bytes of their arenas, and the error between them. Each network and batch runs in a process of its
own, and what was measured is kept (``--again`` repeats it).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from report import read_figures, update_result
from rich.table import Table

from runtime_ext.hardware import caches
from runtime_ext.machine import available_lanes
from tvm_ios.cli.output import console

RESULT = "graphturbo_cpu"
NETWORKS = ("resnet50", "mobilenet_v2", "densenet121", "squeezenet")
BATCHES = (8, 32)


def capacities() -> list[int]:
    """Bytes of an instance that are tried: from a lane's L2 to its share of the last cache."""
    sizes = {cache.level: cache.size for cache in caches()}
    least, most = sizes.get(2, 1 << 20), max(sizes.values(), default=16 << 20)
    return [least << i for i in range((most // least).bit_length())]


def measure(network: str, batch: int, lanes: int) -> dict[str, Any]:
    from relay_passes.graphturbo_policy import graphturbo_policy
    from relay_passes.load import load_model
    from relay_passes.prepare import apply_schedule, prepare, prepare_canonical
    from relay_passes.relax.unroll import rebatch
    from runtime_ext.build import build
    from runtime_ext.contest import Rules, hold_contest
    from tvm_ios.search.baselines import sequential_schedule
    from tvm_ios.verdict import compare_outputs

    loaded = load_model(network)
    single = prepare(loaded.module, loaded.name)
    wide = prepare_canonical(rebatch(single.module, single.outliner.extraction, batch), loaded.name)
    scheduled = {"sequential": apply_schedule(wide, sequential_schedule(wide.units))}
    splits: dict[str, Any] = {}
    for capacity in capacities():
        found = graphturbo_policy(wide, lanes=lanes, capacity=capacity)
        factors = [s.split and s.split.factor for s in found.instances.subgraphs]
        if factors in splits.values() or max(filter(None, factors), default=1) == 1:
            continue
        name = f"graphturbo {capacity >> 10} KiB"
        splits[name] = factors
        scheduled[name] = apply_schedule(found.prepared, found.schedule)
    models = {
        name: build(module, lanes=lanes, name=loaded.name) for name, module in scheduled.items()
    }
    sessions = {name: model.session() for name, model in models.items()}
    inputs = sessions["sequential"].random_inputs(0)
    outputs: dict[str, list[Any]] = {}
    for name, session in sessions.items():
        session.run(**inputs)
        outputs[name] = [session.get_output(place) for place in range(len(session.outputs))]
        compare_outputs(name, outputs[name], outputs["sequential"])
    runners = {name: (lambda s=session: s.run(**inputs)) for name, session in sessions.items()}
    samples = hold_contest(runners, Rules(rounds=40, seconds=40.0, minimum=6, warm_up=1))
    latency = {name: statistics.median(seconds) for name, seconds in samples.items()}
    pairs = {
        name: statistics.median(
            a / b for a, b in zip(samples["sequential"], samples[name], strict=False)
        )
        for name in splits
    }
    return {
        "model": network,
        "batch": batch,
        "lanes": lanes,
        "factors": splits,
        "latency_ms": {name: 1e3 * seconds for name, seconds in latency.items()},
        "images_a_second": {name: batch / seconds for name, seconds in latency.items()},
        "speed_up": pairs,
        "arena_bytes": {name: model.memory.plan.nbytes for name, model in models.items()},
    }


def show(rows: list[dict[str, Any]]) -> None:
    table = Table(title="throughput of instances on lanes over layer by layer, same kernels")
    for column in ("model", "batch", "lanes", "sequential ms", "speed-up", "instance", "arena MiB"):
        table.add_column(column, justify="left" if column == "model" else "right")
    for row in rows:
        best = max(row["speed_up"], key=row["speed_up"].get, default=None)
        arena = row["arena_bytes"]
        table.add_row(
            row["model"],
            str(row["batch"]),
            str(row["lanes"]),
            f"{row['latency_ms']['sequential']:.1f}",
            "-" if best is None else f"{row['speed_up'][best]:.2f}",
            "-" if best is None else best.removeprefix("graphturbo "),
            f"{arena['sequential'] / 2**20:.1f}"
            + ("" if best is None else f", {arena[best] / 2**20:.1f}"),
        )
    console().print(table)
    best = [max([1.0, *row["speed_up"].values()]) for row in rows]
    if best:
        mean = math.prod(best) ** (1 / len(best))
        console().print(f"geometric mean, sequential where it is faster: {mean:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", help=f"of the zoo; by default {NETWORKS}")
    parser.add_argument("--batch", type=int, action="append", help=f"by default {BATCHES}")
    parser.add_argument("--lanes", type=int, default=available_lanes())
    parser.add_argument("--again", action="store_true", help="measure what is known again")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    networks = arguments.networks or NETWORKS
    batches = arguments.batch or BATCHES
    if arguments.one:
        print(json.dumps(measure(networks[0], batches[0], arguments.lanes)))
        return
    for network in networks:
        for batch in batches:
            wanted = (network, batch, arguments.lanes)
            known = [(r["model"], r["batch"], r["lanes"]) for r in read_figures(RESULT)]
            if wanted in known and not arguments.again:
                continue
            command = [sys.executable, str(Path(__file__)), network, "--batch", str(batch)]
            command += ["--lanes", str(arguments.lanes), "--one"]
            environment = os.environ | {"TVM_NUM_THREADS": str(arguments.lanes)}
            done = subprocess.run(
                command, env=environment, stdout=subprocess.PIPE, text=True, check=True
            )
            row = json.loads(done.stdout.splitlines()[-1])
            update_result(RESULT, [row], "model", "batch", "lanes")
    show(read_figures(RESULT))


if __name__ == "__main__":
    main()
