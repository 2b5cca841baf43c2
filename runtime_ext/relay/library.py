"""Kernels of a Relay module: built by ``relay.build``, exported for programs."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import tvm
import tvm_ffi.libinfo
from tvm import relay

from runtime_ext.machine import instruction_level
from runtime_ext.relay.tuning_log import AutotvmLog
from tvm_ios.errors import UserError
from tvm_ios.files import temporary_folder

#: Processors of each level: LLVM of older TVMs does not know the levels by name.
_PROCESSOR = {"x86-64-v4": "skylake-avx512", "x86-64-v3": "haswell", "x86-64-v2": "nehalem"}


class RelayBuildError(UserError):
    """Kernels that cannot be built, with one sentence that says why."""


@dataclass(frozen=True)
class RelayLibrary:
    """What ``relay.build`` made of a module.

    Attributes
    ----------
    factory
        The graph executor's factory module.
    tiles
        For each kernel how many tiles it has: the extent of its loop if it is one parallel loop.
    """

    factory: Any
    tiles: Mapping[str, int]

    def export(self, path: Path) -> None:
        """Write a shared library whose functions take buffers, ``begin`` and ``end``.

        Raises
        ------
        RelayBuildError
            If there is no C compiler, or it fails.
        """
        with temporary_folder() as folder:
            self.factory.get_lib().save(str(folder / "kernels.o"))
            adapter = resources.files("runtime_ext.relay").joinpath("adapter.c").read_text()
            table = [f"TVM_IOS_KERNEL({symbol}, {tiles})" for symbol, tiles in self.tiles.items()]
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
    """A target for this machine, or for an instruction-set level."""
    level = level or instruction_level()
    mcpu = _PROCESSOR.get(level, level)
    return tvm.target.Target({"kind": "llvm", "mcpu": mcpu, "num-cores": lanes})


def build_library(
    module: tvm.IRModule, target: Any, name: str = "default", log: AutotvmLog | None = None
) -> RelayLibrary:
    """Build every kernel of a scheduled module, with the best records of a log.

    ``name`` stands in their symbols.
    Equal calls stay apart, so that the nodes of the executor's graph are the calls of ``main``.
    """
    options = {"opt_level": 3, "disabled_pass": ["EliminateCommonSubexpr"]}
    with log.applied() if log else nullcontext(), tvm.transform.PassContext(**options):
        factory = relay.build(module, target=target, mod_name=name)
    tiles: dict[str, int] = {}
    for name, info in factory.function_metadata.items():
        for function in info.tir_primfuncs.values():
            tiles[str(name)] = _tiles(function.body)
    return RelayLibrary(factory, tiles)


def _tiles(body: Any) -> int:
    """The extent of the parallel loop that a function is, or 1 for anything else.

    More than that loop, before or after it, would run once for every range.
    """
    wrappers = (tvm.tir.AttrStmt, tvm.tir.Allocate, tvm.tir.DeclBuffer, tvm.tir.BufferRealize)
    while isinstance(body, wrappers):
        body = body.body
    if isinstance(body, tvm.tir.For) and body.kind == tvm.tir.ForKind.PARALLEL:
        return int(body.extent)
    return 1


def _compile(options: list[str]) -> None:
    try:
        done = subprocess.run(["cc", *options], capture_output=True, text=True)
    except FileNotFoundError as error:
        raise RelayBuildError("there is no C compiler (cc) to link the kernels: install gcc") from (
            error
        )
    if done.returncode:
        raise RelayBuildError(f"the kernels cannot be linked: {done.stderr.strip()[-300:]}")
