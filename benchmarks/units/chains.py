"""Chains: units as one kernel beside the units apart, and networks with and without.

For units that one kernel computes, once for equal ones, the program of these units and that of the
chain run in turn in one process, on one lane and on two. Then whole networks, one unit after
another: without chains; with those that the first part found faster; and with as many as there
can be, whether faster or not, for what that does to memory. All outputs are compared bit by bit.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table

from benchmarks.in_turn import compared, measure_networks, program_runner, session_runner, shown
from benchmarks.report import model_of
from relay_passes.load import load_model
from relay_passes.pipeline import prepare
from relay_passes.relax.target_units import RelaxUnits
from relay_passes.search_options import SearchOptions
from runtime_ext.kernels.chain import Chain, Chained
from tvm_ios.cli.frame.output import console
from tvm_ios.policies.sequential import sequential_schedule
from tvm_ios.program.lower import lower_stages
from tvm_ios.schedule.chained_schedule import best_disjoint, possible_chains, with_chains
from tvm_ios.schedule.stage import Stage, Strategy

NETWORKS = (
    "mobilenet_v2",
    "mobilenet_v3",
    "efficientnet_b0",
    "shufflenet_v2",
    "transformer",
    "bert_small",
    "vit_tiny",
    "conformer",
)
Units = tuple[int, ...]

#: Pairs of runs of whole networks.
_WHOLE_PAIRS, _WHOLE_SECONDS = 301, 20.0
#: A chain is faster if the median ratio is below this, and the whole interval below one.
_FASTER = 0.98


def measure(network: str, lanes: int) -> dict[str, Any]:
    prepared = prepare(load_model(model_of(network)).module)
    units = RelaxUnits(prepared, SearchOptions(lanes=lanes))
    graph = prepared.units
    apart = sequential_schedule(graph)
    compiler = units.backend.compiler

    def kernels(chain: Units) -> int:
        return compiler.chain_kernels(units.source(chain))

    possible = [chain for _, chain in possible_chains(graph, apart.stages, kernels)]
    rows, row_of = _chains(units, possible, lanes)
    gains = {chain: _gain(rows[row_of[chain]]) for chain in possible}
    chosen = best_disjoint({chain: gain for chain, gain in gains.items() if gain > 0})
    every = best_disjoint(dict.fromkeys(possible, 1.0))
    models = {
        name: units.build(with_chains(apart, chains))
        for name, chains in (("apart", []), ("chosen", chosen), ("all", every))
    }
    sessions = {name: model.session() for name, model in models.items()}
    outputs: set[bytes] = set()
    for session in sessions.values():
        session.run(**session.random_inputs(0))
        outputs.add(session.get_output().tobytes())
    if len(outputs) != 1:
        raise SystemExit(f"{network}: chains changed what it computes")

    def whole(name: str) -> dict[str, Any]:
        ratio, seconds = compared(
            session_runner(sessions["apart"]),
            session_runner(sessions[name]),
            _WHOLE_PAIRS,
            _WHOLE_SECONDS,
        )
        return {"ratio": asdict(ratio), "ms": seconds[1] * 1e3, "apart_ms": seconds[0] * 1e3}

    return {
        "lanes": lanes,
        "load": os.getloadavg()[0],
        "units": len(graph),
        "possible": len(possible),
        "pairs": rows,
        "networks": {
            name: {
                **(whole(name) if name != "apart" else {}),
                "chains": len(chains),
                "arena_bytes": models[name].memory.plan.nbytes,
            }
            for name, chains in (("apart", []), ("chosen", chosen), ("all", every))
        },
    }


def _gain(row: Mapping[str, Any]) -> float:
    """Microseconds that a chain saves, or 0 if it is not clearly faster."""
    ratio = row["ratio"]
    faster = ratio["median"] < _FASTER and ratio["high"] < 1
    return row["us"] * (1 - ratio["median"]) if faster else 0.0


def _chains(
    units: RelaxUnits, possible: Sequence[Units], lanes: int
) -> tuple[list[dict[str, Any]], dict[Units, int]]:
    """A row for each distinct chain, and which row is each chain's."""
    graph, compiler = units.prepared.units, units.backend.compiler
    pieces = [*possible, *((unit,) for unit in range(len(graph)))]
    compiled = compiler.compile({str(piece): units.source(piece) for piece in pieces})
    rows: list[dict[str, Any]] = []
    row_of: dict[Units, int] = {}
    number_of: dict[tuple[str, ...], int] = {}
    for chain in possible:
        pieces = [chain, *((unit,) for unit in chain)]
        key = tuple(compiled[str(piece)].key for piece in pieces)
        if key in number_of:
            row_of[chain] = number_of[key]
            rows[number_of[key]]["equal_pairs"] += 1
            continue
        row_of[chain] = number_of[key] = len(rows)
        stage = Stage(Strategy.CONCURRENT, (chain,))
        code = {unit: compiled[str((unit,))].code for unit in chain}
        joined = {stage: compiled[str(chain)].code}
        programs = [
            lower_stages(graph, (stage,), code, merged, lanes=lanes, parts=units.parts)
            for merged in ({}, joined)
        ]
        both, alone = (program_runner(compiler, program) for program in programs)
        ratio, seconds = compared(both, alone)
        # A chain may be followed by what shuffles its channels, say.
        kernels = [(call, compiler.workload(call.symbol)) for call in joined[stage].calls]
        (call, kernel), *_ = [each for each in kernels if isinstance(each[1], Chained)]
        handed = [graph.operators[unit].outputs[0] for unit in chain[:-1]]
        rows.append(
            {
                "units": [graph.operators[unit].name for unit in chain],
                "first": type(kernel.first if isinstance(kernel, Chain) else kernel).__name__,
                "equal_pairs": 1,
                "us": seconds[0] * 1e6,
                "ratio": asdict(ratio),
                "handed_bytes": 4 * sum(_elements(graph.tensors[tensor]) for tensor in handed),
                "tiles": call.tiles,
            }
        )
    return rows, row_of


def _elements(tensor: Any) -> int:
    count = 1
    for extent in tensor.shape:
        count *= extent
    return count


def show(figures: Sequence[dict[str, Any]]) -> None:
    pairs = Table("network", "lanes", "units", "first", "µs apart", "chain to apart", "handed on")
    networks = Table(
        "network", "lanes", "load", "chains", "to apart", "least ms", "apart", "arena KiB", "apart"
    )
    for row in figures:
        for pair in row["pairs"]:
            pairs.add_row(
                row["network"],
                str(row["lanes"]),
                " ".join(pair["units"]) + (f" x{n}" if (n := pair["equal_pairs"]) > 1 else ""),
                pair["first"],
                f"{pair['us']:.0f}",
                shown(pair["ratio"]),
                f"{pair['handed_bytes'] >> 10} KiB",
            )
        apart = row["networks"]["apart"]["arena_bytes"]
        for name in ("chosen", "all"):
            whole = row["networks"][name]
            networks.add_row(
                row["network"],
                str(row["lanes"]),
                f"{row['load']:.0f}",
                f"{name}: {whole['chains']} of {row['possible']}",
                shown(whole["ratio"]),
                f"{whole['ms']:.2f}",
                f"{whole['apart_ms']:.2f}",
                str(whole["arena_bytes"] >> 10),
                str(apart >> 10),
            )
    console().print(pairs)
    console().print(networks)


if __name__ == "__main__":
    measure_networks("chains", __doc__, NETWORKS, measure, show)
