"""``tvm-ios memory``, and the memory options of ``schedule`` and ``optimize``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.brief import shorten
from tests.cli.command_line import tvm_ios
from tests.fast_run import one_in
from tvm_ios.api import Options, load_operators, load_units, optimize
from tvm_ios.memory.operators import with_biases
from tvm_ios.memory.schedulers import MEMORY_SCHEDULERS

MODEL = "nasnet_cell"


@pytest.mark.parametrize(
    "options", one_in(3, [("--zero-copy-concat", "--units"), (), ("--in-place",)])
)
def test_every_scheduler_has_a_row(options: tuple[str, ...]) -> None:
    result = tvm_ios("memory", MODEL, *options, "--json", "--time-limit", 3).json
    assert list(result)[:2] == ["model", "schedulers"]
    assert [row["name"] for row in result["schedulers"]] == list(MEMORY_SCHEDULERS)
    graph = load_units(MODEL) if "--units" in options else with_biases(load_operators(MODEL))
    assert sorted(result["order"]) == sorted(op.name for op in graph.operators)
    by_name = {row["name"]: row for row in result["schedulers"]}
    optimal = by_name["optimal"]
    assert optimal["proof"] is True
    assert optimal["bound_kib"] == optimal["peak_kib"]
    for row in result["schedulers"]:
        assert row["operators"] == len(graph) >= row["fused_operators"]
        assert row["bound_kib"] <= optimal["peak_kib"] <= row["peak_kib"] <= row["arena_kib"]


def test_rewriting_frees_parts_of_a_concatenation_early() -> None:
    options = ("--scheduler", "serenity", "--in-place", "--json")
    (row,) = tvm_ios("memory", "unet", *options).json["schedulers"]
    (rewritten,) = tvm_ios("memory", "unet", *options, "--rewrite").json["schedulers"]
    assert (row["peak_kib"], row["peak_before_rewriting_kib"]) == (2048, None)
    assert (rewritten["peak_kib"], rewritten["peak_before_rewriting_kib"]) == (1536, 2048)
    table = tvm_ios("memory", "unet", *options[:-1], "--rewrite").stdout
    assert "not rewritten" in table
    assert "1,536" in table
    assert "2,048" in table


@pytest.mark.parametrize("option", ["--rewrite", "--fuse-activations"])
def test_units_run_as_they_are(option: str) -> None:
    outcome = tvm_ios("memory", MODEL, "--units", option)
    assert outcome.code == 2
    assert option in outcome.stderr
    assert "leave out --units" in outcome.stderr


def test_activations_may_be_part_of_what_they_follow() -> None:
    plain, fused = (
        tvm_ios("memory", MODEL, "--scheduler", "optimal", "--json", *options).json["schedulers"][0]
        for options in ((), ("--fuse-activations",))
    )
    assert fused["operators"] < plain["operators"]
    assert fused["peak_kib"] <= plain["peak_kib"]


def test_parts_of_fusion_ilp_may_be_left_out() -> None:
    options = (
        "--solver",
        "scip",
        "--no-pruning",
        "--no-fusion",
        "--naive-partition",
        "--parts",
        "2",
    )
    given = ("--scheduler", "rpo,fusion-ilp", "--rpo-from", "outputs")
    # Small enough to be solved: SCIP is known to overrun its limit of time in larger programs.
    rows = tvm_ios("memory", "several_outputs", *given, *options, "--json").json["schedulers"]
    assert rows[1]["fused_operators"] == rows[1]["operators"]
    assert rows[1]["peak_kib"] <= rows[0]["peak_kib"]
    outcome = tvm_ios("memory", MODEL, "--scheduler", "rpo", "--no-fusion")
    assert outcome.code == 2
    assert "only fusion-ilp reads" in outcome.stderr


def test_people_get_a_table_and_bars() -> None:
    outcome = tvm_ios("memory", MODEL, "--scheduler", "rpo,optimal")
    assert outcome.code == 0
    assert all(word in outcome.stdout for word in ("peak KiB", "arena KiB", "optimal", "█"))
    assert "serenity" not in outcome.stdout


def test_a_budget_holds_or_is_refused_with_what_is_lacking() -> None:
    fits = tvm_ios("memory", MODEL, "--scheduler", "rpo,optimal", "--budget", "1M")
    assert fits.code == 0
    assert "fits into 1,024 KiB and leaves" in fits.stdout
    outcome = tvm_ios("memory", MODEL, "--scheduler", "optimal", "--budget", "10K")
    outcome.refuses("10.0 KiB", "no order", "less than")


def test_a_model_is_written_with_its_nodes_in_the_best_order(tmp_path: Path) -> None:
    path = tmp_path / "reordered.onnx"
    outcome = tvm_ios("memory", MODEL, "-o", path, "--budget", "1M")
    assert "as written" in outcome.stdout
    assert f"wrote {path}" in outcome.stdout
    assert "leaves" in outcome.stdout
    own, best = tvm_ios("memory", MODEL, "-o", path, "--json").json["schedulers"]
    assert (own["name"], best["name"], best["proof"]) == ("as written", "optimal", True)
    again = tvm_ios("memory", path, "-o", path, "--json").json
    assert again["best"] == "as written"
    assert again["schedulers"][0]["peak_kib"] == best["peak_kib"] < own["peak_kib"]


def test_what_cannot_be_written_is_refused_before_the_search(tmp_path: Path) -> None:
    (tmp_path / "folder.onnx").mkdir()
    outcome = tvm_ios("memory", MODEL, "-o", tmp_path / "folder.onnx")
    outcome.refuses("folder.onnx")
    assert "memory schedulers" not in outcome.stderr


def test_a_rewritten_model_is_written_where_it_needs_less(tmp_path: Path) -> None:
    path = tmp_path / "rewritten.onnx"
    result = tvm_ios("memory", "unet", "--rewrite", "-o", path, "--json").json
    (change,) = result["changes"]
    assert (change["change"], change["places"]) == ("convolutions rewritten", 4)
    assert 0 < change["more_work"] < 0.01
    (row,) = (row for row in result["schedulers"] if row["name"] == "optimal")
    assert (row["peak_kib"], row["peak_before_rewriting_kib"]) == (1536, 2048)
    assert "4 convolutions rewritten" in tvm_ios("memory", "unet", "--rewrite", "-o", path).stdout
    kept = tvm_ios("memory", "several_outputs", "--rewrite", "-o", path)
    assert "no convolutions rewritten" in kept.stdout
    in_bands = tvm_ios("memory", "squeezenet", "--rewrite", "--bands", "-o", path, "--json").json
    assert [change["change"] for change in in_bands["changes"]] == ["parts in bands of rows"]


def test_buffers_are_placed_in_banks(tmp_path: Path) -> None:
    path = tmp_path / "buffers.csv"
    banks = ("--bank", "sram=64K:1", "--bank", "dram=:10", "-o", path)
    result = tvm_ios("memory", MODEL, *banks, "--json").json["placed"]
    sram, dram = result["banks"]
    assert (sram["name"], sram["capacity"], dram["capacity"]) == ("sram", 65536, None)
    assert 0 < sram["bytes"] <= 65536
    assert dram["bytes"] > 0
    assert result["cost_bound"] <= result["cost"]
    table = tvm_ios("memory", path, *banks[:-2]).stdout
    assert all(word in table for word in ("sram", "65,536", "dram", "units of time"))
    assert tvm_ios("memory", path, *banks[:-2], "--json").json["buffers"] > 50
    placed = tvm_ios("memory", path, "--capacity", "1MiB", "--json").json
    assert placed["banks"][0]["bytes"] <= 1 << 20
    tvm_ios("memory", path, "--capacity", "1K").refuses("1,024 bytes", "no placement")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("buffers.csv", "--in-place"), ("--in-place", "a table has buffers only")),
        ((MODEL, "-o", "x.txt"), ("x.txt", ".onnx")),
        ((MODEL, "-o", "x.onnx", "--units"), ("--units", "file itself")),
        ((MODEL, "--alignment", 8), ("--alignment", "--bank")),
        ((MODEL, "--bands"), ("--bands", "--output")),
        ((MODEL, "--bank", "sram=1K", "--budget", "1K"), ("--budget", "its own")),
        ((MODEL, "--bank", "=1K"), ("--bank", "is no bank")),
        ((MODEL, "--bank", "sram=much"), ("--bank", "much")),
    ],
)
def test_what_does_not_fit_together_is_a_wrong_use(
    arguments: tuple[object, ...], words: tuple[str, ...]
) -> None:
    outcome = tvm_ios("memory", *arguments)
    assert outcome.code == 2
    assert all(word in outcome.stderr for word in words)


@pytest.mark.parametrize("command", ["memory", "schedule"])
def test_what_is_no_budget_is_a_wrong_use(command: str) -> None:
    option = "--budget" if command == "memory" else "--memory-budget"
    assert tvm_ios(command, MODEL, option, "many").code == 2


@pytest.mark.parametrize(
    "options", [("--scheduler", "fifo"), ("--scheduler", ","), ("--time-limit", -1)]
)
def test_what_cannot_be_run_is_a_wrong_use(options: tuple[str, str | int]) -> None:
    assert tvm_ios("memory", MODEL, *options).code == 2


def test_the_picture_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "memory.svg"
    options = ("--scheduler", "rpo,optimal", "--budget", "1M", "--plot", path)
    assert tvm_ios("memory", MODEL, *options).code == 0
    assert path.read_text().startswith("<?xml")
    tvm_ios("memory", MODEL, "--plot", "x.pdf").refuses("x.pdf", ".svg", ".png")


def test_the_front_falls_in_memory_as_it_rises_in_time() -> None:
    command = ("schedule", "squeezenet", "--cost", "cpu")
    front = tvm_ios(*command, "--pareto", "--json").json["front"]
    latencies = [point["latency_ms"] for point in front]
    sizes = [point["memory_bytes"] for point in front]
    assert len(front) > 1
    assert latencies == sorted(latencies)
    assert sizes == sorted(set(sizes), reverse=True)
    # Every point is what a search within its memory finds.
    for point in front:
        result = tvm_ios(*command, "--json", "--memory-budget", point["memory_bytes"]).json
        assert result["latency_ms"] == pytest.approx(point["latency_ms"])
        assert result["memory_bytes"] == point["memory_bytes"]
    too_little = sizes[-1] - 1
    tvm_ios(*command, "--memory-budget", too_little).refuses("memory budget")


def test_a_table_of_the_front() -> None:
    assert "to the fastest" in tvm_ios("schedule", MODEL, "--pareto").stdout


@pytest.mark.parametrize(
    "options",
    [
        ("--policy", "rammer", "--memory-budget", "1M"),
        ("--policy", "greedy", "--pareto"),
        ("--pareto", "--memory-budget", "1M"),
        ("--pareto", "--cost", "log.jsonl"),
    ],
)
def test_memory_options_that_do_not_go_together(options: tuple[str, ...]) -> None:
    assert tvm_ios("schedule", MODEL, *options).code == 2


def test_a_policy_for_memory_alone() -> None:
    sequential, memory = (
        tvm_ios("schedule", MODEL, "--policy", policy, "--json").json["memory_bytes"]
        for policy in ("sequential", "memory")
    )
    assert memory <= sequential


@pytest.mark.slow
def test_optimize_never_exceeds_the_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept fits, and what does not fit is refused with the smallest there is."""
    shorten(monkeypatch.setattr)
    free = optimize(MODEL, tmp_path / "free", Options(policies=("ios-both",)))
    sizes = {free.memory.plan.nbytes}
    for budget in (free.memory.plan.nbytes, 125 << 10, 121 << 10):
        options = Options(policies=("ios-both",), memory_budget=budget)
        optimized = optimize(MODEL, tmp_path / str(budget), options)
        assert optimized.memory.plan.nbytes <= budget
        sizes.add(optimized.memory.plan.nbytes)
    tvm_ios(
        "optimize", MODEL, "-o", tmp_path / "none", "--policy", "ios-both", "--memory-budget", "9K"
    ).refuses("9.0 KiB", "smallest")
    assert not (tmp_path / "none").exists()


def test_a_batch_takes_as_much_more() -> None:
    command = ("memory", MODEL, "--scheduler", "optimal", "--json")
    (one,) = tvm_ios(*command).json["schedulers"]
    (four,) = tvm_ios(*command, "--batch", 4).json["schedulers"]
    assert four["peak_kib"] == 4 * one["peak_kib"]
