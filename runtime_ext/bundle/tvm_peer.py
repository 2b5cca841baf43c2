"""TVM's own build of a bundle's network, on TVM's virtual machine.

That needs TVM's runtime libraries, of the package ``apache-tvm``, but neither its Python files nor
its compiler; so a machine may have just these.
"""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from runtime_ext.bundle.contents import Bundle
from tvm_ios.errors import UserError

#: The library in a bundle; a name that Python does not take for a module beside ``run.py``.
LIBRARY = "tvm-build.so"
#: As DLPack counts devices.
_CPU, _CUDA = 1, 2
_POOLED = 2


def tvm_runner(
    bundle: Bundle, inputs: Sequence[Any]
) -> tuple[Callable[[], Any], Callable[[], list[Any]]]:
    """What runs the network once, and what gives the outputs of a run.

    On a GPU that includes TVM's own CUDA graph, of all that reads no input. Inputs and outputs stay
    on the device.

    Parameters
    ----------
    bundle
        Made with TVM's own build.
    inputs
        Torch's, on the CPU.

    Raises
    ------
    UserError
        If the bundle has no such build, or TVM's runtime is not here.
    ImportError
        If tvm-ffi or torch is not installed.
    """
    import torch
    import tvm_ffi

    if "tvm" not in bundle.about:
        raise UserError("the bundle has no build of TVM's own: make it with --with-tvm")
    gpu = bundle.about["kind"] == "cuda"
    _load_runtime("libtvm_runtime.so", *(("libtvm_runtime_cuda.so",) if gpu else ()))
    module: Any = tvm_ffi.load_module(str(bundle.folder / LIBRARY))
    machine: Any = module["vm_load_executable"]()
    device = (_CUDA, 0, _POOLED) if gpu else ()
    machine["vm_initialization"](*device, _CPU, 0, _POOLED)
    main = machine["main"]
    # Torch's memory has the alignment that TVM's kernels expect.
    values = [*inputs, *(torch.tensor(bundle.weights[key]) for key in bundle.about["tvm"])]
    held = [value.to("cuda" if gpu else "cpu").contiguous() for value in values]
    arguments = [tvm_ffi.from_dlpack(value) for value in held]

    def run() -> Any:
        made = main(*arguments)
        if gpu:
            torch.cuda.synchronize()
        return made

    def outputs() -> list[Any]:
        made = run()
        parts = [made] if isinstance(made, tvm_ffi.Tensor) else list(made)
        return [torch.from_dlpack(part).cpu().numpy() for part in parts]

    return run, outputs


def _load_runtime(*names: str) -> None:
    found = importlib.util.find_spec("tvm")
    if found is None or found.submodule_search_locations is None:
        raise UserError("TVM's runtime libraries are not here: install apache-tvm")
    folders = [Path(folder) / "lib" for folder in found.submodule_search_locations]
    for name in names:
        path = next((f / name for f in folders if (f / name).exists()), None)
        if path is None:
            raise UserError(f"this apache-tvm has no {name}")
        try:
            ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise UserError(f"{path} cannot be loaded: {error}") from error
