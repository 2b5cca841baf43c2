"""Relay networks against TVM's own graph executor: ``benchmarks/results/relay.json``.

Runs with the TVM that has Relay (``.venv-relay/bin/relay-python -m benchmarks.relay.networks``).
For each network IOS searches, and what is found, the sequential program and the graph executor run
in turn in three fresh processes. ``to_tvm`` is the kept program to the graph executor and
``sequential_to_tvm`` the sequential one; ``high`` is the upper bound of the 95 % interval.
``error`` is that of logits, and ``forced_error`` the same with every second set of units that can
be merged in a merged stage, and all else that is ready side by side.

With ``--logs FOLDER`` both sides have the AutoTVM log ``NETWORK.log`` in it. What was measured
before is not measured again (``--again`` repeats it), so it can be stopped and started at will.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.report import model_of, read_figures, update_result
from tvm_ios.cli.frame.output import console
from tvm_ios.files.atomic import temporary_folder

TESTING: dict[str, dict[str, Any]] = {
    "inception_v3": {},
    "squeezenet": {},
    "resnet": {"num_layers": 18},
    "densenet": {"batch_size": 1},
}
FILES = ("light_inception_v1", "light_squeezenet")
PROCESSES = 3
SEED = 0


def logits_of(name: str) -> Any:
    """A network of ``relay.testing``, or a file of the onnx wheel, without its softmax."""
    import numpy as np
    import tvm
    from tvm import relay
    from tvm.relay import testing
    from tvm.relay.build_module import bind_params_by_name

    from relay_passes.load import load_model
    from tvm_ios.models.source import ModelSource

    if name in FILES:
        path = model_of(name)
        main, params = (
            load_model(ModelSource(path, random_weights=SEED, dialect="relay")).module["main"],
            {},
        )
    else:
        module, params = getattr(testing, name).get_workload(**TESTING[name])
        main, rng = module["main"], np.random.default_rng(SEED)
        for key, value in params.items():
            if key.endswith(("var", "gamma")):
                array = rng.uniform(0.5, 1.5, value.shape)
            else:
                array = rng.standard_normal(value.shape) / np.sqrt(max(1, np.prod(value.shape[1:])))
            params[key] = tvm.nd.array(array.astype("float32"))
    body = main.body
    if getattr(getattr(body, "op", None), "name", "") == "nn.softmax":
        body = body.args[0]
    bound = bind_params_by_name(relay.Function(main.params, body), params)
    return relay.transform.InferType()(tvm.IRModule.from_expr(bound))


def measure(name: str, lanes: int, log: Path | None) -> dict[str, Any]:

    from relay_passes import SearchOptions
    from relay_passes.measured_module import MeasuredModule
    from relay_passes.pipeline import prepare
    from relay_passes.relay.target_units import RelayUnits
    from runtime_ext.execution.bound_model import bind_library
    from runtime_ext.peers.side_by_side import SideBySide, run_side_by_side
    from tvm_ios.contest.outputs import output_errors
    from tvm_ios.contest.rules import Rules
    from tvm_ios.contest.verdict import kept_policy, ratio_of
    from tvm_ios.policies.sequential import sequential_schedule

    module = logits_of(name)
    prepared = prepare(module, name)
    search = MeasuredModule(RelayUnits(prepared, SearchOptions(lanes=lanes, database=log)))
    schedules = {
        "sequential": sequential_schedule(prepared.units),
        "ios-both": search.search.find("ios-both").schedule,
        "forced": forced(prepared.units),
    }
    built = {policy: search.build(schedule) for policy, schedule in schedules.items()}
    with temporary_folder() as folder:
        tvm_build = folder / "tvm.so"
        prepared.dialect.compile_tvm_build(module, search.options, tvm_build)
        sessions = {policy: model.session() for policy, model in built.items()}
        inputs = sessions["sequential"].random_inputs(SEED)
        tvm = bind_library(tvm_build)(inputs)
        reference = tvm.outputs(tvm.run())
        errors: dict[str, float] = {}
        for policy, session in sessions.items():
            session.set_input(**inputs)
            session.run()
            outputs = [session.get_output(i) for i in range(len(reference))]
            errors[policy] = output_errors(outputs, reference)[1]
            session.close()
        paths = {policy: folder / policy for policy in ("sequential", "ios-both")}
        for policy, path in paths.items():
            built[policy].save(path)
        rules = Rules(rounds=40, seconds=8.0, warm_up=1)
        contests = []
        for number in range(PROCESSES):
            order = dict(reversed(paths.items())) if number % 2 else paths
            beside = SideBySide(order, lanes, rules, ("tvm",), tvm=tvm_build)
            contests.append(run_side_by_side(beside).samples)
    kept, ratios = kept_policy("ios-both", contests)
    pooled = {key: [s for c in contests for s in c[key]] for key in contests[0]}
    return {
        "network": name,
        "tuned": log is not None,
        "lanes": lanes,
        "units": len(prepared.units),
        "kept": kept,
        "latency": sorted(pooled[kept])[len(pooled[kept]) // 2],
        "to_sequential": asdict(ratios["sequential"]),
        "to_tvm": asdict(ratio_of(pooled, kept, "tvm")),
        "sequential_to_tvm": asdict(ratio_of(pooled, "sequential", "tvm")),
        "error": max(errors[policy] for policy in paths),
        "forced_error": errors["forced"],
    }


def forced(graph: Any) -> Any:
    """Every second set that can be merged is, and all else that is ready runs side by side."""
    from tvm_ios.graph.merge_rule import mergeable
    from tvm_ios.graph.op_graph import bits
    from tvm_ios.schedule.schedule import Schedule
    from tvm_ios.schedule.stage import Stage, Strategy

    done, chances, stages = 0, 0, []
    while done != graph.all_operators:
        ready = [u for u in bits(graph.all_operators & ~done) if not graph.predecessors[u] & ~done]
        stage = Stage(Strategy.CONCURRENT, tuple((unit,) for unit in ready))
        for unit in ready:
            twins = [u for u in ready if u == unit or mergeable(graph, (unit, u))]
            if len(twins) > 1 and mergeable(graph, twins):
                chances += 1
                if chances % 2 == 0:
                    break
                stage = Stage(Strategy.MERGE, tuple((u,) for u in twins))
                break
        stages.append(stage)
        done |= stage.mask
    return Schedule(graph.fingerprint, tuple(stages), "forced")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", default=[*TESTING, *FILES])
    parser.add_argument("--lanes", type=int, default=2)
    parser.add_argument("--logs", type=Path, help="folder of AutoTVM logs, one a network")
    parser.add_argument("--again", action="store_true", help="also what was measured before")
    parser.add_argument("--one", action="store_true", help="measure here and print the figures")
    given = parser.parse_args()
    for name in given.networks:
        log = None if given.logs is None else given.logs / f"{name}.log"
        if given.one:
            print(json.dumps(measure(name, given.lanes, log)))
            return
        measured = {(row["network"], row["tuned"]) for row in read_figures("relay")}
        if (name, log is not None) in measured and not given.again:
            continue
        print(f"== {name}", flush=True)
        # A process each: none suffers from what another one left in memory.
        command = [sys.executable, "-m", __spec__.name, name, "--one", "--lanes", str(given.lanes)]
        command += [] if given.logs is None else ["--logs", str(given.logs)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        update_result("relay", [json.loads(done.stdout.splitlines()[-1])], "network", "tuned")
    table = Table("network", "tuned", "kept", "latency", "to TVM", "95 %", "to sequential", "95 %")
    table.add_column("error")
    for row in read_figures("relay"):
        table.add_row(
            row["network"],
            "yes" if row["tuned"] else "no",
            row["kept"],
            f"{row['latency'] * 1e3:.2f} ms",
            *(
                f"{row[to][k]:.3f}"
                for to in ("to_tvm", "to_sequential")
                for k in ("median", "high")
            ),
            f"{max(row['error'], row['forced_error']):.1e}",
        )
    console().print(table)


if __name__ == "__main__":
    main()
