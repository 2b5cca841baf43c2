"""Programs of ``torch.export`` for tests; imported only where torch is there."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch


def save(module: Any, inputs: tuple[Any, ...], path: Path, **options: Any) -> str:
    """Export a module and write its program; return the path."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(module.eval(), inputs, **options)
        torch.export.save(program, str(path))
    return str(path)
