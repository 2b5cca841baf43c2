"""Compiled forms of units, of their rKernels and of merge candidates as JSON, equal code once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Any

from tvm_ios.files.json_text import natural, naturals
from tvm_ios.files.plain_data import read_as
from tvm_ios.program.compiled_unit import CompiledUnit, ConstantUse
from tvm_ios.program.constant_transform import ParamTransform
from tvm_ios.program.program import UnitCode


@dataclass(frozen=True)
class UnitForms:
    """The compiled forms of the units that a search may put into a program.

    ``forms`` has the different forms of each unit, and of units that may be merged; the default is
    last. ``rkernels`` has the forms of each unit by rKernel name.
    """

    forms: Mapping[tuple[int, ...], tuple[CompiledUnit, ...]]
    rkernels: Mapping[int, Mapping[str, CompiledUnit]]

    @property
    def alone(self) -> dict[tuple[int, ...], tuple[CompiledUnit, ...]]:
        """The forms of units that are not merged."""
        return {units: forms for units, forms in self.forms.items() if len(units) == 1}

    @property
    def symbols(self) -> tuple[str, ...]:
        """The symbols of all kernels."""
        return self._symbols(self.forms)

    @property
    def unit_symbols(self) -> tuple[str, ...]:
        """The symbols of kernels of units that are not merged, without a library's forms."""
        return self._symbols(self.alone, libraries=False)

    def _symbols(
        self,
        forms_by_units: Mapping[tuple[int, ...], tuple[CompiledUnit, ...]],
        *,
        libraries: bool = True,
    ) -> tuple[str, ...]:
        forms = [form for of_unit in forms_by_units.values() for form in of_unit]
        forms += [form for of_unit in self.rkernels.values() for form in of_unit.values()]
        counted = [form for form in forms if libraries or not form.library]
        return tuple(dict.fromkeys(call.symbol for form in counted for call in form.code.calls))

    def to_json(self) -> dict[str, Any]:
        """Return plain data, the inverse of :meth:`from_json`."""
        codes: dict[str, Any] = {}

        def key_of(form: CompiledUnit) -> str:
            codes.setdefault(form.key, _form_json(form))
            return form.key

        forms = [
            [units, [key_of(form) for form in of_unit]] for units, of_unit in self.forms.items()
        ]
        rkernels = [
            [unit, {name: key_of(form) for name, form in of_unit.items()}]
            for unit, of_unit in self.rkernels.items()
        ]
        return {"forms": forms, "rkernels": rkernels, "codes": codes}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> UnitForms:
        """Read the data of :meth:`to_json`; raise KeyError, TypeError or ValueError otherwise."""
        codes = {str(key): _form(str(key), code) for key, code in data["codes"].items()}
        return UnitForms(
            {naturals(units): tuple(codes[key] for key in keys) for units, keys in data["forms"]},
            {
                natural(unit): {str(name): codes[key] for name, key in of_unit.items()}
                for unit, of_unit in data["rkernels"]
            },
        )


def _form_json(form: CompiledUnit) -> dict[str, Any]:
    code = form.code
    return {
        "parameters": [astuple(buffer) for buffer in code.parameters],
        "outputs": code.outputs,
        "scratch": [astuple(buffer) for buffer in code.scratch],
        "calls": [astuple(call) for call in code.calls],
        "constants": [[use.parameter, use.transform.to_json()] for use in form.constants],
        "kernels": form.kernels,
        "tuned": sorted(form.tuned),
        "library": form.library,
        "name": form.name,
    }


def _form(key: str, data: Mapping[str, Any]) -> CompiledUnit:
    constants = tuple(
        ConstantUse(natural(parameter), ParamTransform.from_json(steps))
        for parameter, steps in data["constants"]
    )
    kernels, tuned = (read_as(tuple[str, ...], data[name]) for name in ("kernels", "tuned"))
    code, library = read_as(UnitCode, data), str(data["library"])
    # In bundles of earlier versions only a library's forms had a name, which was the library's.
    name = str(data.get("name", library))
    return CompiledUnit(code, constants, key, kernels, frozenset(tuned), library, name)
