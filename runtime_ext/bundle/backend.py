"""The backend that a bundle's precompiled kernels provide instead of a compiler."""

from __future__ import annotations

import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

from runtime_ext.backend import Backend
from runtime_ext.bundle.contents import KERNELS, Bundle, BundleError
from runtime_ext.bundle.kernels import BundledKernels
from tvm_ios.files.json_text import json_object


def open_bundle(
    bundle: Bundle, lanes: int | None, cache: Path, *, cudnn: bool = True
) -> Backend[BundledKernels]:
    """Load a bundle's kernels on this machine, or raise BundleError with the reason.

    ``lanes`` are threads or streams; None for as many as the bundle says, and on a CPU no more than
    there are. ``cache`` is a folder for kernels compiled here. cuDNN is called only with ``cudnn``.
    """
    if bundle.about["kind"] == "cuda":
        return _open_on_gpu(bundle, lanes or int(bundle.about["lanes"]), cache, cudnn)
    return _open_on_cpu(bundle, lanes)


def machine_facts(bundle: Bundle, backend: Backend[BundledKernels]) -> dict[str, Any]:
    """Return facts of a GPU to store with results: driver, clocks and libraries."""
    if bundle.rtasks is None:
        return {}
    from runtime_ext.bundle.rtasks import compiler_here
    from runtime_ext.cuda.nvidia import cudnn
    from runtime_ext.cuda.nvidia.clocks import clocks
    from runtime_ext.cuda.nvidia.driver import call, open_device

    device, without = open_device(), backend.compiler.without_library
    return {
        "arch": json_object(bundle.about["target"])["arch"],
        "cuda": call("cuDriverGetVersion"),
        "clocks": clocks(device),
        "compiler": compiler_here(bundle.rtasks),
        "cudnn": f"none; {without}" if without else cudnn.usable_version(device),
    }


def _open_on_cpu(bundle: Bundle, lanes: int | None) -> Backend[BundledKernels]:
    try:
        import tvm_ffi
    except ImportError as error:
        version = bundle.about["versions"]["apache-tvm-ffi"]
        raise BundleError(
            f"running this bundle needs the Python package apache-tvm-ffi=={version}: install it"
        ) from error
    from runtime_ext.cpu.device import CpuDevice
    from runtime_ext.machine.cpu_features import missing_features
    from runtime_ext.machine.this_machine import available_lanes

    # Bundles of older versions are for x86-64 alone, and do not say so.
    machine, here = bundle.about.get("machine", "x86_64"), platform.machine()
    if machine != here:
        raise BundleError(
            f"{bundle.folder} was made for {machine} and this machine is {here}: bundle the model "
            "with another --arch"
        )
    try:
        missing = missing_features(tuple(bundle.about["features"]))
    except ImportError as error:
        raise BundleError(
            f"{bundle.folder} was made where there was no executor for {here}: install the Python "
            "package tvm-ios-runtime"
        ) from error
    if missing:
        raise BundleError(
            f"{bundle.folder} was made for {bundle.about['target']} and this CPU lacks "
            f"{', '.join(missing)}: bundle the model with a lower --arch"
        )
    path = bundle.folder / "kernels.so"
    try:
        library: Any = tvm_ffi.load_module(str(path))
    except (RuntimeError, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise BundleError(f"{path} cannot be loaded: {reason}") from error
    lane_count = lanes or min(int(bundle.about["lanes"]), available_lanes())
    function: Callable[[str], Any] = library.get_function
    kernels = BundledKernels(bundle, function, without_library="it is for GPUs")
    return Backend(kernels, CpuDevice(lane_count), "native")


def _open_on_gpu(
    bundle: Bundle, streams: int, cache: Path, with_cudnn: bool
) -> Backend[BundledKernels]:
    from runtime_ext.bundle.rtasks import bundle_fuser
    from runtime_ext.cuda.machine_code.launchable import read_kernels
    from runtime_ext.cuda.measure import GpuDevice
    from runtime_ext.cuda.nvidia import cudnn
    from runtime_ext.cuda.nvidia.driver import open_device

    arch, loaded = read_kernels(bundle.folder / KERNELS)
    device = open_device()
    device.require(arch)
    without = "" if with_cudnn else "it was left out: drop --no-cudnn"
    if with_cudnn:
        try:
            cudnn.usable_version(device)
        except cudnn.CudnnError as error:
            without = f"it cannot be used here ({error})"
    assert bundle.rtasks is not None, "a bundle for a GPU has them"
    fuser = bundle_fuser(bundle.rtasks, loaded, device, cache)  # pyright: ignore[reportArgumentType]
    kernels = BundledKernels(bundle, loaded.__getitem__, fuser, without)
    return Backend(kernels, GpuDevice(lanes=streams), "cuda", has_named_forms=not without)
