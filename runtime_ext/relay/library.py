"""The kernels of a Relay module for a CPU: built by ``relay.build``, exported for programs."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

import tvm
import tvm_ffi
import tvm_ffi.libinfo

from runtime_ext.isa.levels import level_named
from runtime_ext.machine.this_machine import host_level
from runtime_ext.relay.cuda_library import CudaLibrary, build_cuda_library
from runtime_ext.relay.factory import RelayBuildError, make_factory
from runtime_ext.relay.loops import KernelLoops, loops_of
from runtime_ext.relay.tuning_log import AutotvmLog
from runtime_ext.target_architecture import cuda_arch
from tvm_ios.files.atomic import temporary_folder


@dataclass(frozen=True)
class ArgumentSlice:
    """A kernel argument that is a range of the outermost axis of the buffer that is passed."""

    #: Its place among the kernel's buffers.
    argument: int
    #: The axis of the range; all extents before it are 1.
    axis: int
    #: The extent of the range along the axis.
    extent: int
    #: The byte at which it begins.
    offset: int


#: For each symbol the symbol that it calls, and the slices of its arguments.
Sliced = dict[str, tuple[str, tuple[ArgumentSlice, ...]]]


@dataclass(frozen=True)
class RelayLibrary:
    """The kernels that ``relay.build`` made of a module, for a CPU."""

    #: The graph executor's factory module.
    factory: Any
    #: The loops of each kernel.
    forms: Mapping[str, KernelLoops]

    target: tvm.target.Target
    #: Additional symbols: kernels with some arguments sliced out of larger tensors.
    sliced: Sliced = field(default_factory=dict[str, tuple[str, tuple[ArgumentSlice, ...]]])

    def function(self, symbol: str) -> Any:
        """Return the kernel with this symbol; it takes buffers, ``begin`` and ``end``."""
        return self._loaded[symbol]

    @cached_property
    def _loaded(self) -> Any:
        with temporary_folder() as folder:
            path = folder / "kernels.so"
            self.export(path)
            # The file may be deleted once it is loaded.
            return tvm_ffi.load_module(path)

    def export(self, path: Path, symbols: Iterable[str] = ()) -> None:
        """Write a shared library of all kernels; ``symbols`` is ignored.

        Raise RelayBuildError if there is no C compiler, or it fails.
        """
        with temporary_folder() as folder:
            self.factory.get_lib().save(str(folder / "kernels.o"))
            adapter = resources.files("runtime_ext.relay").joinpath("adapter.c").read_text()
            table = [row for kernel in self.forms.items() for row in _rows(*kernel, self.sliced)]
            (folder / "adapter.c").write_text("\n".join([adapter, *table, ""]))
            ffi = Path(tvm_ffi.libinfo.find_libtvm_ffi())
            includes = (
                tvm_ffi.libinfo.find_include_path(),
                tvm_ffi.libinfo.find_dlpack_include_path(),
            )
            _compile(
                ["-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-Bsymbolic,-z,defs"]
                + [f"-I{include}" for include in includes]
                + ["-o", str(path), str(folder / "adapter.c"), str(folder / "kernels.o")]
                + [str(ffi), "-lm", "-lpthread"]
            )


def host_target(lanes: int, level: str | None = None) -> tvm.target.Target:
    """Return a target for this machine, or for an instruction-set level."""
    chosen = host_level() if level is None else level_named(level)
    data = {"kind": "llvm", "mcpu": chosen.processor, "num-cores": lanes}
    return tvm.target.Target(data)


def build_library(
    module: tvm.IRModule,
    target: tvm.target.Target,
    name: str = "default",
    log: AutotvmLog | None = None,
) -> RelayLibrary | CudaLibrary:
    """Build every kernel of a scheduled module for a CPU, or for a GPU if the target is CUDA.

    Raise UserError as :func:`runtime_ext.relay.cuda_library.build_cuda_library` does; on a CPU also
    if a kernel, such as one that sorts, calls the runtime of this TVM.
    """
    if cuda_arch(target) is not None:
        return build_cuda_library(module, target, name, log)
    factory = make_factory(module, target, name, log)
    forms: dict[str, KernelLoops] = {}
    for name, info in factory.function_metadata.items():
        for function in info.tir_primfuncs.values():
            _require_only_code(str(name), function.body)
            forms[str(name)] = loops_of(function.body)
    return RelayLibrary(factory, forms, target)


def _require_only_code(kernel: str, body: Any) -> None:
    called: list[str] = []

    def visit(node: Any) -> None:
        if isinstance(node, tvm.tir.Call) and str(node.op.name).startswith("tir.tvm_call_"):
            called.append(str(node.args[0].value))

    tvm.tir.stmt_functor.post_order_visit(body, visit)
    if called:
        raise RelayBuildError(
            f"{kernel} calls {called[0]} of this TVM's own runtime, which executables do without: "
            "leave this operator out of the model"
        )


def _rows(kernel: str, loops: KernelLoops, sliced: Sliced) -> Iterator[str]:
    """Yield the macro calls by which the adapter exports a kernel's phases."""
    yield f"TVM_IOS_KERNEL({kernel})"
    count = len(loops.tiles)
    for phase, call in enumerate(loops.calls(kernel, 0)):
        symbol, tiles = call.symbol, call.tiles
        slices_by_symbol = {symbol: ()} | {
            n: slices for n, (called, slices) in sliced.items() if called == symbol
        }
        for name, slices in slices_by_symbol.items():
            rows = [f"{{{s.argument}, {s.axis}, {s.extent}, {s.offset}}}" for s in slices]
            yield (
                f"TVM_IOS_PHASE({kernel}, {name}, {phase}, {count}, {tiles}, {loops.workspace}, "
                f"{len(slices)}, {', '.join(rows or ['{0}'])})"
            )


def _compile(options: list[str]) -> None:
    try:
        process = subprocess.run(["cc", *options], capture_output=True, text=True)
    except FileNotFoundError as error:
        raise RelayBuildError("there is no C compiler (cc) to link the kernels: install gcc") from (
            error
        )
    if process.returncode:
        raise RelayBuildError(f"the kernels cannot be linked: {process.stderr.strip()[-300:]}")
