"""TVM's own build of a model as a peer: on the virtual machine, or Relay's on the graph executor.

The build of a bundle needs TVM's runtime libraries, of the package ``apache-tvm``, but neither its
Python files nor its compiler; so a machine may have just these.
"""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runtime_ext.execution.bound_model import BoundModel, bind_library
from runtime_ext.peers.peer import PeerModel
from tvm_ios.errors import UserError
from tvm_ios.files.array_files import Array

#: DLPack's numbers of devices, and the VM's of its pooled allocator.
_CPU, _CUDA = 1, 2
_POOLED = 2


def start(network: PeerModel) -> BoundModel:
    """Load a compiled module; TVM fixes its number of threads when its runtime is loaded.

    Raise UserError if there is no such build or TVM's runtime is missing, ImportError if tvm-ffi or
    torch is missing, which a library without weights needs.
    """
    library = network.tvm_library()
    if library.weights is None:
        return bind_library(library.path)(network.inputs)
    return _start_by_runtime(library.path, network, library.weights)


def start_tuned(network: PeerModel) -> BoundModel:
    """Load a module that was compiled with the schedules of a tuning log.

    Raise UserError if none of its functions was in the log; otherwise as :func:`start`.
    """
    library = network.tvm_library()
    if library.functions is None:
        raise UserError("TVM's own build of the model was made without a tuning log")
    if not library.tuned:
        raise UserError(
            f"the tuning log has none of the {library.functions} functions that TVM makes of the "
            "model: `tvm-ios tune` tunes our kernels, MetaScheduleTuneIRMod of TVM those"
        )
    return start(network)


def _start_by_runtime(path: Path, network: PeerModel, weights: Sequence[Array]) -> BoundModel:
    """Load a compiled module by TVM's runtime libraries.

    On a GPU TVM captures a CUDA graph of all that reads no input. Inputs and outputs stay on the
    device.
    """
    import torch
    import tvm_ffi

    gpu = network.gpu
    _load_runtime("libtvm_runtime.so", *(("libtvm_runtime_cuda.so",) if gpu else ()))
    module: Any = tvm_ffi.load_module(str(path))
    machine: Any = module["vm_load_executable"]()
    device = (_CUDA, 0, _POOLED) if gpu else ()
    machine["vm_initialization"](*device, _CPU, 0, _POOLED)
    main = machine["main"]
    # Torch's memory has the alignment that TVM's kernels expect.
    values = map(torch.tensor, (*network.inputs.values(), *weights))
    tensors = [value.to("cuda" if gpu else "cpu").contiguous() for value in values]
    arguments = [tvm_ffi.from_dlpack(value) for value in tensors]

    def run() -> Any:
        result = main(*arguments)
        if gpu:
            torch.cuda.synchronize()
        return result

    def outputs(result: Any) -> list[Array]:
        parts = [result] if isinstance(result, tvm_ffi.Tensor) else list(result)
        return [torch.from_dlpack(part).cpu().numpy() for part in parts]

    return BoundModel(run, outputs)


def _load_runtime(*names: str) -> None:
    package = importlib.util.find_spec("tvm")
    if package is None or package.submodule_search_locations is None:
        raise UserError("TVM's runtime libraries are not here: install apache-tvm")
    folders = [Path(folder) / "lib" for folder in package.submodule_search_locations]
    for name in names:
        path = next((f / name for f in folders if (f / name).exists()), None)
        if path is None:
            raise UserError(f"this apache-tvm has no {name}")
        try:
            ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise UserError(f"{path} cannot be loaded: {error}") from error
