"""``optimize`` keeps what is fastest beyond doubt, and refuses what computes something else."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_sketch import relative_error
from onnx_sketch import run as run_onnxruntime

from relay_passes import MeasuringOptions
from runtime_ext.executable import load
from tvm_ios import api
from tvm_ios.api import PolicyResult, VerificationError, optimize
from tvm_ios.models import ModelError, load_onnx
from tvm_ios.search.endings import Pruning
from tvm_ios.search.lazy import Budget

LIMITS = {"lanes": 2, "pruning": Pruning(2, 3), "budget": Budget(4)}


class _Saved:
    """Stands for a built model: remembers where it was saved."""

    def save(self, path: Path) -> None:
        path.touch()


def confirm(
    ratios: Mapping[str, float], again: Mapping[str, list[float]], folder: Path
) -> tuple[str, dict[str, Any], list[str]]:
    """What is kept for first ratios to sequential, when a fresh process gives these samples."""
    rows = [PolicyResult(p, 1.0, ratio, 3, 0.0, 0.0) for p, ratio in ratios.items()]
    built: Any = {row.policy: _Saved() for row in rows}
    asked: list[str] = []

    def contest(paths: Mapping[str, Path]) -> dict[str, list[float]]:
        assert all(path.exists() for path in paths.values())
        asked.extend(paths)
        return {name: again[name] for name in (*paths, "tvm")}

    kept, confirmed = api._confirm(rows, built, contest, folder)  # pyright: ignore[reportPrivateUsage]
    return kept, confirmed, asked


NOISE = np.linspace(0.99, 1.01, 20)


def samples(**factors: float) -> dict[str, list[float]]:
    return {name: (factor * NOISE).tolist() for name, factor in factors.items()}


FIRST = {"tvm": 0.1, "sequential": 1.0, "greedy": 0.9, "ios-both": 0.8}


def test_keeps_the_fastest_if_it_is_faster_again(tmp_path: Path) -> None:
    again = samples(tvm=2.0, sequential=1.0) | {"ios-both": [0.5] * 20}
    kept, confirmed, asked = confirm(FIRST, again, tmp_path)
    assert kept == "ios-both"
    assert asked == ["sequential", "ios-both"]
    assert confirmed["sequential"].high < 1
    assert confirmed["tvm"].median == pytest.approx(0.25, rel=0.02)


@pytest.mark.parametrize("factor", [1.0, 1.5])
def test_keeps_sequential_if_it_was_luck(factor: float, tmp_path: Path) -> None:
    """Equal is not faster: a quarter of these pairs are slower."""
    again = samples(tvm=2.0, sequential=1.0)
    again["ios-both"] = [factor * x for x in np.where(np.arange(20) % 4, 0.999, 1.2)]
    again["ios-both"] = [a * b for a, b in zip(again["ios-both"], again["sequential"], strict=True)]
    if factor == 1.0:
        # Fifteen of twenty pairs are faster, so this one would be kept; one pair less is doubt.
        again["ios-both"][1] = 2.0
    kept, confirmed, _ = confirm(FIRST, again, tmp_path)
    assert kept == "sequential"
    assert confirmed["sequential"].median == 1.0
    assert confirmed["tvm"].median == pytest.approx(0.5)


def test_nothing_faster_is_not_asked_again(tmp_path: Path) -> None:
    first = {"tvm": 0.5, "sequential": 1.0, "greedy": 1.0, "ios-both": 1.3}
    kept, _, asked = confirm(first, samples(tvm=0.5, sequential=1.0), tmp_path)
    assert (kept, asked) == ("sequential", ["sequential"])


def test_a_slow_tvm_has_fewer_samples(tmp_path: Path) -> None:
    again = samples(sequential=1.0) | {"tvm": [4.0, 4.0, 4.0], "ios-both": [0.5] * 20}
    _, confirmed, _ = confirm(FIRST, again, tmp_path)
    assert confirmed["tvm"].pairs == 3
    assert confirmed["sequential"].pairs == 20


def errors(found: Any, reference: Any) -> tuple[float, float]:
    arrays = [[np.asarray(x, np.float32) for x in part] for part in (found, reference)]
    return api._errors("greedy", *arrays)  # pyright: ignore[reportPrivateUsage]


def test_errors_are_relative_to_the_largest_of_each_output() -> None:
    absolute, relative = errors([[1.0, 4.0], [100.01]], [[1.001, 4.0], [100.0]])
    assert absolute == pytest.approx(0.01, rel=1e-2)
    assert relative == pytest.approx(0.001 / 4, rel=1e-3)
    assert errors([[1e-9]], [[0.0]])[1] == pytest.approx(1e-9)
    assert errors([[]], [[]]) == (0, 0)


@pytest.mark.parametrize("wrong", [1.01, float("nan"), float("inf")])
def test_a_wrong_result_is_refused(wrong: float) -> None:
    with pytest.raises(VerificationError, match="the greedy schedule differs from TVM's own"):
        errors([[1.0, wrong]], [[1.0, 1.0]])


def test_optimize(tmp_path: Path, cache: Path) -> None:
    calls: list[tuple[str, int, int]] = []
    done = optimize(
        "inception_block",
        tmp_path / "out",
        options=MeasuringOptions(**LIMITS),
        policies=("greedy", "ios-both"),
        progress=lambda *call: calls.append(call),
    )
    assert [row.policy for row in done.policies] == ["tvm", "sequential", "greedy", "ios-both"]
    assert done.kept in ("sequential", "greedy", "ios-both")
    assert set(done.confirmed) == {"sequential", "tvm"}
    assert (done.operators, done.units, done.blocks) == (47, 17, 3)
    assert max(row.max_rel_error for row in done.policies) <= 1e-4
    assert all(0 <= made <= total for _, made, total in calls)
    last = {what: (made, total) for what, made, total in calls}
    assert last["building"] == (3, 3)
    executable = load(done.executable)
    assert executable.notes["kept"] == done.kept == executable.schedule["policy"]
    session = executable.session()
    session.run(input=np.random.default_rng(0).standard_normal((1, 3, 19, 19), np.float32))
    expected = run_onnxruntime(load_onnx("inception_block"))
    assert relative_error([session.get_output()], expected) <= 1e-4
    assert any((cache / "kernels").iterdir())
    assert any((cache / "logs").iterdir())


def test_an_unknown_model_is_refused_before_anything_else(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"neither an \.onnx file nor one of the zoo"):
        optimize("alexnet", tmp_path / "out", options=MeasuringOptions(**LIMITS))
    assert not (tmp_path / "out").exists()
