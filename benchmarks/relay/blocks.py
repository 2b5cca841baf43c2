"""Blocks of channels chosen for a whole network or TVM's own: ``results/relay_blocks.json``.

Runs with the TVM that has Relay, while nothing else runs. It takes a log that knows convolutions
in several blocks, as the first of these lines makes one::

    python -m benchmarks.relay.tuning squeezenet --all-blocks --seconds 420 --folder out/blocks
    python -m benchmarks.relay.blocks squeezenet --logs out/blocks

Two sequential programs of each network and the graph executor run in turn in three fresh processes:
``chosen`` has the blocks that are chosen among all of the log, ``own`` is built with the records in
the blocks that TVM takes without a log, and ``tvm`` is TVM's own build with the whole log: the
fastest kernel of each convolution. ``blocks`` counts convolutions by what they read and make,
``transforms`` the layout transforms of data; ``high`` is the upper bound of the 95 % interval.
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.relay.networks import PROCESSES, SEED, logits_of
from benchmarks.report import update_result
from tvm_ios.cli.frame.output import console
from tvm_ios.files.atomic import temporary_folder


def in_own_blocks(log: Path, lanes: int, path: Path) -> int:
    """Write the records in the blocks of TVM's default to another log; returns how many."""
    from tvm import autotvm

    from runtime_ext.relay.autotvm_task import default_index
    from runtime_ext.relay.library import host_target
    from runtime_ext.relay.tuning_log import BLOCK_KNOBS, read_autotvm_log

    target = host_target(lanes)

    @cache
    def own(name: str, arguments: Any) -> dict[str, int]:
        task = autotvm.task.create(name, arguments, target)
        index = default_index(task)
        if index is None:
            return {}
        return blocks(task.config_space.get(index))

    def blocks(config: Any) -> dict[str, int]:
        knobs = {name: value for name, _, value in config.to_json_dict()["entity"]}
        return {name: int(knobs[name][-1]) for name in BLOCK_KNOBS & knobs.keys()}

    kept = [
        autotvm.record.encode(given, result)
        for given, result in read_autotvm_log(log, target).records
        if blocks(given.config) == own(given.task.name, given.task.args)
    ]
    path.write_text("".join(f"{line}\n" for line in kept))
    return len(kept)


def layouts(module: Any) -> tuple[dict[str, int], int]:
    """Convolutions by their blocks, and the layout transforms, of a scheduled module."""
    from tvm import relay

    from relay_passes.relay.expressions import operator_name
    from relay_passes.relay.layouts.blocked_convolutions import block_of

    blocks: Counter[str] = Counter()
    transforms = 0

    def visit(expression: Any) -> None:
        nonlocal transforms
        name = operator_name(expression)
        transforms += name == "layout_transform"
        if name == "nn.contrib_conv2d_NCHWc":
            attrs = expression.attrs
            blocks[f"{block_of(attrs.data_layout)}, {block_of(attrs.out_layout)}"] += 1

    # Equal kernels are one function, which each of its calls holds.
    binding = module["main"].body
    while isinstance(binding, relay.Let):
        relay.analysis.post_order_visit(binding.value.op.body, visit)
        binding = binding.body
    return dict(blocks), transforms


def measure(name: str, lanes: int, log: Path) -> dict[str, Any]:
    from relay_passes import SearchOptions
    from relay_passes.pipeline import apply_schedule, for_target, prepare
    from runtime_ext.execution.bound_model import bind_library
    from runtime_ext.peers.side_by_side import SideBySide, run_side_by_side
    from runtime_ext.relay.build import build
    from tvm_ios.contest.outputs import output_errors
    from tvm_ios.contest.rules import Rules
    from tvm_ios.contest.verdict import ratio_of
    from tvm_ios.policies.sequential import sequential_schedule

    module = logits_of(name)
    prepared = prepare(module, name)
    with temporary_folder() as folder:
        logs = {"chosen": log, "own": folder / "own.log"}
        records = in_own_blocks(log, lanes, logs["own"])
        tvm_build = folder / "tvm.so"
        options = {n: SearchOptions(lanes=lanes, database=path) for n, path in logs.items()}
        prepared.dialect.compile_tvm_build(module, options["chosen"], tvm_build)
        programs: dict[str, Any] = {}
        errors: list[float] = []
        for program, given in options.items():
            laid_out = for_target(prepared, given)
            scheduled = apply_schedule(laid_out, sequential_schedule(prepared.units))
            blocks, transforms = layouts(scheduled)
            programs[program] = {"blocks": blocks, "transforms": transforms}
            model = build(scheduled, lanes=lanes, name=name, log=logs[program])
            model.save(folder / program)
            session = model.session()
            inputs = session.random_inputs(SEED)
            tvm = bind_library(tvm_build)(inputs)
            reference = tvm.outputs(tvm.run())
            session.run(**inputs)
            outputs = [session.get_output(i) for i in range(len(reference))]
            errors.append(output_errors(outputs, reference)[1])
            session.close()
        rules = Rules(rounds=40, seconds=8.0, warm_up=1)
        contests = []
        for number in range(PROCESSES):
            order = tuple(reversed(logs)) if number % 2 else tuple(logs)
            paths = {program: folder / program for program in order}
            beside = SideBySide(paths, lanes, rules, ("tvm",), tvm=tvm_build)
            contests.append(run_side_by_side(beside).samples)
    pooled = {key: [s for c in contests for s in c[key]] for key in contests[0]}
    latency = {key: sorted(seconds)[len(seconds) // 2] for key, seconds in pooled.items()}
    return {
        "network": name,
        "lanes": lanes,
        "records_in_own_blocks": records,
        **programs,
        "latency": latency,
        "chosen_to_own": asdict(ratio_of(pooled, "chosen", "own")),
        "chosen_to_tvm": asdict(ratio_of(pooled, "chosen", "tvm")),
        "own_to_tvm": asdict(ratio_of(pooled, "own", "tvm")),
        "error": max(errors),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("networks", nargs="*", default=["squeezenet"])
    parser.add_argument("--logs", type=Path, required=True, help="folder of logs, one a network")
    parser.add_argument("--lanes", type=int, default=2)
    given = parser.parse_args()
    table = Table("network", "chosen", "own", "TVM", "chosen to own", "95 %", "transforms", "error")
    for name in given.networks:
        row = measure(name, given.lanes, given.logs / f"{name}.log")
        update_result("relay_blocks", [row], "network")
        ratio = row["chosen_to_own"]
        table.add_row(
            name,
            *(f"{row['latency'][key] * 1e3:.2f} ms" for key in ("chosen", "own", "tvm")),
            f"{ratio['median']:.3f}",
            f"{ratio['low']:.3f} to {ratio['high']:.3f}",
            f"{row['chosen']['transforms']}, {row['own']['transforms']}",
            f"{row['error']:.1e}",
        )
    console().print(table)


if __name__ == "__main__":
    main()
