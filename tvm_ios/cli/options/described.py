"""The device description to schedule by if the target's GPU is not here."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relay_passes.search_options import SearchOptions


def without_gpu(options: SearchOptions) -> str | None:
    """Return the description to schedule by if no GPU of the target is here; else None."""
    from runtime_ext.cuda.nvidia.driver import open_device
    from runtime_ext.native_errors import CudaError
    from runtime_ext.target_architecture import cuda_arch
    from tvm_ios.devices.device import described_gpu

    arch = cuda_arch(options.target)
    assert arch is not None
    try:
        open_device().require(arch)
        return None
    except CudaError:
        return described_gpu(arch)
