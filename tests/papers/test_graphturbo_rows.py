"""GraphTurbo's tables and figures: every published value has a row, of the right simulation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from benchmarks.papers.catalogue import items_named
from benchmarks.papers.graphturbo.figures import operators_of_stage_two
from benchmarks.papers.graphturbo.rows import ROWS
from benchmarks.papers.graphturbo.simulated import BATCHES, ZOO, best_batch, simulate_network
from benchmarks.papers.row import Agreement, How
from benchmarks.papers.steps import Steps
from tests.onnx_sketch import Sketch
from tvm_ios.graphturbo.cluster.variants import VARIANTS
from tvm_ios.zoo import names

#: How many times faster each variant is than the one before.
_FASTER = 2.0


class Simulated:
    """Steps that simulate nothing: each variant is twice as fast as the one before."""

    def once(self, function: Callable[..., Any], *arguments: Any) -> Any:
        if function is not simulate_network:
            return {
                "operators_of_stage_two": {"operators": 38, "convolutions": 13},
                "engines_in_stages": {"TVM": [{"VME": 0.1, "MME": 0.2}] * 4},
            }[function.__name__]
        _, batch, *_ = arguments
        results: dict[str, Any] = {"factors": [2, 2, 1, 1]}
        for number, variant in enumerate(VARIANTS):
            throughput = 100.0 * _FASTER**number
            results[variant] = {
                "planning_seconds": 1.0,
                "seconds": batch * 4 / throughput,
                "throughput": throughput,
                "tensors": {"DDR": 1, "LLB": 2, "L1": 3},
                "matrix": 0.5,
                "vector": 0.1,
            }
        return results


@pytest.mark.parametrize("name", ROWS)
def test_every_published_value_has_a_row(name: str) -> None:
    (item,) = items_named([name])
    rows = list(ROWS[name](item.values, cast(Steps, Simulated())))
    labels = [row.label for row in rows]
    assert len(labels) == len(set(labels))
    published = [row.published for row in rows if row.published is not None]
    assert sorted(published) == sorted(item.flat_values().values())
    for row in rows:
        assert (row.ours is None) == (row.how is How.NOT_POSSIBLE)
        assert row.note or row.agreement in (Agreement.NEAR, Agreement.ROUGH)
        assert (row.how is How.SIMULATED) == bool(row.device)


def test_contributions_are_ratios_of_variants() -> None:
    (item,) = items_named(["graphturbo-osdi23/figure-15"])
    rows = ROWS[item.name](item.values, cast(Steps, Simulated()))
    ours = {row.label: row.ours for row in rows}
    of_local = _FASTER ** VARIANTS.index("local")
    assert ours["tensors in L1, over TVM, average"] == pytest.approx(of_local)
    assert ours["BERT-128, all over TVM"] == pytest.approx(_FASTER ** (len(VARIANTS) - 1))
    scheduling = "instruction scheduling, over instances in order, average"
    assert ours[scheduling] == pytest.approx(_FASTER)


def test_the_networks() -> None:
    assert set(ZOO.values()) <= set(names())
    assert ZOO.keys() == BATCHES.keys()
    (item,) = items_named(["graphturbo-osdi23/table-2"])
    for network, values in item.values.items():
        theirs = values["TVM, batch of a cluster"], values["GraphTurbo, batch of a cluster"]
        assert BATCHES[network] == theirs
    assert best_batch(cast(Steps, Simulated()), "ResNet-50") in (2, 8, 16)


def test_a_simulated_network(tmp_path: Path) -> None:
    sketch = Sketch(1, 8, 16, 16)
    x = sketch.op("Relu", sketch.conv("x", 8, 8))
    path = tmp_path / "model.onnx"
    path.write_bytes(sketch.model(sketch.conv(x, 8, 8)).SerializeToString())
    results = simulate_network(str(path), 4, "stcp920")
    assert results["prefetch"]["seconds"] <= results["instances"]["seconds"]
    for variant in VARIANTS:
        images = results[variant]["throughput"] * results[variant]["seconds"]
        assert images == pytest.approx(4 * 4)
    assert sum(results["layers"]["tensors"].values()) == 2


@pytest.mark.slow
def test_stage_two_of_resnet50() -> None:
    assert operators_of_stage_two() == {"operators": 38, "convolutions": 13}
