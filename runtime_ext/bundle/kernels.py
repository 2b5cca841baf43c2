"""The kernels of a bundle in the place of a compiler."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from runtime_ext.bundle.contents import Bundle, BundleError
from runtime_ext.device import KernelProgress
from runtime_ext.kernels.compiled_unit import CompiledUnit
from tvm_ios.graph import OpGraph

if TYPE_CHECKING:
    from runtime_ext.cuda.stage_fuser import StageFuser


class BundledKernels:
    """Gives the code that a bundle holds; what stands for a unit's source is its number.

    Parameters
    ----------
    bundle
        Where the code is.
    function
        What a symbol of it is.
    fuser
        What makes kernels of co-scheduled stages, on a GPU.
    """

    def __init__(
        self, bundle: Bundle, function: Callable[[str], Any], fuser: StageFuser | None
    ) -> None:
        self.fuser = fuser
        self._forms = bundle.forms
        self._graph = bundle.graph
        self.function = function

    def compile_forms(
        self, units: Mapping[str, Any], progress: KernelProgress | None = None
    ) -> dict[str, tuple[CompiledUnit, ...]]:
        """For each unit, or merged ones, the forms in the bundle.

        Raises
        ------
        BundleError
            If units shall be merged that are no candidates of the bundle.
        """
        for wanted in units.values():
            if wanted not in self._forms.forms:
                names = ", ".join(self._graph.operators[unit].name for unit in wanted)
                raise BundleError(f"the bundle has no merged kernels of {names}: bundle more")
        return {name: self._forms.forms[wanted] for name, wanted in units.items()}

    def compile_rkernels(
        self, units: Mapping[str, Any], progress: KernelProgress | None = None
    ) -> dict[str, dict[str, CompiledUnit]]:
        """For each unit its rKernels."""
        return {name: dict(self._forms.rkernels[unit]) for name, (unit,) in units.items()}

    def keep(self, forms: Sequence[CompiledUnit], best: CompiledUnit) -> None:
        """Nothing is compiled later: who measured knows."""

    def mergeable(self, graph: OpGraph, units: Sequence[int]) -> bool:
        """Whether the bundle has the code of these units merged."""
        return tuple(sorted(units)) in self._forms.forms
