"""Choose layouts of convolutions (NCHW16c) and keep them from unit to unit.

TVM's ``AlterOpLayout`` decides, and has to see the whole network: inside a unit it would transform
the data of every convolution to its layout and back. So the units' bodies are put together,
altered, and cut again. Constants are transformed once, here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import tvm
from tvm import relay

from relay_passes.relay.expressions import rebuild
from relay_passes.relay.kernels import RelayUnitFunction
from relay_passes.relay.layouts.blocked_convolutions import altering
from relay_passes.relay.layouts.channel_blocks import choose_blocks
from relay_passes.relay.layouts.cut import Cut
from relay_passes.relay.layouts.transforms import Border, Transform, simplified, transformed
from relay_passes.relay.layouts.whole import Whole
from relay_passes.search_options import SearchOptions
from runtime_ext.relay.library import host_target
from runtime_ext.relay.tuning_log import AutotvmLog, read_autotvm_log


@dataclass(frozen=True)
class LayoutChoice:
    """A chooser of layouts for a target, by the tuned kernels of a log.

    Without a log, those of AutoTVM's current context count.
    """

    target: tvm.target.Target
    log: AutotvmLog | None = None

    @staticmethod
    def of(options: SearchOptions) -> LayoutChoice:
        """Return the chooser for the options' target and tuning log.

        Raise UserError if the log cannot be used.
        """
        target = tvm.target.Target(options.target or host_target(options.lanes))
        log = read_autotvm_log(options.database, target) if options.database else None
        return LayoutChoice(target, log)

    @property
    def matters(self) -> bool:
        """Whether kernels of the target want other layouts than the model's.

        CPU kernels want blocks of channels, and Winograd kernels of GPUs transformed weights.
        """
        return not {"cpu", "cuda"}.isdisjoint(self.target.keys)

    def alter(self, main: relay.Function) -> tvm.IRModule:
        """Return a module of the function in the layouts of its kernels, with types inferred."""
        infer = relay.transform.InferType()
        module = infer(tvm.IRModule.from_expr(main))
        tuned, blocks = nullcontext(), nullcontext()
        if self.log is not None:
            tuned = self.log.applied()
            if "cpu" in self.target.keys:
                blocks = altering(choose_blocks(module["main"], self.target, self.log))
        # Only TVM itself can transform weights for its Winograd kernels.
        fold = [relay.transform.FoldConstant()] if "cuda" in self.target.keys else []
        passes = tvm.transform.Sequential([relay.transform.AlterOpLayout(), *fold, infer])
        with tuned, blocks, self.target, tvm.transform.PassContext(opt_level=3):
            return passes(module)


def alter_layouts(
    units: Sequence[RelayUnitFunction],
    inputs: Mapping[int, Border],
    results: Mapping[int, Transform],
    choice: LayoutChoice,
) -> tuple[list[RelayUnitFunction], dict[int, Border]]:
    """Return the units in altered layouts, and the tensors between them.

    ``units`` are in an order in which they can run. ``inputs`` are tensors that none of them makes;
    one with a transform is transformed already. ``results`` are tensors to return, each with its
    transform.
    """
    whole = Whole(units, inputs)
    body = relay.Tuple([transformed(whole.value[t], how) for t, how in results.items()])
    altered = choice.alter(relay.Function(whole.parameters, body))
    numbered = whole.renumber(altered["main"])
    altered = rebuild(altered, lambda old, call: simplified(old, call) or numbered(call))
    cut = Cut(units, whole, altered["main"], inputs, list(results))
    return cut.units(), cut.borders
