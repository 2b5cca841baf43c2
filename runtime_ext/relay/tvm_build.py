"""TVM's own build of a Relay module, with which everything is compared."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import tvm
from tvm import relay

from runtime_ext.relay.build_information import keep_build_information
from runtime_ext.relay.tuning_log import AutotvmLog
from tvm_ios.files.atomic import temporary_folder


def compile_tvm_build(
    module: tvm.IRModule, target: Any, path: Path, log: AutotvmLog | None = None
) -> None:
    """Compile a module by ``relay.build`` to a shared library for the graph executor.

    Parameters
    ----------
    module
        Unscheduled.
    target
        A TVM target.
    path
        The ``.so`` to write.
    log
        Tuned kernels, which TVM applies as it does on its own.
    """
    keep_build_information()
    with log.applied() if log else nullcontext(), tvm.transform.PassContext(opt_level=3):
        factory = relay.build(module, target=target)
    with temporary_folder(path.parent, f".{path.name}.") as folder:
        factory.export_library(str(path), workspace_dir=str(folder))
