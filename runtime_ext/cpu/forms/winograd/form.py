"""The form of units whose convolutions use Winograd's filtering."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

from runtime_ext.cpu.forms.form import Form
from runtime_ext.cpu.forms.winograd.convolution_writer import winograd_convolution
from runtime_ext.cpu.forms.winograd.estimate import direct_cycles, winograd_cut, winograd_cycles
from runtime_ext.cpu.forms.winograd.input_writer import winograd_input
from runtime_ext.cpu.forms.winograd.output_writer import winograd_output
from runtime_ext.cpu.forms.winograd.plan import WinogradCut, by_winograd, fits
from runtime_ext.cpu.forms.winograd.spec import (
    WinogradConvolution,
    WinogradInput,
    WinogradOutput,
)
from runtime_ext.cpu.vector_space import VectorSpace
from runtime_ext.isa.isa import Isa
from runtime_ext.kernels.spec import Contraction
from runtime_ext.units.placed import Placed
from runtime_ext.units.plans import form_plan
from runtime_ext.units.unit import FormKernel, UnitPlan, UnitSource
from tvm_ios.program.winograd import FORM
from tvm_ios.shapes.extent import at_values, symbols_in
from tvm_ios.shapes.ranges import typical_shapes

#: A convolution and its cut.
Cut = tuple[Contraction, WinogradCut]

#: Outputs of a tile along an axis.
_OUTPUTS = (2, 4, 6)
#: A form is left out only if its estimate is worse by this factor.
_MARGIN = 1.1


def _all(source: UnitSource, space: VectorSpace) -> dict[str, UnitPlan]:
    """Return every plan by Winograd's filtering that the unit can have, by name."""
    return {_name(outputs): plan for outputs, (plan, _) in _plans(source, space).items()}


def _promising(source: UnitSource, space: VectorSpace) -> dict[str, UnitPlan]:
    """Return the Winograd plans whose estimates are among the least and below the default's.

    The best of the tiles below six rows is included too: tiles of six have the largest error, and
    a caller may exclude them.
    """
    plans = _plans(source, space)
    promising: set[int] = set()
    symbols = symbols_in(tuple(spec for _, cuts in plans.values() for spec, _ in cuts))
    for rate, at in product(space.isa.multiply_adds, typical_shapes(symbols)):
        shares = {o: _share(cuts, space.isa, rate, at) for o, (_, cuts) in plans.items()}
        shares = {outputs: share for outputs, share in shares.items() if share < 1}
        least = min(shares.values(), default=0.0)
        small = min((share for outputs, share in shares.items() if outputs < 6), default=0.0)
        promising |= {o for o, s in shares.items() if s <= _MARGIN * least or s == small}
    return {_name(o): plan for o, (plan, _) in plans.items() if o in promising}


def _name(outputs: int) -> str:
    return f"{FORM}{outputs}"


def _share(cuts: Sequence[Cut], isa: Isa, rate: float, at: Mapping[str, int]) -> float:
    """Return the estimated cycles by Winograd's filtering, divided by those of the default.

    ``at`` has the values of symbols.
    """
    known = [(at_values(spec, at), cut) for spec, cut in cuts]
    filtered = sum(winograd_cycles(spec, cut, isa, rate) for spec, cut in known)
    return filtered / sum(direct_cycles(spec, isa, rate) for spec, _ in known)


def _plans(source: UnitSource, space: VectorSpace) -> dict[int, tuple[UnitPlan, list[Cut]]]:
    """Return the plan for each tile extent that fits, with its convolutions and their cuts."""
    plans = {outputs: _plan(source, space, outputs) for outputs in _OUTPUTS}
    return {outputs: plan for outputs, plan in plans.items() if plan is not None}


def _plan(
    source: UnitSource, space: VectorSpace, outputs: int
) -> tuple[UnitPlan, list[Cut]] | None:
    cuts: list[Cut] = []

    def instead(kernel: Placed[Contraction]) -> Sequence[Placed[FormKernel]] | None:
        if not fits(kernel.spec, outputs):
            return None
        cut = winograd_cut(kernel.spec, outputs, space.isa)
        cuts.append((kernel.spec, cut))
        return by_winograd(kernel, cut)

    plan = form_plan(source, space, instead, _name(outputs))
    return None if plan is None else (plan, cuts)


WINOGRAD = Form(
    "winograd",
    _all,
    _promising,
    {
        WinogradConvolution: winograd_convolution,
        WinogradInput: winograd_input,
        WinogradOutput: winograd_output,
    },
    fits_open=True,
)
