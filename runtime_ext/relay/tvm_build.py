"""TVM's own build of a Relay module, with which everything is compared."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import tvm
from tvm import relay

from runtime_ext.relay.build_information import keep_build_information
from runtime_ext.relay.factory import own_build_errors
from runtime_ext.relay.module_copies import with_main
from runtime_ext.relay.tuning_log import AutotvmLog
from tvm_ios.files.atomic import temporary_folder


def compile_tvm_build(
    module: tvm.IRModule, target: Any, path: Path, log: AutotvmLog | None = None
) -> None:
    """Compile an unscheduled module by ``relay.build`` to a ``.so`` for the graph executor.

    The tuned kernels of ``log`` are applied as TVM does on its own. Raise RelayBuildError if TVM
    fails.
    """
    keep_build_information()
    pass_context = tvm.transform.PassContext(opt_level=3)
    with log.applied() if log else nullcontext(), own_build_errors(), pass_context:
        factory = relay.build(_without_empty_constants(module), target=target)
    with temporary_folder(path.parent, f".{path.name}.") as folder:
        factory.export_library(str(path), workspace_dir=str(folder))


def _without_empty_constants(module: tvm.IRModule) -> tvm.IRModule:
    """Replace results without elements by unused inputs.

    TVM saves such constants but fails to load them.
    """
    main = module["main"]
    fields = main.body.fields if isinstance(main.body, relay.Tuple) else [main.body]
    empty = {
        place: relay.var(f"no elements {place}", shape=field.data.shape, dtype=field.data.dtype)
        for place, field in enumerate(fields)
        if isinstance(field, relay.Constant) and 0 in field.data.shape
    }
    if not empty:
        return module
    results = [empty.get(place, field) for place, field in enumerate(fields)]
    body = relay.Tuple(results) if isinstance(main.body, relay.Tuple) else results[0]
    function = relay.Function([*main.params, *empty.values()], body, attrs=main.attrs)
    return with_main(module, function)
