"""Files of torch.export that would run code if they were loaded as torch loads them."""

from __future__ import annotations

import json
import os
import pickle
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.refusals import refused
from tvm_ios.errors import ModelError
from tvm_ios.models.torch_archive import read_torch_archive

torch = pytest.importorskip("torch")

Records = dict[str, bytes]


class Plain(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))
        self.constant = torch.arange(3.0)

    def forward(self, x: Any) -> Any:
        return x * self.weight + self.constant


class Touch:
    """Unpickled, it leaves a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "m.pt2"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        batch = {"x": {0: torch.export.Dim("batch")}}
        program = torch.export.export(Plain(), (torch.ones(2, 3),), dynamic_shapes=batch)
        torch.export.save(program, str(path))
    return path


def rewrite(path: Path, change: Callable[[Records], None]) -> None:
    with zipfile.ZipFile(path) as archive:
        records = {name: archive.read(name) for name in archive.namelist()}
    (prefix,) = {name.partition("/")[0] for name in records}
    inner = {name.removeprefix(f"{prefix}/"): content for name, content in records.items()}
    change(inner)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in inner.items():
            archive.writestr(f"{prefix}/{name}", content)


def edit(name: str, change: Callable[[Any], None]) -> Callable[[Records], None]:
    def apply(records: Records) -> None:
        data = json.loads(records[name])
        change(data)
        records[name] = json.dumps(data).encode()

    return apply


def test_the_example_inputs_are_not_unpickled(file: Path, tmp_path: Path) -> None:
    """Torch itself unpickles them, whatever they are."""
    touched = tmp_path / "touched"
    name = "data/sample_inputs/model.pt"
    rewrite(file, lambda records: records.update({name: pickle.dumps(Touch(touched))}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(Exception):  # noqa: B017, PT011  (what the pickle gives is no input)
            torch.export.load(str(file))
    assert touched.exists(), "this file proves nothing if torch does not run it"
    touched.rmdir()
    clean = tmp_path / "clean.pt2"
    clean.write_bytes(read_torch_archive(file).content)
    program = torch.export.load(str(clean))
    assert not touched.exists()
    assert torch.equal(program.module()(torch.ones(4, 3)), Plain()(torch.ones(4, 3)))


def _pickled(data: Any) -> None:
    next(iter(data["config"].values()))["use_pickle"] = True


def _object(prefix: str) -> Callable[[Any], None]:
    def change(data: Any) -> None:
        next(iter(data["config"].values()))["path_name"] = f"{prefix}0"

    return change


def _target(target: str) -> Callable[[Any], None]:
    def change(data: Any) -> None:
        data["graph_module"]["graph"]["nodes"][0]["target"] = target

    return change


def _expression(text: str) -> Callable[[Any], None]:
    def change(data: Any) -> None:
        values = data["graph_module"]["graph"]["tensor_values"]["x"]
        values["sizes"][0] = {"as_expr": {"expr_str": text, "hint": None}}

    return change


def _returns(kind: str, context: str) -> Callable[[Any], None]:
    def change(data: Any) -> None:
        signature = data["graph_module"]["module_call_graph"][0]["signature"]
        version, spec = json.loads(signature["out_spec"])
        signature["out_spec"] = json.dumps([version, {**spec, "type": kind, "context": context}])

    return change


def _renamed(data: Any) -> None:
    text = json.dumps(data["graph_module"])
    data["graph_module"] = json.loads(text.replace('"mul"', '"mul = 1; import os; os.abort() #"'))


def _arguments(names: list[str]) -> Callable[[Any], None]:
    def change(data: Any) -> None:
        signature = data["graph_module"]["module_call_graph"][0]["signature"]
        signature["forward_arg_names"] = names

    return change


WEIGHTS = "data/weights/model_weights_config.json"
CONSTANTS = "data/constants/model_constants_config.json"
MODEL = "models/model.json"
HOSTILE: dict[str, tuple[Callable[[Records], None], list[str]]] = {
    "pickled-weight": (edit(WEIGHTS, _pickled), ["'weight'", "weights", "pickled"]),
    "pickled-constant": (edit(CONSTANTS, _pickled), ["constants", "pickled"]),
    "opaque": (edit(CONSTANTS, _object("opaque_obj_")), ["object"]),
    "custom": (edit(CONSTANTS, _object("custom_obj_")), ["object"]),
    "outside": (edit(WEIGHTS, _object("../constants/tensor_")), ["object"]),
    "legacy": (lambda records: records.pop(WEIGHTS) and None, ["weights", "pickled"]),
    "system": (
        edit(MODEL, _target("torch.serialization.os.system")),
        ["torch.serialization.os.system"],
    ),
    "loop": (edit(MODEL, _target("torch.ops.higher_order.cond")), ["cond", "torch.where"]),
    "file": (edit(MODEL, _target("torch.ops.aten.from_file.default")), ["file"]),
    "evaluated": (
        edit(MODEL, _expression("__import__('os').mkdir('x')")),
        ["__import__(", "arithmetic"],
    ),
    "power": (edit(MODEL, _expression("9**9**9**9")), ["arithmetic"]),
    "large-power": (edit(MODEL, _expression("Pow(Integer(9), Integer(99999999))")), ["arithmetic"]),
    "power-of-powers": (
        edit(MODEL, _expression("Pow(Add(Pow(Integer(9), Integer(3)), 1), Integer(3))")),
        ["arithmetic"],
    ),
    "class": (edit(MODEL, _returns("os.PathLike", "null")), ["os.PathLike"]),
    "enum": (
        edit(MODEL, _returns("builtins.dict", '{"__enum__": true, "fqn": "os"}')),
        ["builtins.dict"],
    ),
    "source": (edit(MODEL, _renamed), ["'mul = 1; import os; "]),
    "argument": (edit(MODEL, _arguments(["x=exit()"])), ["'x=exit()'"]),
    "range": (
        edit(MODEL, lambda data: data["range_constraints"].update({"exit()": {}})),
        ["'exit()'", "arithmetic"],
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_what_would_run_is_refused(case: str, file: Path) -> None:
    change, named = HOSTILE[case]
    rewrite(file, change)
    with refused(ModelError, *named):
        read_torch_archive(file)


def test_what_only_describes_is_left_out(file: Path) -> None:
    def describe(data: Any) -> None:
        data["guards_code"] = ["__import__('os').abort()"]
        for node in data["graph_module"]["graph"]["nodes"]:
            node["metadata"] = {"source_fn_stack": "x,torch.os.abort"}

    rewrite(file, edit(MODEL, describe))
    archive = read_torch_archive(file)
    assert archive.conditions == ("__import__('os').abort()",)
    assert b"abort" not in archive.content


NO_PROGRAM: dict[str, tuple[Callable[[Records], None], str]] = {
    "no-model": (lambda r: r.pop(MODEL) and None, "torch.export"),
    "not-json": (lambda r: r.update({MODEL: b"{"}), "JSONDecodeError"),
    "other-json": (lambda r: r.update({MODEL: b"[]"}), "m.pt2"),
    "no-weight": (lambda r: r.pop("data/weights/weight_0") and None, "KeyError"),
    "big-endian": (lambda r: r.update({"byteorder": b"big"}), "big-endian"),
    "old": (
        lambda r: r.update({"serialized_exported_program.json": b""}),
        "old torch",
    ),
}


@pytest.mark.parametrize("case", NO_PROGRAM)
def test_archives_of_something_else(case: str, file: Path) -> None:
    change, named = NO_PROGRAM[case]
    rewrite(file, change)
    with refused(ModelError, named):
        read_torch_archive(file)


@pytest.mark.parametrize("content", [b"", b"text", bytes(range(256)) * 9])
def test_files_that_are_no_archives(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "m.pt2").write_bytes(content)
    with refused(ModelError, "m.pt2"):
        read_torch_archive(tmp_path / "m.pt2")


def test_a_truncated_archive(file: Path) -> None:
    whole = file.read_bytes()
    for size in range(0, len(whole), len(whole) // 7):
        file.write_bytes(whole[:size])
        # What is left may end in an archive inside the archive.
        with refused(ModelError, file):
            read_torch_archive(file)
