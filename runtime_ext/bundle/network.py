"""The network of a bundle in the form that peers read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runtime_ext.bundle.contents import MODEL, OPERATORS, TVM_LIBRARY, Bundle
from runtime_ext.peers.peer import PeerError, TvmLibrary
from tvm_ios.files.array_files import Array
from tvm_ios.files.json_text import json_object
from tvm_ios.graph.op_graph import OpGraph


@dataclass(frozen=True)
class BundledNetwork:
    """A bundle's network as a :class:`runtime_ext.peers.peer.PeerModel`."""

    bundle: Bundle
    lanes: int

    @property
    def inputs(self) -> Mapping[str, Array]:
        """Reference inputs, by name."""
        return self.bundle.reference_inputs

    @property
    def gpu(self) -> bool:
        """True if the bundle is for a GPU."""
        return self.bundle.about["kind"] == "cuda"

    @property
    def precision(self) -> str:
        """The precision in which the bundle's programs compute."""
        return self.bundle.about["precision"]

    @property
    def is_open(self) -> bool:
        """False: a bundle's inputs have one shape."""
        return False

    def onnx_file(self, folder: Path) -> Path:
        """Return the bundle's ONNX file, or else one that PyTorch exports into a folder."""
        if (self.bundle.folder / MODEL).exists():
            return self.bundle.folder / MODEL
        import torch

        module, path = self.torch_module(), folder / "network.onnx"
        torch.onnx.export(
            module,
            tuple(torch.from_numpy(self.inputs[name]) for name in module.input_names),
            str(path),
            input_names=list(module.input_names),
            dynamo=True,
            optimize=True,
            verbose=False,
        )
        return path

    def torch_module(self) -> Any:
        """Return a PyTorch module with a function for each operator."""
        from runtime_ext.peers.torch_import.graph_network import graph_network

        data = json_object((self.bundle.folder / OPERATORS).read_bytes())
        constants = {int(t): self.bundle.weights[key] for t, key in data["constants"]}
        module = graph_network(OpGraph.from_json(data["graph"]), constants)
        return module.half() if self.precision == "float16" else module

    def tvm_library(self) -> TvmLibrary:
        """Return TVM's own build with the bundle's weights as arguments."""
        if "tvm" not in self.bundle.about:
            raise PeerError("the bundle has no build of TVM's own: make it with --with-tvm")
        weights = [self.bundle.weights[key] for key in self.bundle.about["tvm"]]
        return TvmLibrary(self.bundle.folder / TVM_LIBRARY, weights)
