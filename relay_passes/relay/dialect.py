"""The Relay dialect, for TVM up to 0.19."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import tvm

from relay_passes.dialect import Dialect
from relay_passes.relay.canonical.canonicalise import canonicalise
from relay_passes.relay.emitter import rewrite_main
from relay_passes.relay.expressions import calls_of, interface
from relay_passes.relay.extract import extract
from relay_passes.relay.importer import import_onnx
from relay_passes.relay.layouts.choice import LayoutChoice
from relay_passes.relay.memory_order import operators_of, stages_of, with_stages
from relay_passes.relay.outline import Outliner, outline
from relay_passes.relay.saved_module import import_saved
from runtime_ext.relay.module_copies import with_functions

if TYPE_CHECKING:
    from relay_passes.prepared import Prepared
    from relay_passes.relay.target_units import RelayUnits
    from relay_passes.search_options import SearchOptions


def _target_units(prepared: Prepared, options: SearchOptions) -> RelayUnits:
    from relay_passes.relay.target_units import RelayUnits

    return RelayUnits(prepared, options)


def _compile_tvm_build(module: tvm.IRModule, options: SearchOptions, path: Path) -> None:
    from runtime_ext.relay.library import host_target
    from runtime_ext.relay.tuning_log import read_autotvm_log
    from runtime_ext.relay.tvm_build import compile_tvm_build
    from runtime_ext.target_architecture import cuda_arch

    target = tvm.target.Target(options.target or host_target(options.lanes))
    tuned = options.database
    if cuda_arch(target) is not None:
        # A GPU's results are compared with those of TVM's build for the CPU; the log is the GPU's.
        target, tuned = host_target(options.lanes), None
    log = read_autotvm_log(tuned, target) if tuned else None
    compile_tvm_build(module, target, path, log)


DIALECT = Dialect(
    name="relay",
    canonicalise=canonicalise,
    extract=extract,
    outliner=Outliner,
    for_target=lambda outliner, options: outliner.in_layouts(LayoutChoice.of(options)),
    outline=outline,
    interface=interface,
    rewrite_main=rewrite_main,
    with_functions=with_functions,
    attribute=tvm.runtime.String,
    unprinted=tvm.runtime.String,
    text=lambda module: module.astext(show_meta_data=False),
    text_suffix=".txt",
    import_onnx=import_onnx,
    import_saved=import_saved,
    target_units=_target_units,
    compile_tvm_build=_compile_tvm_build,
    operators_of=operators_of,
    calls_of=calls_of,
    stages_of=stages_of,
    with_stages=with_stages,
    places_tiles=False,
)
