"""``relay.build`` of a scheduled module, for the graph executor."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import tvm
from tvm import relay

from runtime_ext.relay.build_information import keep_build_information
from runtime_ext.relay.tuning_log import AutotvmLog


def make_factory(
    module: tvm.IRModule,
    target: tvm.target.Target,
    name: str,
    log: AutotvmLog | None,
    disabled: Sequence[str] = (),
    instruments: Sequence[Any] = (),
) -> Any:
    """The graph executor's factory module of a scheduled module, with the best records of a log.

    Equal calls stay apart, so that the nodes of the executor's graph are the calls of ``main``.

    Parameters
    ----------
    module, target, log
        What to build.
    name
        A part of the kernels' symbols.
    disabled
        Passes of TVM's that are left out.
    instruments
        Instruments that watch TVM's passes.
    """
    keep_build_information()
    pass_context = tvm.transform.PassContext(
        opt_level=3,
        disabled_pass=["EliminateCommonSubexpr", *disabled],
        instruments=list(instruments),
    )
    with log.applied() if log else nullcontext(), pass_context:
        return relay.build(module, target=target, mod_name=name)
