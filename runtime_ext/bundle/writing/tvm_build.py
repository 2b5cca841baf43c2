"""Build a model with TVM's own pipeline and virtual machine, as a peer of a bundle's programs.

For a GPU it is TVM's default pipeline, its rules of thumb for schedules and its own CUDA graph. TVM
compiles for GPUs only where its CUDA runtime can be loaded, which needs a driver: a separate
process does it, with a stub library for the driver that fails every call.

``python -m runtime_ext.bundle.writing.tvm_build MODULE TARGET LIBRARY`` is that process.
"""

# TVM's nodes get their attributes at run time.
# pyright: reportArgumentType=false
from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tvm
import tvm_ffi
from tvm import relax
from tvm.ir import GenericConst

from runtime_ext.cuda.machine_code.nvrtc import find_nvcc
from runtime_ext.execution.buffers import content_key
from runtime_ext.module_copies import with_main
from runtime_ext.peers.tvm_build import compile_tvm_build
from tvm_ios.errors import UserError
from tvm_ios.files.array_files import Array
from tvm_ios.files.atomic import temporary_folder

#: The driver's error code for a machine without a device.
_NO_DEVICE = 100


def compile_tvm_peer(module: tvm.IRModule, target: Any, library: Path) -> list[Array]:
    """Compile an unscheduled module to a ``.so``, with weights as parameters; return the weights.

    They are the arguments of ``main`` after the model's inputs. Raise UserError with the reason if
    TVM cannot compile it here.
    """
    lifted, weights = weights_as_parameters(module)
    if target.kind.name == "cuda":
        _compile_for_gpu(lifted, target, library)
    else:
        compile_tvm_build(lifted, target, library)
    return weights


def weights_as_parameters(module: tvm.IRModule) -> tuple[tvm.IRModule, list[Array]]:
    """Return the module with its constants turned into parameters, and their values."""
    parameters: dict[str, Any] = {}
    weights: list[Array] = []

    def replace(constant: Any) -> Any:
        array = constant.value.numpy()
        key = content_key(array)
        if key not in parameters:
            # Shapes and limits have to be known when it is compiled.
            if array.dtype.kind != "f":
                return constant
            parameters[key] = relax.Var(f"weight{len(parameters)}", constant.ty)
            weights.append(array)
        return parameters[key]

    body = tvm_ffi.structural_map(module["main"].body, (GenericConst, replace))
    original = module["main"]
    main = relax.Function(
        [*original.params, *parameters.values()],
        body,
        original.ret_ty,
        original.is_pure,
        original.attrs,
    )
    # TVM keeps weights in its captured graph, and inputs, of which it knows the number, out of it.
    main = main.with_attr("num_input", len(original.params))
    return relax.transform.Normalize()(with_main(module, main)), weights


def gpu_compilers() -> tuple[str, str]:
    """Return the paths of nvcc and of a C++ compiler; raise UserError if one is missing."""
    nvcc, compiler = find_nvcc(), os.environ.get("CXX") or shutil.which("g++")
    if nvcc is None or compiler is None:
        raise UserError(
            "TVM's own build for a GPU is compiled by CUDA's nvcc and g++, and one of them is "
            "not here: install CUDA's toolkit, or leave out --with-tvm"
        )
    return nvcc, compiler


def _compile_for_gpu(module: tvm.IRModule, target: Any, library: Path) -> None:
    nvcc, compiler = gpu_compilers()
    toolkit = Path(nvcc).resolve().parents[1]
    with temporary_folder() as folder:
        driver = folder / "driver"
        driver.mkdir()
        _write_driver(driver / "libcuda.so.1", compiler)
        module_file, target_file = folder / "module.json", folder / "target.json"
        module_file.write_text(tvm.ir.save_json(module))
        target_file.write_text(str(target))
        paths = [driver, toolkit / "lib64", toolkit / "lib", os.environ.get("LD_LIBRARY_PATH", "")]
        process = subprocess.run(
            [sys.executable, "-m", __name__, str(module_file), str(target_file), str(library)],
            env={
                **os.environ,
                "LD_LIBRARY_PATH": ":".join(map(str, paths)),
                "PATH": f"{Path(nvcc).parent}:{os.environ.get('PATH', '')}",
                "TVM_CUDA_COMPILE_MODE": "nvcc",
            },
            capture_output=True,
            text=True,
        )
    if process.returncode:
        raise UserError(
            f"TVM's own build for {target} failed: {_last_line(process)}; or leave out --with-tvm"
        )


def _write_driver(path: Path, compiler: str) -> None:
    """Compile a stub of NVIDIA's driver with all functions that TVM's CUDA runtime needs."""
    runtime = Path(tvm.__file__).parent / "lib" / "libtvm_runtime_cuda.so"
    symbols = _output(["nm", "-D", "--undefined-only", str(runtime)])
    names = [line.split()[-1].partition("@")[0] for line in symbols.splitlines()]
    undefined = [name for name in names if name.startswith("cu") and not name.startswith("cuda")]
    text = "".join(f"int {name}(void) {{ return {_NO_DEVICE}; }}\n" for name in undefined)
    soname = f"-Wl,-soname,{path.name}"
    _output([compiler, "-x", "c", "-shared", "-fPIC", soname, "-o", str(path), "-"], text)


def _output(command: Sequence[str], stdin: str = "") -> str:
    """Run a program and return its standard output; raise UserError if it fails."""
    complaint = f"TVM's own build for a GPU is compiled with {command[0]}, which"
    try:
        process = subprocess.run(command, input=stdin, capture_output=True, text=True)
    except OSError as error:
        raise UserError(
            f"{complaint} cannot be run ({error.strerror}): install it, or leave out --with-tvm"
        ) from error
    if process.returncode:
        raise UserError(
            f"{complaint} failed: {_last_line(process)}; mend it, or leave out --with-tvm"
        )
    return process.stdout


def _last_line(process: subprocess.CompletedProcess[str]) -> str:
    return [f"it ended with {process.returncode}", *process.stderr.strip().splitlines()][-1]


def _main(module: str, target: str, library: str) -> None:
    if not tvm.runtime.enabled("cuda"):
        sys.exit("TVM's CUDA runtime does not load: CUDA 13's libcudart.so.13 is not here")
    tvm_target = tvm.target.Target(json.loads(Path(target).read_text()))
    # TVM asks the target in scope for the architecture, or else a GPU.
    with tvm_target, tvm.transform.PassContext(config={"relax.backend.use_cuda_graph": True}):
        compile_tvm_build(tvm.ir.load_json(Path(module).read_text()), tvm_target, Path(library))


if __name__ == "__main__":
    _main(*sys.argv[1:])
