"""The channel blockings of a convolution, and a hook of ``AlterOpLayout`` to apply chosen ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import autotvm, relay, te
from tvm.autotvm.task.space import FallbackConfigEntity

from runtime_ext.relay.tuning_log import AutotvmLog, on_nchw

#: Channels in a block; 0 for the layout NCHW, without blocks.
Block = int
#: For convolutions, by their attributes, AutoTVM's configuration; None is TVM's default.
BlockChoice = Mapping[Any, Any]

#: Assumed ratio of the time of TVM's default to that of the log's best kernel, if the log has
#: no kernel with the default's blocks.
_DEFAULT_OVER_BEST = 1.25


@dataclass(frozen=True)
class Way:
    """A way to compute an operator: its channel blocks and time."""

    #: Channels in a block of its input and of its result.
    reads: Block
    makes: Block

    seconds: float = 0.0
    #: The configuration of a convolution; None is TVM's default.
    config: Any = None
    #: Whether a convolution has the blocks that TVM takes without a log.
    default: bool = False


@contextmanager
def altering(choice: BlockChoice) -> Iterator[None]:
    """Make ``AlterOpLayout`` alter convolutions as chosen, others as usual, in a ``with`` block."""
    operator, former = relay.op.get("nn.conv2d"), _alter()

    def alter(attrs: Any, *others: Any) -> Any:
        if attrs not in choice:
            return former(attrs, *others)
        with _Chosen(choice[attrs]):
            return former(attrs, *others)

    operator.reset_attr(_ALTER)
    operator.set_attr(_ALTER, alter)
    try:
        yield
    finally:
        operator.reset_attr(_ALTER)
        operator.set_attr(_ALTER, former)


_ALTER = "FTVMAlterOpLayout"


def _alter() -> Any:
    return relay.op.get("nn.conv2d").get_attr(_ALTER)


class _Chosen(autotvm.task.DispatchContext):
    """A dispatch context of one configuration; it keeps the convolutions that TVM changes."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self._config = config
        self.altered: Any = None

    def _query_inside(self, target: tvm.target.Target, workload: Any) -> Any:
        return FallbackConfigEntity() if self._config is None else self._config

    def update(self, target: tvm.target.Target, workload: Any, cfg: Any) -> None:
        self.altered = workload


def convolution_ways(call: relay.Call, target: tvm.target.Target, log: AutotvmLog) -> Sequence[Way]:
    """Return the ways to compute a convolution; none if its channels are not blocked."""
    types = [argument.checked_type for argument in call.args]
    tensors = [te.placeholder(kind.shape, kind.dtype) for kind in types]
    with target, _quietly(), _Chosen(None) as context:
        altered = _alter()(call.attrs, list(call.args), tensors, call.checked_type)
    if altered is None or context.altered is None:
        return ()
    blocks = block_of(altered.attrs.data_layout), block_of(altered.attrs.out_layout)
    logged = log.best(on_nchw(context.altered)[0])
    ways = [Way(*b, way.seconds, way.config, default=b == blocks) for b, way in logged.items()]
    if blocks not in logged:
        best = min((way.seconds for way in ways), default=0.0)
        ways.append(Way(*blocks, best * _DEFAULT_OVER_BEST, default=True))
    return ways


@contextmanager
def _quietly() -> Iterator[None]:
    """Silence AutoTVM's warning about untuned operators within a ``with`` block."""
    scope = autotvm.GLOBAL_SCOPE
    before, scope.silent = scope.silent, True
    try:
        yield
    finally:
        scope.silent = before


def block_of(layout: str) -> Block:
    """Return the channels in a block of a layout: 16 of ``"NCHW16c"``, 0 of ``"NCHW"``."""
    return int(layout.removeprefix("NCHW").removesuffix("c") or 0)
