"""The Relax dialect, for the TVM that comes with tvm-ios."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import tvm

from relay_passes.dialect import Dialect
from relay_passes.relax.canonical.canonicalise import canonicalise
from relay_passes.relax.emitter import rewrite_main
from relay_passes.relax.expressions import calls_of, interface, unprinted, with_functions
from relay_passes.relax.extract import extract
from relay_passes.relax.importer import import_onnx
from relay_passes.relax.memory_order import operators_of, stages_of, with_stages
from relay_passes.relax.outline import Outliner, outline
from relay_passes.relax.saved_module import import_saved

if TYPE_CHECKING:
    from relay_passes.prepared import Prepared
    from relay_passes.relax.target_units import RelaxUnits
    from relay_passes.search_options import SearchOptions


def _target_units(prepared: Prepared, options: SearchOptions) -> RelaxUnits:
    from relay_passes.relax.target_units import RelaxUnits

    return RelaxUnits(prepared, options)


def _compile_tvm_build(module: tvm.IRModule, options: SearchOptions, path: Path) -> None:
    from runtime_ext.machine.this_machine import host_target
    from runtime_ext.peers.kept_tvm_builds import kept_tvm_build
    from runtime_ext.peers.tvm_build import compile_tvm_build
    from runtime_ext.target_architecture import cuda_arch

    target, tuned = options.resolved_target, options.database
    if cuda_arch(target) is not None:
        # A GPU's results are compared with those of TVM's build for the CPU; the log is the GPU's.
        target, tuned = host_target(options.lanes), None
    if tuned is None:
        kept_tvm_build(module, target, path, options.cache / "tvm")
    else:
        compile_tvm_build(module, target, path, tuned)


DIALECT = Dialect(
    name="relax",
    canonicalise=canonicalise,
    extract=extract,
    outliner=Outliner,
    # Layouts are chosen when the module is built.
    for_target=lambda outliner, _: outliner,
    outline=outline,
    interface=interface,
    rewrite_main=rewrite_main,
    with_functions=with_functions,
    attribute=str,
    unprinted=unprinted,
    text=lambda module: module.script(),
    text_suffix=".py",
    import_onnx=import_onnx,
    import_saved=import_saved,
    target_units=_target_units,
    compile_tvm_build=_compile_tvm_build,
    operators_of=operators_of,
    calls_of=calls_of,
    stages_of=stages_of,
    with_stages=with_stages,
    places_tiles=True,
)
