"""Read the archive of a ``.pt2`` file, reduced to what loads without running its code.

``torch.export.load`` trusts its file: it unpickles sample inputs, and weights and constants that
say so, looks operators up by any path of attributes, evaluates expressions of dimensions as
Python, imports the classes that inputs and outputs are packed into, and writes the names of values
into Python source that it runs. A program needs none of this: numbers, operators of ATen,
containers and plain names. Everything else is left out or refused here, before torch sees the
file.
"""

from __future__ import annotations

import ast
import io
import json
import math
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from tvm_ios.errors import ModelError
from tvm_ios.onnx.file import LARGEST

_OPERATORS = re.compile(r"torch\.ops\.(aten|prims)\.[A-Za-z_0-9]+\.[A-Za-z_0-9]+")
#: Arithmetic on dimensions.
_ARITHMETIC = re.compile(r"_operator\.(getitem|add|sub|mul|floordiv|mod|neg|eq|ne|lt|le|gt|ge)")
_FILES = re.compile(r"torch\.ops\.aten\.from_file\b")
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_PATH = re.compile(r"[\w.]*", re.ASCII)
_SYMBOL = re.compile(r"[a-z]{1,3}[0-9]{1,6}")
#: An expression is evaluated as Python, so it may say nothing but this.
_TOKENS = re.compile(r"[A-Za-z_]\w*|'[a-z]{1,3}[0-9]{1,6}'|[0-9]{1,12}|\*\*|[-+*/%(),= ]")
_WORDS = {"Symbol", "Integer", "Rational", "Add", "Mul", "Max", "Min", "Mod", "PythonMod"} | {
    "Pow",
    *("FloorDiv", "CleanDiv", "CeilDiv", "positive", "negative", "nonnegative"),
    *("integer", "real", "True", "False"),
    # Assertions of a program about extents that depend on the data.
    *("LessThan", "StrictLessThan", "GreaterThan", "StrictGreaterThan", "Equality", "Unequality"),
}
_CONTAINERS = ("builtins.tuple", "builtins.list", "builtins.dict", "collections.OrderedDict")
#: Windows of padded images are said at length.
_LONGEST = 10_000
#: Arguments that stand for something other than numbers and tensors.
_CALLABLE = ("as_custom_obj", "as_graph", "as_operator")


@dataclass(frozen=True)
class TorchArchive:
    """A program of torch.export whose loading runs no code of the file's.

    ``content`` is an archive for ``torch.export.load``. ``outputs`` names the outputs by the keys
    of the returned dictionaries, else by position. ``conditions`` are those under
    which the program holds, as torch writes them.
    """

    content: bytes
    outputs: tuple[str, ...]
    conditions: tuple[str, ...]


def read_torch_archive(path: Path) -> TorchArchive:
    """Read a ``.pt2`` file.

    Raise ModelError if it is of another format, or needs anything unpickled, imported or evaluated.
    """
    if path.is_dir():
        raise ModelError(f"{path} is not a file of torch.export: it is a folder")
    try:
        with zipfile.ZipFile(path) as archive:
            return _Reader(path, archive).read()
    except (ModelError, FileNotFoundError):
        raise
    except zipfile.BadZipFile as error:
        raise ModelError(
            f"{path} is not a file of torch.export: it is truncated, or of another format"
        ) from error
    except Exception as error:  # any of its numbers may be something else
        raise ModelError(
            f"{path} is not a file of torch.export: it lacks or misstates {error!r}"
        ) from error


