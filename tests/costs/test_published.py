"""What the described V100 predicts, against what others measured on one, or simulated."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from benchmarks.predicted import described_devices
from tests.random_dags import graph_of
from tvm_ios.costs.named import described_costs
from tvm_ios.devices.device import load_device
from tvm_ios.devices.engine import IOS, load_engine
from tvm_ios.policies.policy import Limits, Problem
from tvm_ios.search import search

ROOT = Path(__file__).parents[2]

needs_files = pytest.mark.skipif(
    not (ROOT.parent / "shared/data/simulated_v100.json").exists(),
    reason="others' files do not lie beside the checkout",
)


@pytest.mark.parametrize(
    "network",
    [
        "squeezenet",
        pytest.param("inception_v3", marks=pytest.mark.slow),
        pytest.param("randwire", marks=pytest.mark.slow),
        pytest.param("nasnet_a", marks=pytest.mark.slow),
    ],
)
def test_speed_ups_of_ios_s_networks(network: str) -> None:
    published = described_devices.published_latencies()[network, 1]
    predicted = described_devices.latencies(network, 1, "v100", tuple(published))
    for policy, milliseconds in published.items():
        measured = published["sequential"] / milliseconds
        speed_up = predicted["sequential"] / predicted[policy]
        assert speed_up == pytest.approx(measured, rel=0.15), policy
    assert predicted["ios-both"] <= min(predicted.values()) * (1 + 1e-9)
    if network == "squeezenet":
        assert predicted["greedy"] > predicted["sequential"]
    if network in ("randwire", "nasnet_a"):
        assert predicted["ios-merge"] == pytest.approx(predicted["sequential"])


def test_resnet_gains_little_and_a_chain_nothing() -> None:
    predicted = described_devices.latencies("resnet50", 1, "v100", ("sequential", "ios-both"))
    assert 1 < predicted["sequential"] / predicted["ios-both"] < 1.05
    chain = Problem.of(graph_of([1 << place - 1 if place else 0 for place in range(12)]), 40)
    engine = load_engine(IOS)
    costs = described_costs(load_device("v100"), engine)
    assert costs.stages is not None
    seconds = {
        policy: sum(
            costs.stages.stage_latency(chain.units, stage)
            for stage in search(chain, policy, costs, Limits()).schedule.stages
        )
        for policy in ("sequential", "ios-both", "rammer")
    }
    assert seconds["ios-both"] == pytest.approx(seconds["sequential"])
    launches = 11 * engine.launch_overhead
    assert seconds["sequential"] - launches <= seconds["rammer"] < seconds["sequential"]


@pytest.mark.slow
def test_larger_batches_gain_less() -> None:
    speed_ups = []
    for batch in (1, 16, 32, 64, 128):
        policies = ("sequential", "ios-both")
        predicted = described_devices.latencies("inception_v3", batch, "v100", policies)
        speed_ups.append(predicted["sequential"] / predicted["ios-both"])
    assert all(smaller > larger for smaller, larger in pairwise(speed_ups))
    assert speed_ups[-1] > 1


@needs_files
def test_the_authors_schedules_rank_as_they_measured() -> None:
    for batch in (1, 32):
        seconds = {other: described_devices.authors_seconds(other, batch) for other in (1, 32, 128)}
        measured = described_devices.specialised()[str(batch)]
        assert sorted(seconds, key=lambda other: seconds[other]) == sorted(
            seconds, key=lambda other: measured[str(other)]
        )


@needs_files
def test_the_order_of_simulated_programs_and_their_ratios() -> None:
    programs = described_devices.simulated_programs()
    for model in {program.model for program in programs}:
        of_model = [program for program in programs if program.model == model]
        first, *others = of_model
        assert first.policy == "sequential"
        cycles = [program.cycles for program in of_model]
        for how in ("from_kernels", "described"):
            predicted = [getattr(program, how) for program in of_model]
            if None in predicted:
                continue
            assert np.argsort(cycles).tolist() == np.argsort(predicted).tolist()
            for program, of_it in zip(others, predicted[1:], strict=True):
                ratio = program.cycles / first.cycles
                assert of_it / predicted[0] == pytest.approx(ratio, rel=0.2)


@needs_files
def test_estimates_of_kernels_are_as_good_for_those_that_were_held_out() -> None:
    kernels = list(described_devices.simulated_kernels())
    errors = {
        held: [abs(np.log(k.estimated / k.cycles)) for k in kernels if k.held_out is held]
        for held in (True, False)
    }
    assert len(errors[False]) > len(errors[True]) > len(kernels) / 4
    assert max(np.mean(of) for of in errors.values()) < 0.14


@needs_files
def test_what_is_found_for_a_captured_graph_is_at_least_as_fast_as_greedy() -> None:
    for _, cycles in described_devices.found_programs():
        assert cycles["ios-both"] <= cycles["greedy"] < cycles["sequential"]
