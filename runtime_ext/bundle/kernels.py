"""The kernels of a bundle in the place of a compiler."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from runtime_ext.bundle.contents import Bundle, BundleError
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.measuring.stage_fuser import StageFuser
from tvm_ios.program.compiled_unit import CompiledUnit
from tvm_ios.progress import Steps


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
    without_library
        Why no kernel library is called; empty if one is, where the bundle has such forms.
    """

    def __init__(
        self,
        bundle: Bundle,
        function: Callable[[str], Any],
        fuser: StageFuser | None,
        without_library: str = "",
    ) -> None:
        self.fuser = fuser
        self.without_library = without_library
        self._forms = bundle.forms
        self._graph = bundle.graph
        self.function = function

    def compile_forms(
        self, units: Mapping[str, Any], progress: Steps | None = None
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
        return {name: self.forms(wanted) for name, wanted in units.items()}

    def forms(self, units: tuple[int, ...]) -> tuple[CompiledUnit, ...]:
        """The forms of a unit, or of merged ones, that can run here."""
        made = self._forms.forms[units]
        return tuple(form for form in made if not (form.library and self.without_library))

    def compile_rkernels(
        self, units: Mapping[str, Any], progress: Steps | None = None
    ) -> dict[str, dict[str, CompiledUnit]]:
        """For each unit its rKernels."""
        return {
            name: {n: form for n, form in self._forms.rkernels[unit].items() if not form.library}
            for name, (unit,) in units.items()
        }

    def keep(self, forms: Sequence[CompiledUnit], best: CompiledUnit) -> None:
        """Nothing is compiled later: who measured knows."""

    def mergeable(self, graph: OpGraph, units: Sequence[int]) -> bool:
        """Whether the bundle has the code of these units merged."""
        return tuple(sorted(units)) in self._forms.forms
