"""The model that a user names, and the options of reading it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any

from tvm_ios import zoo
from tvm_ios.errors import ModelError, nearest
from tvm_ios.files.json_text import JsonError, json_object
from tvm_ios.models.bare_graph import is_bare_graph
from tvm_ios.shapes.input_shapes import Shapes


class Form(Enum):
    """The kinds of model that a user can name."""

    ZOO = "a network of the zoo"
    ONNX = "an .onnx file"
    TORCH = "a .pt2 file of torch.export"
    MODULE = "a TVM module saved as JSON"
    GRAPH = "a graph .json"
    BARE = "a bare block graph .json"
    TOGETHER = "several models together"


@dataclass(frozen=True)
class ModelSource:
    """A model as a user names it, and what is to be changed as it is read.

    Whatever reads models takes one, or just the name: ``ModelSource("model.onnx", batch=8)`` or
    ``"model.onnx"``.

    Attributes
    ----------
    model
        The name of a network of the zoo, or a file: ``.onnx``, ``.pt2``, or a module or a graph
        saved as ``.json``.
    random_weights
        The seed of the weights that replace constant-valued ones, or None to keep them; a network
        of the zoo is built with this seed.
    shapes
        The shapes of inputs with dynamic dimensions, by name.
    batch
        Another leading extent of all inputs, of ONNX models.
    dialect
        The dialect of TVM's IR that it becomes, ``relax`` or ``relay``; only ONNX models can be
        had in both.
    beside
        Other models, which run together with it in one program: ONNX files, or of the zoo. Weights
        and batch are those of each, shapes those of inputs as they are named together.
    random_seed
        The seed of the constants that stand for the random numbers of an ONNX model, or None.
    cells
        Whether recurrent layers of ONNX models become a cell for each step, as for GPUs. With
        Relay they always do.
    written
        The ``onnx.ModelProto`` that is taken instead of the file that ``model`` names, or None.
    """

    model: str
    random_weights: int | None = None
    shapes: Shapes = field(default_factory=dict[str, tuple[int, ...]])
    batch: int | None = None
    dialect: str = "relax"
    beside: tuple[str, ...] = ()
    random_seed: int | None = None
    cells: bool = False
    written: Any = field(default=None, repr=False, compare=False)

    @staticmethod
    def together(models: Sequence[str], **how: Any) -> ModelSource:
        """Return one source of several models that run together; ``how`` gives other fields.

        Raise ModelError if two have the same name, or one is not an ONNX model.
        """
        source = ModelSource(models[0], beside=tuple(models[1:]), **how)
        names = [part.name for part in source.parts]
        if twin := next((name for name in names if names.count(name) > 1), None):
            raise ModelError(
                f"two of the models are named {twin}, by which their inputs are told apart: "
                "rename a file"
            )
        if source.beside:
            for part in source.parts:
                part.require_onnx("run together with others")
        return source

    @property
    def parts(self) -> tuple[ModelSource, ...]:
        """Each model by itself, without shapes if there are several."""
        if not self.beside:
            return (self,)
        models = (self.model, *self.beside)
        each = replace(self, beside=(), shapes={}, random_seed=None)
        return tuple(replace(each, model=m) for m in models)

    def require_onnx(self, what: str) -> None:
        """Require an ONNX model, or raise a ModelError that says what only those can do."""
        if self.form not in (Form.ZOO, Form.ONNX):
            raise ModelError(
                f"{self.model} is {self.form.value}: only ONNX models and those of the zoo can "
                f"{what}"
            )

    @staticmethod
    def of(model: AnyModel) -> ModelSource:
        """Return a source as it is, or make one of a name or a path."""
        return model if isinstance(model, ModelSource) else ModelSource(str(model))

    @property
    def path(self) -> Path:
        """Path of the model's file, if it is one."""
        return Path(self.model)

    @property
    def name(self) -> str:
        """Name in the zoo, or the file's name without suffix; those of several joined by ``+``."""
        if self.beside:
            return "+".join(part.name for part in self.parts)
        return self.model if self.form is Form.ZOO else self.path.stem

    @property
    def needs_tvm(self) -> bool:
        """Whether only TVM can read the model, because of its form or dialect."""
        return self.dialect != "relax" or self.form is Form.MODULE

    @property
    def is_onnx(self) -> bool:
        """Whether the model is read as ONNX."""
        return self.form in (Form.ZOO, Form.ONNX, Form.TORCH, Form.TOGETHER)

    @cached_property
    def form(self) -> Form:
        """The model's form, by its name, or by its content for JSON files.

        Raise ModelError if it is nothing that can be read.
        """
        if self.beside:
            return Form.TOGETHER
        if self.model in zoo.names():
            return Form.ZOO
        if self.path.suffix == ".onnx":
            return Form.ONNX
        if self.path.suffix == ".pt2":
            return Form.TORCH
        if self.path.suffix == ".json":
            data = read_json(self.path)
            if is_bare_graph(data):
                return Form.BARE
            return Form.MODULE if "nodes" in data else Form.GRAPH
        raise ModelError(
            f"{self.model!r} is neither a model file (.onnx, .pt2, .json) nor one of the zoo, "
            f"which `tvm-ios models` lists{nearest(self.model, zoo.names())}"
        )


#: A model by itself, or how it is to be read.
AnyModel = str | Path | ModelSource


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file; raise ModelError if it holds none."""
    try:
        return json_object(path.read_bytes())
    except JsonError as error:
        raise ModelError(f"{path} is not a graph: {error}") from error
