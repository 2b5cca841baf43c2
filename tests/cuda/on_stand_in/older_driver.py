"""What a driver without the newest functions runs; the checks beside it need all of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from runtime_ext.execution.runtime_module import load_module
from runtime_ext.native_errors import CudaError
from tests.cuda.cuda_executables import add_two
from tests.cuda.on_stand_in.stand_in import KERNELS
from tests.refusals import refused


def test_programs_run_and_are_timed(tmp_path: Path) -> None:
    add_two(tmp_path, KERNELS).save(tmp_path / "out")
    module = load_module(tmp_path / "out")
    for _ in range(2):
        module.run(input=np.full(12, 5))
        np.testing.assert_array_equal(module.get_output("first"), np.full(12, 7))
    assert len(module.benchmark(3, 4)) == 4
    with refused(CudaError, "too old", "cuEventRecordWithFlags"):
        module.profile()
