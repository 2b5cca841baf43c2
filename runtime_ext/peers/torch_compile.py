"""``torch.compile`` with its default backend, weights frozen as its manual says for inference."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch._inductor.config as inductor

from runtime_ext.peers.runner import Array, Started
from runtime_ext.peers.torch_eager import start_with


def start(path: Path, inputs: Mapping[str, Array], lanes: int) -> Started:
    """Turn an ONNX file into a compiled torch module; it compiles at the first run."""
    settings: Any = inductor
    settings.freezing = True
    return start_with(torch.compile, path, inputs, lanes)
