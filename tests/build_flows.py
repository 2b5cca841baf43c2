"""Our passes among TVM's own, whatever comes before and after: what holds of either dialect."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tvm

from relay_passes import GraphTurboPartition, IOSSchedule, MemorySchedule
from runtime_ext.build import build
from tests.refusals import require_names
from tvm_ios.errors import UserError

OURS: dict[str, Callable[[], Any]] = {
    "IOSSchedule": lambda: IOSSchedule("ios-both", "v100"),
    "IOSSchedule, greedy": lambda: IOSSchedule("greedy"),
    "IOSSchedule, sequential": lambda: IOSSchedule("sequential"),
    "MemorySchedule": MemorySchedule,
    "GraphTurboPartition": lambda: GraphTurboPartition("stcp920", capacity=9000),
}


def built_among(
    module: tvm.IRModule,
    before: Sequence[str],
    ours: str,
    after: Sequence[str],
    applied: Callable[[str, tvm.IRModule], tvm.IRModule],
) -> Any:
    """What is built of a module after passes of TVM, one of ours, and passes of TVM again.

    Parameters
    ----------
    module
        The module that goes in.
    before, ours, after
        The names of the passes.
    applied
        Gives what one of TVM's passes makes of a module.

    Returns
    -------
    BuiltModel, or None
        None if it was refused, in a sentence.
    """
    for name in before:
        module = applied(name, module)
    try:
        module = OURS[ours]()(module)
        for name in after:
            module = applied(name, module)
        return _built(module)
    except UserError as error:
        require_names(str(error))
        return None


def _built(module: tvm.IRModule) -> Any:
    """What is built of a module, which is scheduled again where a later pass changed it."""
    try:
        return build(module, lanes=1)
    except UserError as error:
        require_names(str(error))
        return build(IOSSchedule("sequential")(module), lanes=1)
