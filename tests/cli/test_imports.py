"""Commands do not wait for torch, which TVM would import, and can import it all the same."""

import subprocess
import sys
from pathlib import Path

import onnx
from onnx import TensorProto, helper

X, Y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy")

_BOTH = """
import sys
from runtime_ext.torch_later import import_torch_later

import_torch_later()
import tvm

assert "torch" not in sys.modules
import torch

assert torch.IS_HERE
"""


def test_torch_is_imported_by_who_asks_for_it_and_not_by_tvm(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("IS_HERE = True\n")
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}){_BOTH}"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


_REFUSED = """
import sys
from tvm_ios.errors import UserError
from tvm_ios.models.load import load_graph

try:
    load_graph(sys.argv[1])
except UserError:
    print(*sys.modules.keys() & {"onnx_ir", "onnxscript", "sympy", "tvm", "torch"})
"""


def test_what_is_no_model_is_refused_before_what_rewrites_models(tmp_path: Path) -> None:
    (tmp_path / "bad.onnx").write_text("no model")
    for name in (str(tmp_path / "bad.onnx"), "squeezenetty"):
        command = [sys.executable, "-c", _REFUSED, name]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ended.stdout == "\n", ended.stderr


_COMMANDS = """
import sys
from typer.testing import CliRunner
from tvm_ios.cli import app

for command in sys.argv[1:]:
    for model in ("missing.onnx", "bad.onnx", "unknown.onnx"):
        ended = CliRunner().invoke(app, [*command.split(), model])
        assert ended.exit_code == 1 and "tvm-ios: " in ended.stderr, (command, ended.output)
        assert "tvm" not in sys.modules, command
"""


def test_commands_that_measure_refuse_what_is_no_model_before_tvm_is_imported(
    tmp_path: Path,
) -> None:
    (tmp_path / "bad.onnx").write_text("no model")
    unknown = helper.make_graph([helper.make_node("Unknown", ["x"], ["y"])], "g", [X], [Y])
    onnx.save(helper.make_model(unknown), tmp_path / "unknown.onnx")
    commands = (
        "optimize",
        "optimize --cost v100",
        "optimize --objective throughput",
        "optimize --batch 1,2",
        "schedule --cost measured",
        "bench",
        "bundle",
        "tune --log log",
    )
    command = [sys.executable, "-c", _COMMANDS, *commands]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