class _Reader:
    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self.path = path
        self.archive = archive
        self.names: dict[str, zipfile.ZipInfo] = {}
        total = 0
        for info in archive.infolist():
            if info.compress_type != zipfile.ZIP_STORED:
                raise ModelError(f"{path} is compressed; save it by torch.export.save")
            total += info.file_size
            # Records lie in one folder, which is named after the file that was saved.
            self.names[info.filename.partition("/")[2] or info.filename] = info
        if total > LARGEST:
            raise ModelError(f"{path} holds {total / 2**30:.1f} GiB; at most 2 are read")

    def read(self) -> TorchArchive:
        if "serialized_exported_program.json" in self.names:
            raise ModelError(
                f"{self.path} was saved by an old torch, which pickles the weights, and pickles "
                "are not loaded: save it again with torch 2.9 or newer"
            )
        if "models/model.json" not in self.names:
            raise ModelError(
                f"{self.path} holds no program of torch.export (models/model.json): "
                "save one by torch.export.save"
            )
        if self._bytes("byteorder") != b"little":
            raise ModelError(f"{self.path} was saved on a big-endian machine; save it on another")
        model = self._json("models/model.json")
        conditions = tuple(map(str, model.get("guards_code") or ()))
        outputs = self._clean(model)
        records = {
            "archive_format": b"pt2",
            "archive_version": self._bytes("archive_version"),
            ".data/version": self._bytes(".data/version"),
            "byteorder": b"little",
            "models/model.json": json.dumps(model).encode(),
            # The example that the program was traced with is a pickle; nothing here needs it.
            "data/sample_inputs/model.pt": b"",
            **self._tensors("weights", "weight_"),
            **self._tensors("constants", "tensor_"),
        }
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as clean:
            for name, content in records.items():
                clean.writestr(f"model/{name}", content)
        return TorchArchive(stream.getvalue(), outputs, conditions)

    def _bytes(self, name: str) -> bytes:
        return self.archive.read(self.names[name])

    def _json(self, name: str) -> dict[str, Any]:
        return cast(dict[str, Any], json.loads(self._bytes(name)))

    def _tensors(self, kind: str, prefix: str) -> dict[str, bytes]:
        """Return the records of weights or constants; refuse pickled ones."""
        name = f"data/{kind}/model_{kind}_config.json"
        if name not in self.names:
            raise self._unsafe(f"its {kind} are pickled")
        config = self._json(name)
        records = {name: json.dumps(config).encode()}
        for tensor, entry in config["config"].items():
            record, meta = entry["path_name"], entry["tensor_meta"]
            if not _PATH.fullmatch(tensor):
                raise self._unsafe(f"{tensor[:60]!r} is no name of a weight")
            if entry["use_pickle"] or meta is None:
                raise self._unsafe(f"{tensor!r} of its {kind} is pickled")
            if not re.fullmatch(prefix + "[0-9]+", record):
                raise self._unsafe(f"{tensor!r} of its {kind} is an object, not a tensor")
            content = self._bytes(f"data/{kind}/{record}")
            count = math.prod(size["as_int"] for size in meta["sizes"])
            if count < 0 or count * 8 > LARGEST or (count and not content):
                raise ModelError(f"{self.path} misstates the size of {tensor!r} of its {kind}")
            records[f"data/{kind}/{record}"] = content
        return records

    def _clean(self, model: dict[str, Any]) -> tuple[str, ...]:
        """Remove what may run code from a program, refuse what must; return the outputs' names."""
        program = model["graph_module"]
        for node in program["graph"]["nodes"]:
            target = node["target"]
            if not (_OPERATORS.fullmatch(target) or _ARITHMETIC.fullmatch(target)):
                remedy = "export the model without custom operators"
                if target.startswith("torch.ops.higher_order."):
                    remedy = (
                        "export the model without control flow, with both branches computed and "
                        "torch.where between them, or with loops written out"
                    )
                raise ModelError(f"operator {target} of {self.path} is not one of ATen: {remedy}")
            if _FILES.match(target):
                raise self._unsafe(f"operator {target} reads a file")
            node["metadata"] = {}
        for key, value in _entries(model):
            if key in _CALLABLE and value is not None:
                raise self._unsafe(f"it holds an object ({key.removeprefix('as_')})")
            if key == "expr_str":
                self._require_expression(value)
            if key == "name" and value:
                self._require_name(value)
            if key.endswith("_name") and value is not None and not _PATH.fullmatch(value):
                raise self._unsafe(f"{value[:60]!r} is no name of a weight")
            if key.endswith("_values"):
                for name in cast(dict[str, Any], value):
                    self._require_name(name)
        for symbol in model["range_constraints"]:
            self._require_expression(symbol)
        root = program["module_call_graph"][0]
        signature = root["signature"]
        specs = [json.loads(signature[key])[1] for key in ("in_spec", "out_spec")]
        for spec in specs:
            self._require_containers(spec)
        # The second is of the arguments by name.
        for name in (*(signature["forward_arg_names"] or ()), *_keys(specs[0]["children_spec"][1])):
            self._require_name(name)
        root["fqn"] = ""
        model["guards_code"] = []
        program["module_call_graph"] = [root]
        program["metadata"] = {}
        program["treespec_namedtuple_fields"] = {}
        return tuple(_names(specs[1], ""))

    def _require_name(self, text: Any) -> None:
        if not _NAME.fullmatch(text):
            raise self._unsafe(f"{text[:60]!r} is no name of a value")

    def _require_expression(self, text: Any) -> None:
        tokens: list[str] = _TOKENS.findall(text)
        words = [token for token in tokens if token[0].isalpha() or token[0] == "_"]
        if (
            "".join(tokens) != text
            or len(text) > _LONGEST
            or "**" in tokens
            or not all(word in _WORDS or _SYMBOL.fullmatch(word) for word in words)
            or ("Pow" in words and not _has_small_powers(text))
        ):
            raise self._unsafe(f"{text[:60]!r} is no arithmetic on dimensions")

    def _require_containers(self, spec: dict[str, Any]) -> None:
        kind, context = spec["type"], spec["context"]
        containers = None if context is None else json.loads(context)
        plain = containers is None or (
            isinstance(containers, list)
            and all(isinstance(key, str | int) for key in cast(list[Any], containers))
        )
        if (kind is not None and kind not in _CONTAINERS) or not plain:
            raise ModelError(
                f"{self.path} takes or returns a {kind}: export a model of tensors in tuples, "
                "lists and dictionaries"
            )
        for child in spec["children_spec"]:
            self._require_containers(child)

    def _unsafe(self, what: str) -> ModelError:
        return ModelError(
            f"{self.path} is not loaded: {what}, and code in model files is never run; "
            "export a model of plain tensors"
        )


