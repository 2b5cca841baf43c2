"""Every command reads a program of torch.export."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from tests.cli.command_line import tvm_ios, tvm_ios_briefly, tvm_ios_process

torch = pytest.importorskip("torch")


@pytest.mark.slow
def test_commands_read_programs(tmp_path: Path) -> None:
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten())
    path = tmp_path / "small.pt2"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        batch = ({0: torch.export.Dim("batch")},)
        data = torch.ones(2, 3, 8, 8)
        torch.export.save(torch.export.export(module, (data,), dynamic_shapes=batch), str(path))
    assert tvm_ios("stats", path, "--json").json["total"]["operators"] == 1
    shape = ["--shape", "input:2,3,8,8"]
    assert tvm_ios("stats", path, *shape, "--json").json["total"]["operators"] == 1
    assert tvm_ios("schedule", path, *shape, "--json").json["model"] == "small"
    out = tmp_path / "out"
    limits = ["--lanes", 1, "--policy", "sequential", "--fallback", "none", "--json"]
    done = tvm_ios_briefly("optimize", path, *shape, *limits, "-o", out).json
    assert max(row["max_rel_error"] for row in done["policies"]) <= 1e-5
    result = tvm_ios("run", out, "--repeat", 1, "--json").json
    assert result["outputs"]["output0"]["shape"] == [2, 144]
    if importlib.util.find_spec("onnxruntime"):
        few = ["--rounds", 6, "--processes", 1, "--lanes", 1, "--policy", "sequential", "--json"]
        peers = ["onnxruntime", "torch"]
        found = tvm_ios_briefly("bench", path, *shape, "--against", ",".join(peers), *few).json
        assert list(found["networks"][0]["taken"]) == peers


class Inverse(torch.nn.Module):
    """Solves equations, which ONNX cannot."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.inv(x)


@pytest.mark.slow
def test_nothing_is_said_after_the_refusal_of_a_program(tmp_path: Path) -> None:
    path = tmp_path / "inverse.pt2"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(torch.export.export(Inverse(), (torch.eye(3),)), str(path))
    tvm_ios_process("optimize", path, "-o", tmp_path / "out").refuses(path, "linalg_inv_ex")


def test_without_torch_one_is_told_what_to_install(tmp_path: Path) -> None:
    path = tmp_path / "m.pt2"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(torch.nn.ReLU(), (torch.ones(2),))
        torch.export.save(program, str(path))
    hidden = "import sys; sys.modules['torch'] = None\n"
    script = hidden + "from tvm_ios.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script, "stats", str(path)], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"tvm-ios: {path} needs torch: pip install 'tvm-ios[torch]'"
    )


def test_a_program_with_dynamic_dimensions_brings_its_ranges(tmp_path: Path) -> None:
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    module = torch.nn.Sequential(torch.nn.Embedding(50, 16), layer).eval()
    path = tmp_path / "encoder.pt2"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dimensions = torch.export.Dim("batch", max=8), torch.export.Dim("length", min=2, max=32)
        words = torch.ones(3, 7, dtype=torch.int64)
        shapes = (dict(enumerate(dimensions)),)
        torch.export.save(torch.export.export(module, (words,), dynamic_shapes=shapes), str(path))
    limits = ("--lanes", 1, "--time-limit", 1)
    made = tvm_ios("optimize", path, *limits, "-o", tmp_path / "out")
    assert made.code == 0, made.stderr
    assert "--shape input:1..8,2..32" in made.stderr
    assert "compared with PyTorch" in made.stdout
    ran = tvm_ios("run", tmp_path / "out", "--shape", "input:5,9", "--json").json
    assert ran["outputs"]["output0"]["shape"] == [5, 9, 16]
    outside = tvm_ios("optimize", path, "--shape", "input:1..9,2..32", "-o", tmp_path / "other")
    outside.refuses("exported", "8", "9")
