"""What commands that run executables say to those who give them a model."""

from __future__ import annotations

from pathlib import Path

from tvm_ios.cli.completion import MODEL_SUFFIXES
from tvm_ios.errors import UserError


def refuse_models(path: Path) -> None:
    """Tell how an executable is made of a model.

    Raises
    ------
    UserError
        If the path is one of a model, or the name of one of the zoo and of nothing here.
    """
    if path.suffix in MODEL_SUFFIXES or (not path.exists() and _is_of_the_zoo(path)):
        raise UserError(
            f"{path} is a model: `tvm-ios optimize {path}` makes the executable {path.stem}.ios, "
            "which runs"
        )


def _is_of_the_zoo(path: Path) -> bool:
    # It needs ONNX, and commands that run executables do not.
    from tvm_ios import zoo

    return str(path) in zoo.names()