def _has_small_powers(text: str) -> bool:
    """Return whether an expression has small powers, none of powers: others take for ever."""
    for node in ast.walk(ast.parse(text, mode="eval")):
        if not isinstance(node, ast.Call) or ast.unparse(node.func) != "Pow":
            continue
        base, *powers = map(ast.unparse, node.args)
        if "Pow" in base or powers not in (["Integer(2)"], ["Integer(3)"]):
            return False
    return True


def _entries(data: Any) -> Iterator[tuple[str, Any]]:
    """Yield the key and value of every entry of every object in parsed JSON."""
    waiting = [data]
    while waiting:
        entry = waiting.pop()
        if isinstance(entry, dict):
            yield from cast(dict[str, Any], entry).items()
            waiting += cast(dict[str, Any], entry).values()
        elif isinstance(entry, list):
            waiting += cast(list[Any], entry)


def _names(spec: dict[str, Any], path: str) -> Iterator[str]:
    children = spec["children_spec"]
    if spec["type"] is None:
        yield path or "output0"
        return
    for key, child in zip(_keys(spec) or range(len(children)), children, strict=True):
        step = f"{path}.{key}" if path else key if isinstance(key, str) else f"output{key}"
        yield from _names(child, step)


def _keys(spec: dict[str, Any]) -> list[Any]:
    return json.loads(spec["context"] or "null") or []
