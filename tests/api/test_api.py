"""``optimize`` keeps what is surely the fastest, and refuses what computes something else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from relay_passes import SearchOptions
from runtime_ext.execution.executable import load
from tests.brief import shorten
from tests.onnx_sketch import relative_error
from tests.onnx_sketch import run as run_onnxruntime
from tests.refusals import refused
from tvm_ios.api import Options, load_units, optimize
from tvm_ios.errors import ModelError, UserError
from tvm_ios.ios.ending_space import Pruning
from tvm_ios.ios.lazy import Budget
from tvm_ios.models.load import load_onnx
from tvm_ios.policies.policy import Limits
from tvm_ios.policies.sequential import sequential_schedule

LIMITS = {"lanes": 2, "limits": Limits(pruning=Pruning(2, 3), budget=Budget(4))}


@pytest.mark.slow
def test_optimize(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shorten(monkeypatch.setattr)
    calls: list[tuple[str, int, int]] = []
    done = optimize(
        "inception_block",
        tmp_path / "out",
        Options(search=SearchOptions(**LIMITS), policies=("greedy", "ios-both")),
        progress=lambda *call: calls.append(call),
    )
    measured = [row.policy for row in done.policies]
    assert measured[:2] == ["tvm", "sequential"]
    assert set(measured) <= set(done.outcomes) == {"tvm", "sequential", "greedy", "ios-both"}
    assert done.kept in ("sequential", "greedy", "ios-both")
    assert set(done.confirmed) == {"sequential", "tvm"}
    size = done.search
    assert (size.operators, size.units, size.blocks) == (47, 17, 3)
    assert max(row.max_rel_error for row in done.policies) <= 1e-4
    assert all(0 <= count <= total for _, count, total in calls)
    last = {what: (count, total) for what, count, total in calls}
    assert last["building"] == (len(measured) - 1,) * 2
    executable = load(done.executable)
    assert executable.notes["kept"] == done.kept == executable.schedule["policy"]
    session = executable.session()
    session.run(input=np.random.default_rng(0).standard_normal((1, 3, 19, 19), np.float32))
    expected = run_onnxruntime(load_onnx("inception_block"))
    assert relative_error([session.get_output()], expected) <= 1e-4
    assert any((cache / "kernels").iterdir())
    assert any((cache / "logs").iterdir())


def test_a_schedule_with_kernels_is_no_twin_of_one_without(tmp_path: Path) -> None:
    """The stages are those of ``sequential``, which is built first; the kernel has to be found."""
    graph = load_units("inception_block")
    schedule = replace(sequential_schedule(graph), kernels={0: "finest"})
    schedule.save(tmp_path / "schedule.json", graph)
    with refused(UserError, "'finest'", "default"):
        optimize(
            "inception_block",
            tmp_path / "out",
            Options(
                search=SearchOptions(**LIMITS), policies=(), schedule=tmp_path / "schedule.json"
            ),
        )


def test_an_unknown_model_is_refused_before_anything_else(tmp_path: Path) -> None:
    with refused(ModelError, "'no_such_network'", "tvm-ios models"):
        optimize("no_such_network", tmp_path / "out", Options(search=SearchOptions(**LIMITS)))
    assert not (tmp_path / "out").exists()
