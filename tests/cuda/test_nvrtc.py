"""For which architectures kernels are compiled, and by which compiler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from runtime_ext.cuda.machine_code import nvrtc
from runtime_ext.cuda.machine_code.nvrtc import compile_cubin, compiler_version
from runtime_ext.cuda.machine_code.nvrtc_library import Compiled, CompileError, nvrtc_libraries
from tests.refusals import refused
from tvm_ios.errors import UserError

KERNEL = 'extern "C" __global__ void f(float* x) { x[threadIdx.x] = 1; }'


@dataclass
class Library:
    """An NVRTC of a version that compiles for some architectures."""

    version: tuple[int, int]
    archs: tuple[int, ...]
    asked: list[str] = field(default_factory=list[str])

    def compile(self, source: str, options: Sequence[str]) -> Compiled:
        (arch,) = (o.partition("=")[2] for o in options if o.startswith("-arch"))
        self.asked.append(arch)
        if int(arch.removeprefix("sm_")) not in self.archs:
            raise CompileError("nvrtc: error: invalid value for --gpu-architecture (-arch)")
        return Compiled(b"cubin", b"ptx\0", "ptxas info: Used 7 registers")


@pytest.fixture
def libraries(monkeypatch: pytest.MonkeyPatch) -> tuple[Library, Library]:
    new, old = Library((13, 5), (75, 90)), Library((12, 9), (50, 70, 75))
    monkeypatch.setattr(nvrtc, "nvrtc_libraries", lambda: (new, old))
    monkeypatch.setattr(nvrtc, "find_nvcc", lambda: None)
    return new, old


def test_the_newest_that_knows_an_architecture(libraries: tuple[Library, Library]) -> None:
    new, old = libraries
    assert compile_cubin(KERNEL, "sm_75").code == b"cubin"
    assert compile_cubin(KERNEL, "compute_70") == nvrtc.Cubin(b"ptx\0", 7, 0, 0)
    assert (new.asked, old.asked) == (["sm_75"], ["sm_70"])
    assert (compiler_version("sm_90"), compiler_version("sm_70")) == ("nvrtc 13.5", "nvrtc 12.9")


def test_an_architecture_that_none_knows(
    libraries: tuple[Library, Library], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvrtc, "nvrtc_libraries", lambda: libraries[:1])
    with refused(UserError, "sm_70", "nvidia-cuda-nvrtc-cu12"):
        compile_cubin(KERNEL, "sm_70")
    with pytest.raises(UserError) as raised:
        compile_cubin(KERNEL, "sm_37")
    assert "nvidia-cuda-nvrtc-cu12" not in str(raised.value), "nor does that"


@pytest.mark.skipif(not nvrtc_libraries(), reason="needs NVRTC")
def test_ptx_has_the_figures_of_its_machine_code() -> None:
    arch = min(nvrtc_libraries()[0].archs)
    ptx, cubin = compile_cubin(KERNEL, f"compute_{arch}"), compile_cubin(KERNEL, f"sm_{arch}")
    assert f".target sm_{arch}".encode() in ptx.code
    assert ptx.code.endswith(b"\0")
    assert b".entry f(" in ptx.code
    assert cubin.code.startswith(b"\x7fELF")
    assert ptx.registers == cubin.registers > 0
