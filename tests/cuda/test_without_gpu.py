"""What a machine without a GPU says, and what can be done there all the same."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from pathlib import Path

import pytest

from runtime_ext.cuda.machine_code.launchable import Launchable, read_kernels, write_kernels
from runtime_ext.cuda.nvidia.driver import runs_on
from runtime_ext.execution.executable import load
from runtime_ext.native_errors import CudaError, ExecutableError
from tests.cuda.cuda_executables import add_two
from tests.cuda.nvrtc_kernels import compile_kernels
from tests.refusals import refused
from tvm_ios.errors import UserError


def has_driver() -> bool:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


@pytest.mark.skipif(has_driver(), reason="this machine has NVIDIA's driver")
def test_a_missing_gpu_is_said_in_one_sentence(tmp_path: Path) -> None:
    add_two(tmp_path, b"code").save(tmp_path / "out")
    loaded = load(tmp_path / "out")
    with pytest.raises(CudaError) as caught:
        loaded.session()
    sentences = (
        "there is no CUDA device here: NVIDIA's driver (libcuda.so.1) is not installed",
        "CUDA devices are used through the package cuda-bindings, which is not installed: pip "
        "install 'tvm-ios[cuda]'",
    )
    assert str(caught.value) in sentences


def test_without_the_package_all_but_a_gpu_can_be_used() -> None:
    code = (
        "import sys\n"
        "sys.modules['cuda'] = None\n"
        "import runtime_ext.execution.executable, runtime_ext.cuda.executor\n"
        "import runtime_ext.cuda.nvidia.driver as d\n"
        "try: d.open_device()\n"
        "except d.CudaError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=900
    )
    assert done.stdout.startswith("CUDA devices are used through the package cuda-bindings")


def test_kernels_are_stored_once_and_read_back(tmp_path: Path) -> None:
    kernels = {
        "a": Launchable("f", (1, 2, 3), (32, 1, 1), 0, b"one" * 100),
        "b": Launchable("g", (7, 1, 1), (64, 2, 1), 99, b"one" * 100, (0, 2)),
        "c": Launchable("g", (7, 1, 1), (64, 2, 1), 99, b"two"),
        "d": Launchable("g", (7, 1, 1), (64, 2, 1), 99, b"two", early=True),
    }
    path = tmp_path / "kernels.safetensors"
    write_kernels(path, "sm_90a", kernels)
    assert read_kernels(path) == ("sm_90a", kernels)
    assert path.read_bytes().count(b"oneone" * 50) == 1
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    with refused(UserError, "kernels.safetensors", "cubin"):
        read_kernels(path)
    for content in (b"", b"\x08\0\0\0\0\0\0\0{}      ", bytes(damaged[:50])):
        path.write_bytes(content)
        with refused(UserError, "kernels.safetensors"):
            read_kernels(path)
    with refused(UserError, "none"):
        read_kernels(tmp_path / "none")


def test_the_kernels_of_the_gpu_tests_compile() -> None:
    nvrtc = pytest.importorskip("cuda.bindings.nvrtc")
    try:
        nvrtc.nvrtcVersion()
    except RuntimeError as error:
        pytest.skip(f"NVRTC is not installed: {error}")
    assert compile_kernels("sm_90").startswith(b"\x7fELF")


@pytest.mark.parametrize(
    ("arch", "device", "runs"),
    [
        ("sm_90", (9, 0), True),
        ("sm_80", (8, 6), True),
        ("sm_86", (8, 0), False),
        ("sm_80", (9, 0), False),
        ("sm_90", (10, 0), False),
        ("sm_90a", (9, 0), True),
        ("sm_100a", (10, 3), False),
        ("sm_100", (10, 3), True),
        ("sm_120", (12, 0), True),
        ("gfx90", (9, 0), False),
        ("", (9, 0), False),
    ],
)
def test_machine_code_runs_on_its_own_generation(
    arch: str, device: tuple[int, int], runs: bool
) -> None:
    assert runs_on(arch, device) is runs


def test_a_damaged_executable_is_refused(tmp_path: Path) -> None:
    saved = tmp_path / "out"
    add_two(tmp_path, b"code").save(saved)
    kernels = saved / "kernels.safetensors"
    kernels.write_bytes(kernels.read_bytes() + b"more")
    with refused(ExecutableError, "kernels.safetensors", "damaged"):
        load(saved)
    kernels.unlink()
    with refused(ExecutableError, "kernels.safetensors", "lacks"):
        load(saved)
    assert json.loads((saved / "meta.json").read_text())["arch"] == "sm_90"
