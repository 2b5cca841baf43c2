"""What commands that run executables say to those who give them a model."""

from __future__ import annotations

from pathlib import Path

from tvm_ios import zoo
from tvm_ios.errors import UserError

_MODELS = (".onnx", ".pt2", ".json")


def refuse_models(path: Path) -> None:
    """Tell how an executable is made of a model.

    Raises
    ------
    UserError
        If the path is one of a model, or the name of one of the zoo and of nothing here.
    """
    if path.suffix in _MODELS or (str(path) in zoo.names() and not path.exists()):
        made = f"{path.stem}.ios"
        raise UserError(
            f"{path} is a model: `tvm-ios optimize {path}` makes the executable {made}, which runs"
        )
