"""The model of a run of ``bench`` in the files that peers read: ONNX, and TVM's own build."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runtime_ext.peers.peer import TvmLibrary
from tvm_ios.files.array_files import Array


@dataclass(frozen=True)
class ModelFiles:
    """A model (:class:`runtime_ext.peers.peer.PeerModel`) on this machine's CPU.

    ``onnx`` is its file as it is written, ``simplified`` the simplified one, which is rewritten in
    PyTorch, and ``tvm`` the ``.so`` of TVM's own build with its weights. None if no peer reads it.
    ``is_open`` is whether its dimensions stay open.
    """

    inputs: Mapping[str, Array]
    lanes: int
    onnx: Path | None
    simplified: Path | None
    tvm: Path | None
    gpu: bool = False
    precision: str = "float32"
    is_open: bool = False

    def onnx_file(self, folder: Path) -> Path:
        """Return the ONNX file; nothing is written to the folder."""
        assert self.onnx is not None
        return self.onnx

    def torch_module(self) -> Any:
        """Return the model as one would write it in PyTorch."""
        import onnx

        from runtime_ext.peers.torch_import.network import torch_network

        assert self.simplified is not None
        return torch_network(onnx.load(self.simplified))

    def tvm_library(self) -> TvmLibrary:
        """Return TVM's own build."""
        from runtime_ext.peers.tvm_build import tuned_library

        assert self.tvm is not None
        return tuned_library(self.tvm)
