"""The description that stands in where there is no machine to measure on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relay_passes.search_options import SearchOptions


def without_gpu(options: SearchOptions) -> str | None:
    """The description to schedule by where no GPU of the target is; None where one is."""
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
