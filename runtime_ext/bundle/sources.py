"""The Python files that a bundle's runner needs, found by their imports."""

from __future__ import annotations

import ast
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from runtime_ext.peers.registry import peer_modules
from tvm_ios.policies.registry import policy_modules

#: The folder in which our packages lie.
_ROOT = Path(__file__).parents[2]
_PACKAGES = ("tvm_ios", "runtime_ext")


def copy_runner(folder: Path) -> None:
    """Copy the modules that a bundle's ``run.py`` needs: its main, and all policies and peers."""
    for module in ("runtime_ext.bundle.runner", *policy_modules(), *peer_modules()):
        copy_sources(module, folder)


def copy_sources(module: str, folder: Path) -> None:
    """Copy a module, and all of ours that it imports anywhere in its code, into a folder."""
    for path in _needed(module):
        copy = folder / path.relative_to(_ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)


@cache
def modules_of(file: Path) -> tuple[str, ...]:
    """Return the modules that a Python file imports anywhere in its code, ours and others'."""
    return tuple(_imports(ast.parse(file.read_text())))


def _needed(module: str) -> set[Path]:
    files: set[Path] = set()
    pending = [module]
    while pending:
        name = pending.pop()
        path = _file(name)
        if path is None or path in files:
            continue
        files.add(path)
        pending += modules_of(path)
        if "." in name:
            pending.append(name.rpartition(".")[0])
    return files


def _file(module: str) -> Path | None:
    if module.partition(".")[0] not in _PACKAGES:
        return None
    path = _ROOT / module.replace(".", "/")
    choices = (path / "__init__.py", path.with_suffix(".py"))
    return next((choice for choice in choices if choice.is_file()), None)


def _imports(node: ast.AST) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and child.module:
            yield child.module
            yield from (f"{child.module}.{alias.name}" for alias in child.names)
        yield from _imports(child)
