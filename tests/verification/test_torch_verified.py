"""A program of torch.export is compared with what PyTorch makes of it."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from relay_passes import SearchOptions, load  # noqa: E402
from runtime_ext.verification.not_computed import NotComputed  # noqa: E402
from runtime_ext.verification.torch_outputs import torch_outputs  # noqa: E402
from tests.brief import shorten  # noqa: E402
from tests.refusals import refused  # noqa: E402
from tvm_ios.api import Options, optimize  # noqa: E402
from tvm_ios.api.result import Result  # noqa: E402
from tvm_ios.contest.outputs import VerificationError, Verify  # noqa: E402

ARRAY = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)


class Nested(torch.nn.Module):
    """Inputs in a list, outputs in a dictionary."""

    def forward(self, pair: Any, scale: Any) -> Any:
        return {"sum": pair[0] + pair[1], "rest": [torch.sigmoid(scale), pair[1] - scale]}


def save(module: Any, path: Path) -> Path:
    # One tensor in several places would be one input.
    first, second, third = torch.ones(3, 2, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(module, ([first, second], third))
        torch.export.save(program, str(path))
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return save(Nested(), tmp_path / "nested.pt2")


def optimized(path: Path, verify: Verify = Verify.onnx) -> Result:
    search = SearchOptions(lanes=1)
    options = Options(search=search, policies=(), verify=verify, fallback=())
    return optimize(path, path.parent / "out", options)


def test_outputs_are_those_of_the_program(path: Path) -> None:
    (outputs,), source = torch_outputs(path, [{"a": ARRAY, "b": 2 * ARRAY, "c": 3 * ARRAY}])
    assert source == f"PyTorch {torch.__version__}"
    expected = [3 * ARRAY, 1 / (1 + np.exp(-3 * ARRAY)), -ARRAY]
    for output, array in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(output, array, rtol=1e-5)


def test_what_it_refuses_is_not_computed(path: Path) -> None:
    with refused(NotComputed, "PyTorch"):
        torch_outputs(path, [{"a": ARRAY}])


def test_programs_are_compared_with_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shorten(monkeypatch.setattr)
    done = optimized(path)
    assert done.reference == f"PyTorch {torch.__version__}"
    assert max(row.max_rel_error or 0 for row in done.policies) < 1e-5
    assert optimized(path, Verify.tvm).reference == "TVM's own build"


class Other(Nested):
    """Computes a little more."""

    def forward(self, pair: Any, scale: Any) -> Any:
        return super().forward([pair[0], 1.01 * pair[1]], scale)


def test_a_wrong_import_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shorten(monkeypatch.setattr)
    other = save(Other(), path.with_name("other.pt2"))
    module, read = load.load_model(str(path)).module, load.load_model

    def other_module(*how: Any, **options: Any) -> Any:
        return replace(read(*how, **options), module=module)

    monkeypatch.setattr(load, "load_model", other_module)
    with refused(VerificationError, "sequential", "PyTorch"):
        optimized(other)


class Scrubbed(torch.nn.Module):
    """A number that is not itself is NaN."""

    def forward(self, x: Any) -> Any:
        return torch.relu(x), torch.where(x != x, 0.0, x) @ torch.ones(3, 3)


def test_nan_is_among_the_inputs(tmp_path: Path) -> None:
    """TVM's own build drops it, and is not compared with."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(Scrubbed(), (torch.ones(4, 3),))
        torch.export.save(program, str(tmp_path / "scrubbed.pt2"))
    done = optimized(tmp_path / "scrubbed.pt2")
    assert (done.policies[-1].max_rel_error or 0) < 1e-5
    assert any(note.startswith("TVM's own build differs") for note in done.notes)
