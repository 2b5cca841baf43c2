"""What commands that run executables say to those who give them a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tvm_ios.cli.options.completion import MODEL_SUFFIXES
from tvm_ios.errors import UserError

if TYPE_CHECKING:
    from runtime_ext.execution.foreign_build import ForeignBuild
    from runtime_ext.explain import Explanation


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


def refuse_foreign(path: Path, explanation: Explanation | ForeignBuild) -> Explanation:
    """The explanation of an executable of ours.

    Raises
    ------
    UserError
        If another runtime's build was saved in its place, which tells nothing of its launches.
    """
    from runtime_ext.execution.foreign_build import ForeignBuild

    if isinstance(explanation, ForeignBuild):
        raise UserError(
            f"{path} is {explanation.sentence}, and only that runtime can say what it launches: "
            "`tvm-ios optimize --fallback none` keeps a program of ours"
        )
    return explanation
