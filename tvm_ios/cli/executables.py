"""What commands that run executables say to those who give them a model."""

from __future__ import annotations

import sys
from pathlib import Path

from tvm_ios.cli.options.completion import MODEL_SUFFIXES
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


def program_at(path: Path) -> Path:
    """Where the executable is that a command is to show: of a deployment one of its entries.

    That is what ``run`` takes there without inputs: on this machine, for the smallest batch. Which
    one it is stands on standard error.

    Raises
    ------
    UserError
        As of :func:`refuse_models`, or if no entry of the deployment fits this machine.
    """
    from tvm_ios.deployment.registry import is_deployment

    refuse_models(path)
    if not is_deployment(path):
        return path
    from runtime_ext.deployment.choice import choose
    from runtime_ext.deployment.deployment import load_deployment
    from runtime_ext.deployment.files import entry_folder

    deployment = load_deployment(path)
    taken = choose(deployment.registry.entries, deployment.machine)
    print(f"tvm-ios: of {path} entry {taken.id} is taken", file=sys.stderr)
    return entry_folder(path, taken.id)
