"""The outputs that a program for a range of shapes must compute, and how far it is from them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from random import Random
from typing import TYPE_CHECKING, Any

from tvm_ios.api.exactness import LARGEST, ROUNDING, error_of, leave_out_inexact
from tvm_ios.contest.outputs import (
    EDGES,
    Reference,
    Sample,
    Verify,
    largest_errors,
    verify_outputs,
)
from tvm_ios.contest.tolerance import rounds
from tvm_ios.errors import UserError
from tvm_ios.files.array_files import Array
from tvm_ios.models.source import Form
from tvm_ios.progress import Progress
from tvm_ios.schedule.first_difference import kinds
from tvm_ios.shapes.extent import Symbol, at_values
from tvm_ios.shapes.fitting import Values
from tvm_ios.shapes.ranges import typical_shapes

if TYPE_CHECKING:
    from relay_passes.relax.ranges.search import OpenSearch
    from relay_passes.relax.ranges.units import OpenModel
    from runtime_ext.execution.built_model import BuiltModel

#: Random shapes that are compared besides those at the ends of the range.
_RANDOM = 5
#: Values beside the ends of vectors and of most register tiles, where compared shapes lie too.
_EDGES = (5, 7, 8, 13, 15, 16, 17)


def inputs_at(built: BuiltModel, values: Values, seed: int = 0) -> dict[str, Array]:
    """Return random inputs of an open program for these values of its symbols."""
    from runtime_ext.execution.model_session import random_values

    return random_values([at_values(port, values) for port in built.inputs], seed)


def compared_points(symbols: Sequence[Symbol], others: Sequence[Values]) -> list[Values]:
    """Return the shapes where outputs are compared: ends, edges of tiles, random ones, others."""
    random = Random(0)

    def at(numbers: Sequence[int]) -> Values:
        return {symbol.name: number for symbol, number in zip(symbols, numbers, strict=True)}

    ends = [at(numbers) for numbers in product(*((s.least, s.most) for s in symbols))]
    beside = at([min(s.least + 1, s.most) for s in symbols])
    edges = [{**beside, s.name: n} for s in symbols for n in _EDGES if s.least <= n <= s.most]
    hint = at([s.hint for s in symbols])
    drawn = [at([_drawn(s, random) for s in symbols]) for _ in range(_RANDOM)]
    every = [*ends, beside, *edges, hint, *drawn, *others]
    return [dict(items) for items in dict.fromkeys(tuple(point.items()) for point in every)]


def _drawn(symbol: Symbol, random: Random) -> int:
    """Return a random value, of which small ones are as likely as large ones."""
    exponent = random.uniform(math.log(symbol.least or 1), math.log(symbol.most or 1))
    return min(max(round(math.exp(exponent)), symbol.least), symbol.most)


def reference_at(
    read: OpenModel,
    built: BuiltModel,
    points: Sequence[Values],
    verify: Verify,
    progress: Progress,
) -> Reference:
    """Return the outputs of a model at some shapes; without a source if nothing is compared.

    Behind them are those of infinities, ties and last indices.
    """
    samples = [Sample(inputs_at(built, point, seed)) for seed, point in enumerate(points)]
    if verify is Verify.off:
        return Reference(samples, source=None)
    from runtime_ext.verification.expected import expected_outputs

    is_torch = read.source.form is Form.TORCH
    # Indices that count from the end are ONNX's alone.
    samples += [] if is_torch else _edges(read, built)
    progress("computing the reference", 0, 1)
    original = read.source.path if is_torch else read.proto
    expected = expected_outputs(
        original, [sample.inputs for sample in samples], _no_outputs, Verify.onnx
    )
    progress("computing the reference", 1, 1)
    samples = [replace(s, outputs=o) for s, o in zip(samples, expected.outputs, strict=False)]
    quantised = rounds(kinds(built.schedule.get("graph", {})))
    return Reference(samples, quantised=quantised, source=expected.source)


def verified(session: Any, reference: Reference, progress: Progress) -> float | None:
    """Return the largest error of a program's outputs; None if there are none to compare.

    Raise VerificationError if it is more than rounding.
    """
    if reference.source is None:
        return None
    errors: list[tuple[float, float]] = []
    for place, sample in enumerate(reference.samples):
        progress("comparing outputs", place, len(reference.samples))
        session.run(**sample.inputs)
        outputs = [session.get_output(port.name) for port in session.outputs]
        errors.append(verify_outputs("sequential", outputs, sample, reference))
    progress("comparing outputs", len(errors), len(errors))
    return largest_errors(errors)[1]


def exact_enough(
    opened: OpenSearch, built: BuiltModel, reference: Reference
) -> tuple[BuiltModel, str]:
    """Return the program of the chosen forms, without those that round too much.

    Return a sentence on forms that are left out, too.
    """
    is_rounding = reference.source is not None and reference.tolerance.relative > ROUNDING
    if is_rounding:
        return built, ""
    programs = _Sequential(opened, built, reference)
    told = leave_out_inexact(programs, reference, largest=LARGEST)
    return programs.built, told


class _Sequential:
    """The sequential program of a range, as :func:`leave_out_inexact` takes it.

    It stands for the programs that have other forms in boxes of the range, too.
    """

    def __init__(self, opened: OpenSearch, built: BuiltModel, reference: Reference) -> None:
        self._opened, self.built, self._reference = opened, built, reference

    def uses(self, names: Sequence[str]) -> bool:
        every = (self._opened.kernels, *(forms for _, forms in self._opened.other_forms()))
        return not set(names).isdisjoint(name for forms in every for name in forms.values())

    def error(self) -> float:
        others = (self._opened.build(kernels=forms) for _, forms in self._opened.other_forms())
        return max(error_of(program, self._reference) for program in (self.built, *others))

    def direct_error(self) -> float:
        return error_of(self._opened.build(kernels={}), self._reference)

    def leave_out(self, name: str) -> None:
        self._opened.leave_out(name)
        self.built = self._opened.build()


def _edges(read: OpenModel, built: BuiltModel) -> list[Sample]:
    """Return samples with infinities, ties and last indices, at the least and a middle shape."""
    from tvm_ios.models.load import simplified
    from tvm_ios.onnx.edge_inputs import edge_inputs

    samples: list[Sample] = []
    for point in typical_shapes(built.program.symbols)[:2]:
        shapes = {name: at_values(shape, point) for name, shape in read.shapes.items()}
        simple = simplified(replace(read.source, shapes=shapes), read.proto)
        edges = edge_inputs(simple.model, inputs_at(built, point), infinities=True)
        samples += [] if edges is None else [Sample(edges, kind=EDGES)]
    return samples


def _no_outputs() -> Any:
    raise UserError(
        "nothing computes this model's outputs at several shapes: install onnxruntime, or compare "
        "nothing by --verify off"
    )
