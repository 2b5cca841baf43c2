"""What described devices predict, beside what others measured or simulated."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import correlation, fmean
from typing import Any

import numpy as np
from rich.table import Table

from benchmarks.papers.ios.latencies import latencies
from benchmarks.predicted.published.ios_schedules import BATCHES, authors_schedule
from benchmarks.predicted.published.latencies import published_latencies, specialised
from benchmarks.predicted.published.simulated import (
    Simulated,
    found_programs,
    simulated_kernels,
    simulated_programs,
)
from benchmarks.report import write_result
from tvm_ios.cli.frame.output import console
from tvm_ios.costs.analytic import AnalyticCost
from tvm_ios.devices.device import load_device
from tvm_ios.devices.engine import IOS, load_engine

#: The networks that the figures of the device were fitted to.
FITTED = ("squeezenet", "inception_v3")


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    of_kernels = list(kernels())
    figures = [*networks(), *on_k80(), *other_batches(), *simulated(), *of_kernels]
    table = Table("what", "case", "measured", "predicted", "error", "fitted")
    for row in figures:
        error = row["predicted"] / row["measured"] - 1
        table.add_row(
            row["what"],
            row["case"],
            f"{row['measured']:.3f}",
            f"{row['predicted']:.3f}",
            f"{error:+.1%}",
            "yes" if row["fitted"] else "",
        )
    console().print(table)
    show_kernels(of_kernels)
    show_found()
    print(write_result("described_devices", figures))


def networks() -> Iterator[dict[str, Any]]:
    """Speed-ups over sequential of IOS's schedules on a V100, and sequential milliseconds."""
    for (network, batch), milliseconds in published_latencies().items():
        predicted = latencies(network, batch, "v100", tuple(milliseconds))
        case = f"{network}, batch {batch}"
        fitted = network in FITTED and batch == 1
        for policy, measured in milliseconds.items():
            sequential = policy == "sequential"
            yield {
                "what": "milliseconds" if sequential else "speed-up",
                "case": f"{case}, {policy}",
                "measured": measured if sequential else milliseconds["sequential"] / measured,
                "predicted": predicted[policy]
                if sequential
                else predicted["sequential"] / predicted[policy],
                "fitted": fitted,
            }


def on_k80() -> Iterator[dict[str, Any]]:
    """Milliseconds of Inception V3 on another GPU of the authors', with two schedules."""
    ours = latencies("inception_v3", 1, "k80", ("ios-both",))["ios-both"]
    predicted = {"K80": ours, "V100": authors_seconds(1, 1, "k80") * 1e3}
    for optimised, measured in specialised()["K80"].items():
        yield {
            "what": "milliseconds",
            "case": f"inception_v3 on a K80, scheduled for {optimised.lower()}",
            "measured": measured,
            "predicted": predicted[optimised],
            "fitted": optimised == "K80",
        }


def other_batches() -> Iterator[dict[str, Any]]:
    """Inception V3 with the authors' schedules for one batch and another, to the right one."""
    for batch in BATCHES:
        measured = specialised()[str(batch)]
        predicted = {optimised: authors_seconds(optimised, batch) for optimised in BATCHES}
        for optimised in BATCHES:
            yield {
                "what": "their schedules",
                "case": f"for batch {optimised}, run with {batch}",
                "measured": measured[str(optimised)] / measured[str(batch)],
                "predicted": predicted[optimised] / predicted[batch],
                "fitted": False,
            }


def authors_seconds(optimised_for: int, batch: int, device: str = "v100") -> float:
    """Predicted seconds of a schedule of the authors'."""
    graph, stages = authors_schedule(optimised_for, batch)
    return float(
        AnalyticCost(load_device(device), load_engine(IOS)).stage_latencies(graph, stages).sum()
    )


def simulated() -> Iterator[dict[str, Any]]:
    """Cycles of our kernels' programs in a simulator, to those of the sequential program.

    They are predicted from the cycles of the kernels alone, and by the description of the device
    with a captured graph.
    """
    sequential: dict[str, Simulated] = {}
    for program in simulated_programs():
        if program.policy == "sequential":
            sequential[program.model] = program
            continue
        reference, case = sequential[program.model], f"{program.model}, {program.policy}"
        row = {"case": case, "measured": program.cycles / reference.cycles, "fitted": False}
        yield {
            "what": "simulated, from its kernels",
            "predicted": program.from_kernels / reference.from_kernels,
            **row,
        }
        if program.described is not None and reference.described is not None:
            predicted = program.described / reference.described
            yield {"what": "simulated, described", "predicted": predicted, **row}


def kernels() -> Iterator[dict[str, Any]]:
    """Cycles of single kernels, to which the estimates were fitted but for a third of them."""
    for kernel in simulated_kernels():
        yield {
            "what": "cycles of a kernel",
            "case": kernel.name,
            "measured": kernel.cycles,
            "predicted": kernel.estimated,
            "fitted": not kernel.held_out,
        }


def show_kernels(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print how far the estimates of kernels are from their cycles."""
    for fitted in (True, False):
        chosen = [row for row in rows if row["fitted"] is fitted]
        errors = [abs(math.log(row["predicted"] / row["measured"])) for row in chosen]
        name = "fitted" if fitted else "held out"
        print(f"{len(chosen)} kernels {name}: {math.expm1(fmean(errors)):.0%} off on average")
    measured, predicted = ([row[key] for row in rows] for key in ("measured", "predicted"))
    ranks = [np.argsort(np.argsort(cycles)).tolist() for cycles in (measured, predicted)]
    print(f"sum {sum(predicted) / sum(measured):.2f}, rank correlation {correlation(*ranks):.2f}")


def show_found() -> None:
    """Print what the schedules that the captured graph's costs find take by recorded cycles."""
    for model, cycles in found_programs():
        greedy, ours = cycles["greedy"], cycles["ios-both"]
        print(
            f"{model}: by the cycles of its kernels ios-both takes {ours:,.0f} and greedy "
            f"{greedy:,.0f} of {cycles['sequential']:,.0f}"
            + (": ios-both keeps greedy's stages" if ours == greedy else "")
        )


if __name__ == "__main__":
    main()
