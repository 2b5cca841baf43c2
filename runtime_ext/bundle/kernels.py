"""The precompiled kernels of a bundle, with a compiler's interface."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from runtime_ext.bundle.contents import Bundle, BundleError
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.measuring.stage_fuser import StageFuser
from tvm_ios.program.compiled_unit import CompiledUnit
from tvm_ios.progress import Steps

#: The source of a unit, or of several merged ones: their numbers.
Units = tuple[int, ...]


class BundledKernels:
    """A compiler's interface to the code in a bundle; the source of a unit is its number.

    ``function`` returns the function of a symbol, ``fuser`` makes kernels of co-scheduled stages on
    a GPU, and ``without_library`` is the reason why no kernel library is called, empty if one may
    be.
    """

    def __init__(
        self,
        bundle: Bundle,
        function: Callable[[str], Any],
        fuser: StageFuser | None = None,
        without_library: str = "",
    ) -> None:
        self.fuser = fuser
        self.without_library = without_library
        self._bundle = bundle
        self._function = function
        self._functions: dict[str, Any] = {}
        self._kept: dict[str, CompiledUnit] = {}

    def function(self, symbol: str) -> Any:
        """Return the function of a symbol, as an executor calls it."""
        if symbol not in self._functions:
            self._functions[symbol] = self._function(symbol)
        return self._functions[symbol]

    def compile(
        self, units: Mapping[str, Units], progress: Steps | None = None
    ) -> dict[str, CompiledUnit]:
        """Return, for each unit or merged ones, the form set by :meth:`keep`, or else the first.

        Raise BundleError as :meth:`compile_forms`.
        """
        return {
            name: self._kept.get(forms[-1].key) or next(form for form in forms if not form.name)
            for name, forms in self.compile_forms(units, progress).items()
        }

    def compile_forms(
        self, units: Mapping[str, Units], progress: Steps | None = None
    ) -> dict[str, tuple[CompiledUnit, ...]]:
        """Return, for each unit or merged ones, the forms in the bundle that can run here.

        Raise BundleError if units to merge are no candidates of the bundle.
        """
        return {name: self._forms(members) for name, members in units.items()}

    def rkernels(self, source: Units) -> tuple[str, ...]:
        """Return the names of the rKernels of a unit."""
        return tuple(self._ways(source))

    def chain_kernels(self, source: Units) -> int:
        """Return 0: bundles have no chains."""
        return 0

    def compile_rkernels(
        self,
        units: Mapping[str, Units],
        progress: Steps | None = None,
        *,
        only: Mapping[str, str] | None = None,
    ) -> dict[str, dict[str, CompiledUnit]]:
        """Return the rKernels of each unit by name; named forms only if ``only`` asks for them.

        Raise BundleError if ``only`` asks for a library's kernel and the library is not called
        here.
        """
        forms_by_name = {name: self._ways(members) for name, members in units.items()}
        if only is None:
            return {
                name: {way: form for way, form in forms.items() if not form.name}
                for name, forms in forms_by_name.items()
            }
        chosen = {name: {only[name]: forms[only[name]]} for name, forms in forms_by_name.items()}
        for name, (unit, *_) in units.items():
            if self.without_library and chosen[name][only[name]].library:
                unit_name = self._bundle.graph.operators[unit].name
                raise BundleError(
                    f"unit {unit_name!r} of the schedule is computed by cuDNN, and "
                    f"{self.without_library}, or search again"
                )
        return chosen

    def keep(self, forms: Sequence[CompiledUnit], best: CompiledUnit) -> None:
        """Make ``best`` the form of a unit that :meth:`compile` returns from now on."""
        self._kept[forms[-1].key] = best

    def mergeable(self, graph: OpGraph, units: Sequence[int]) -> bool:
        """Return whether the bundle has the code of these units merged."""
        return tuple(sorted(units)) in self._bundle.forms.forms

    @property
    def has_choices(self) -> bool:
        """True if some unit, or merged ones, can run in several forms here."""
        return any(len(self._forms(units)) > 1 for units in self._bundle.forms.forms)

    def _forms(self, units: Units) -> tuple[CompiledUnit, ...]:
        """Return the forms of a unit, or of merged ones, that can run here."""
        forms = self._bundle.forms.forms.get(units)
        if forms is None:
            names = ", ".join(self._bundle.graph.operators[unit].name for unit in units)
            raise BundleError(f"the bundle has no merged kernels of {names}: bundle more")
        return tuple(form for form in forms if not (form.library and self.without_library))

    def _ways(self, units: Units) -> dict[str, CompiledUnit]:
        """Return all forms and rKernels in the bundle of a unit, or of merged ones, by name."""
        forms = self._bundle.forms
        named = {form.name: form for form in forms.forms[units] if form.name}
        return {**named, **(forms.rkernels[units[0]] if len(units) == 1 else {})}
