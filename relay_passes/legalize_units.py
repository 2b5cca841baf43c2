"""The pass that replaces the units of a scheduled module by calls of TIR functions."""

from __future__ import annotations

from typing import Any

import tvm

from relay_passes.dialect import dialect_of
from relay_passes.ios_schedule import let_pass
from relay_passes.shown_pass import module_pass
from tvm_ios.errors import UserError


@module_pass
class LegalizeUnits:
    """Replace the units of a scheduled Relax module by calls of TIR functions with our kernels.

    The result runs on TVM's virtual machine, one unit after another; tiles of a kernel run on all
    of TVM's threads. Weights are constants in the layouts of kernels. Each unit has the kernel that
    the schedule names for it, else its default one. The module has no schedule any more.

    Parameters
    ----------
    target
        The CPU to write kernels for, for which the result is to be built: by default the target in
        whose scope the pass runs, or else this machine.

    Raises
    ------
    UserError
        When it runs, if the module is of Relay or has no schedule, the target is no CPU, or a unit
        has no kernel of the schedule's name.
    """

    def __init__(self, target: Any = None) -> None:
        self.target = target

    def transform_module(self, mod: tvm.IRModule, ctx: Any) -> tvm.IRModule:
        """Return the module without units; called by :class:`tvm.transform.Pass`."""
        try:
            if dialect_of(mod).name != "relax":
                raise UserError(
                    "LegalizeUnits takes modules of Relax, and this one is of Relay: let "
                    "runtime_ext.build.build compile it"
                )
            from relay_passes.relax.legalize import legalized

            return legalized(mod, self.target)
        except UserError as error:
            let_pass(type(error))
            raise
