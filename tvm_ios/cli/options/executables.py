"""Checks of paths that commands which show or run executables are given."""

from __future__ import annotations

import sys
from pathlib import Path

from tvm_ios.cli.options.completion import MODEL_SUFFIXES
from tvm_ios.errors import UserError


def refuse_models(path: Path) -> None:
    """Require that a path is no model file and no zoo name, or raise UserError.

    The error says how an executable is made of the model.
    """
    if path.suffix in MODEL_SUFFIXES or (not path.exists() and _is_of_the_zoo(path)):
        raise UserError(
            f"{path} is a model: `tvm-ios optimize {path}` makes the executable {path.stem}.ios, "
            "which runs"
        )


def _is_of_the_zoo(path: Path) -> bool:
    # The zoo needs ONNX, and commands that run executables do not.
    from tvm_ios import zoo

    return str(path) in zoo.names()


def program_at(path: Path) -> Path:
    """Return the executable at a path; of a deployment, the entry that fits this machine.

    Of several that fit, it is the entry of the smallest batch, as ``run`` takes it without inputs;
    its name is printed on standard error. Raise UserError if the path is a model, or no entry fits.
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
