"""IOS's tables and figures: counts are exact, and what is simulated behaves as it must."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.papers.catalogue import items_named
from benchmarks.papers.ios import background, counts, latencies, specialised, utilisation
from benchmarks.papers.row import Agreement, Row
from benchmarks.papers.steps import Steps
from tvm_ios.graph.op_graph import bits
from tvm_ios.models.load import load_graph
from tvm_ios.schedule.stage import fault_of
from tvm_ios.sweep.sweep_file import read_sweep

ROOT = Path(__file__).parents[2]


def values_of(name: str) -> Any:
    (item,) = items_named([f"ios-thesis/{name}"])
    return item.values


@pytest.mark.parametrize(
    "network",
    [
        "SqueezeNet",
        "Inception V3",
        pytest.param("NasNet", marks=pytest.mark.slow),
        pytest.param("Randwire", marks=pytest.mark.slow),
    ],
)
def test_the_table_of_largest_blocks_is_counted_to_its_digits(network: str, tmp_path: Path) -> None:
    # IOS, table 3.1.
    published = values_of("table-3.1")[network]
    for row in counts.largest_blocks({network: published}, Steps(tmp_path)):
        assert row.published is not None
        assert f"{row.ours:.1e}" == f"{row.published:.1e}", row.label


def test_small_counts_are_exact(tmp_path: Path) -> None:
    rows: list[Row] = []
    for name, function in (
        ("figure-2.3", background.low_occupancy),
        ("figure-3.4", background.example),
        ("figure-3.5", background.tight_bound),
    ):
        rows += function(values_of(name), Steps(tmp_path))
    assert len(rows) == 6
    assert all(row.ours == row.published for row in rows)


def test_a_schedule_is_best_where_it_was_searched_for() -> None:
    found = specialised.across_batches("squeezenet", (1, 16))
    for batch, by_schedule in found.items():
        assert by_schedule[batch] == min(by_schedule.values())
    assert found["1"]["16"] > found["1"]["1"]
    on_devices = specialised.across_devices("squeezenet", ("K80", "V100"))
    assert on_devices["K80"]["K80"] <= on_devices["K80"]["V100"]
    assert on_devices["V100"]["V100"] < on_devices["K80"]["K80"]


def test_the_sweep_of_the_table_has_its_conditions() -> None:
    sweep = read_sweep(ROOT / "examples" / "specialisation.toml")
    assert sweep.crossings == ("batches", "devices")


def test_pruning_less_finds_no_worse() -> None:
    found = latencies.pruned("squeezenet", "v100", ("r=1, s=3", "r=2, s=8", "r=3, s=8"))
    by_size = sorted(found.values(), key=lambda entry: entry["transitions"])
    milliseconds = [entry["ms"] for entry in by_size]
    assert milliseconds == sorted(milliseconds, reverse=True)
    assert found["r=3, s=8"] is not found["r=1, s=3"]


def test_blocks_gain_as_the_whole_does() -> None:
    found = latencies.block_speed_ups("squeezenet", "v100")
    assert len(found["blocks"]) == 12
    assert min(found["blocks"]) >= 1 - 1e-9
    assert 1 < found["whole"] < max(found["blocks"])


def test_both_published_schedules_of_the_last_block_are_schedules_of_it() -> None:
    units = load_graph("inception_v3")
    block = [n for n, op in enumerate(units.operators) if op.name.startswith("mixed_7c/")]
    for text in specialised.LAST_BLOCK.values():
        done = sum(1 << unit for unit in range(block[0]))
        for place, stage in enumerate(specialised.stages_of(text, units)):
            assert fault_of(units, place, stage, done) is None
            done |= stage.mask
        left = [n for n in block if not done >> n & 1]
        assert [units.operators[n].kind for n in left] == ["concat+concat+concat"]


def test_ios_keeps_more_warps_active() -> None:
    found = utilisation.utilisation("v100")
    warps = {policy: entry["active warps"] for policy, entry in found.items()}
    assert 0 < warps["sequential"] < min(warps["greedy"], warps["ios-both"])
    assert max(warps.values()) <= 80 * 64
    for entry in found.values():
        assert 0 < entry["utilisation, %"] < 100


def test_rows_agree_where_the_description_was_fitted(tmp_path: Path) -> None:
    published = {"SqueezeNet": values_of("figure-4.1")["SqueezeNet"]}
    rows = {row.label: row for row in latencies.schedules(published, Steps(tmp_path))}
    assert rows["SqueezeNet, ios-both"].ours == rows["SqueezeNet, ios-merge"].ours == 1
    # Their synchronisation costs more than what greedy's stages gain.
    greedy, sequential = (rows[f"SqueezeNet, {policy}"].ours for policy in ("greedy", "sequential"))
    assert isinstance(greedy, float)
    assert isinstance(sequential, float)
    assert greedy < sequential
    assert {row.agreement for row in rows.values()} <= {Agreement.NEAR, Agreement.ROUGH}


def test_the_published_wiring_is_a_block() -> None:
    block = counts.published_block()
    assert len(block) == 33
    read = {source for before in block for source in bits(before)}
    assert read == set(range(32))
