"""The model of a run of ``bench`` as peers read it: ONNX files, and TVM's own build."""

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

    Attributes
    ----------
    inputs
        The inputs by name.
    lanes
        Threads to run on.
    onnx
        The model as it is written; None if nobody reads it.
    simplified
        What is simplified of it, which is written in PyTorch; None if nobody reads it.
    tvm
        TVM's own build of it with its weights, a ``.so``; None if nobody reads it.
    """

    inputs: Mapping[str, Array]
    lanes: int
    onnx: Path | None
    simplified: Path | None
    tvm: Path | None
    gpu: bool = False
    precision: str = "float32"

    def onnx_file(self, folder: Path) -> Path:
        """The ONNX file; the folder stays empty."""
        assert self.onnx is not None
        return self.onnx

    def torch_module(self) -> Any:
        """The model as one would write it in PyTorch."""
        import onnx

        from runtime_ext.peers.torch_import.network import torch_network

        assert self.simplified is not None
        return torch_network(onnx.load(self.simplified))

    def tvm_library(self) -> TvmLibrary:
        """TVM's own build."""
        from runtime_ext.peers.tvm_build import tuned_library

        assert self.tvm is not None
        return tuned_library(self.tvm)
