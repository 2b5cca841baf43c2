"""Lock a deployment for one writer at a time, and remove the files of a killed writer."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from runtime_ext.deployment.files import LOCK, files_of_nobody, strangers
from tvm_ios.deployment.registry import DeploymentError, Registry, is_deployment, read_registry
from tvm_ios.files.atomic import make_folder
from tvm_ios.files.locks import locked


def require_place(folder: Path, model: str, identity: str) -> None:
    """Require, before long work, that programs of a model can be added to a folder.

    Raise DeploymentError if it has other files or a deployment of another model, or is not
    writable.
    """
    _registry(folder, model, identity)
    with writing_errors(folder):
        make_folder(folder)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise DeploymentError(f"{folder} cannot be written; choose another name")


@contextmanager
def only_writer(folder: Path, model: str, identity: str) -> Generator[Registry]:
    """Lock a deployment, and yield its registry, an empty one if there is none.

    Other writers wait. At the end files are removed that no entry of the registry needs: those of
    entries that were replaced, and those that a failed or killed writer left. ``identity`` is that
    of the model. Raise DeploymentError as :func:`require_place` does.
    """
    # Nothing is written to a folder that is someone else's.
    _registry(folder, model, identity)
    with writing_errors(folder):
        make_folder(folder)
        with locked(folder / LOCK):
            try:
                yield _registry(folder, model, identity)
            finally:
                sweep(folder)


@contextmanager
def writing_errors(folder: Path) -> Generator[None]:
    """Turn an OSError within the context into a DeploymentError of one sentence."""
    try:
        yield
    except OSError as error:
        raise DeploymentError(f"cannot write {folder}: {error.strerror or error}") from error


def sweep(folder: Path) -> None:
    """Remove the files that no entry of the registry needs; only the locked writer may call it."""
    entries = {e.id for e in read_registry(folder).entries} if is_deployment(folder) else set[str]()
    for path in files_of_nobody(folder, entries):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _registry(folder: Path, model: str, identity: str) -> Registry:
    if folder.suffix == ".tar":
        raise DeploymentError(f"{folder}: a deployment is a folder; leave out .tar")
    if is_deployment(folder):
        registry = read_registry(folder)
        if registry.identity != identity:
            raise DeploymentError(
                f"{folder} is a deployment of {registry.model}, and {model} is another model or "
                "has other weights: choose another name"
            )
        return registry
    if folder.exists() and (not folder.is_dir() or any(strangers(folder))):
        raise DeploymentError(f"{folder} exists and is not a deployment; choose another name")
    return Registry(model, identity)
