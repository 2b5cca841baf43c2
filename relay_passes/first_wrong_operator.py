"""Find the first operator with a wrong result, by bisection over prefixes of the ONNX model."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing

import onnx

from relay_passes.dialect import Dialect
from relay_passes.load import LoadedModel
from relay_passes.pipeline import prepare
from relay_passes.search_options import SearchOptions
from runtime_ext.execution.bound_model import library_outputs
from runtime_ext.verification.expected import expected_outputs
from runtime_ext.verification.onnx_outputs import named_by_model
from tvm_ios.contest.outputs import Verify, difference
from tvm_ios.contest.tolerance import rounds, tolerance
from tvm_ios.errors import UserError
from tvm_ios.files.array_files import Array
from tvm_ios.files.atomic import temporary_folder
from tvm_ios.onnx.cut import computed_operators, cut_after
from tvm_ios.onnx.edit import node_text
from tvm_ios.onnx.simplify import simplify
from tvm_ios.onnx.supported import require_supported
from tvm_ios.policies.sequential import sequential_schedule
from tvm_ios.progress import Progress

#: Seconds after which no other prefix of the model is built.
_LIMIT = 120.0


def first_wrong_operator(
    loaded: LoadedModel,
    inputs: Sequence[Mapping[str, Array]],
    options: SearchOptions,
    verify: Verify,
    progress: Progress,
) -> str:
    """Return the end of a sentence that names the operator, or few operators, that go wrong first.

    Prefixes of the ONNX model are built as ``options`` say, run on each sample of ``inputs``, and
    compared as ``verify`` says. A prefix that cannot be built is skipped. Return an empty string
    if the model is no ONNX model or computes nothing.
    """
    model = loaded.original
    if not isinstance(model, onnx.ModelProto):
        return ""
    places = computed_operators(model)
    if not places:
        return ""
    steps = len(places).bit_length()

    def differs(count: int) -> bool:
        feeds = [named_by_model(model, sample) for sample in inputs]
        shapes = {name: array.shape for name, array in feeds[0].items()}
        part = cut_after(model, places[count - 1], shapes)
        return _is_wrong(loaded.dialect, part, feeds, options, verify)

    def report(done: int) -> None:
        progress("looking for the wrong operator", min(done, steps), steps)

    deadline = time.monotonic() + _LIMIT
    if not _may_differ(differs, len(places)):
        return "while the same program built anew, of kernels as they come, does not"
    low, high = bisect(len(places), differs, report, deadline)
    nodes = [node_text(model.graph.node[place]) for place in places[low:high]]
    if len(nodes) == 1:
        return f"first after {nodes[0]}"
    return f"first after one of the {len(nodes)} operators from {nodes[0]} to {nodes[-1]}"


def bisect(
    count: int, differs: Callable[[int], bool], report: Callable[[int], None], deadline: float
) -> tuple[int, int]:
    """Return (low, high): the first ``low`` steps agree and the first ``high`` differ.

    They are neighbours unless ``differs(steps)`` raised (such a number of steps is skipped) or the
    ``deadline``, a time of :func:`time.monotonic`, came first. All ``count`` steps together differ.
    ``report`` gets the number of calls so far.
    """
    low, high = 0, count
    untold: set[int] = set()
    asked = 0
    while time.monotonic() < deadline:
        between = [step for step in range(low + 1, high) if step not in untold]
        if not between:
            break
        report(asked)
        asked += 1
        middle = between[len(between) // 2]
        try:
            low, high = (low, middle) if differs(middle) else (middle, high)
        # A model cut at an arbitrary place may be refused, or crash a compiler.
        except Exception:
            untold.add(middle)
    return low, high


def _may_differ(differs: Callable[[int], bool], count: int) -> bool:
    try:
        return differs(count)
    except Exception:  # as in bisect
        return True


def _is_wrong(
    dialect: Dialect,
    model: onnx.ModelProto,
    feeds: Sequence[Mapping[str, Array]],
    options: SearchOptions,
    verify: Verify,
) -> bool:
    """Return whether the sequential program of a model differs from the expected outputs."""
    simple = simplify(model, cells=dialect.name != "relax")
    require_supported("a part of the model", simple)
    module = dialect.import_onnx(simple, None)
    prepared = prepare(module)
    built = dialect.target_units(prepared, options).build(sequential_schedule(prepared.units))
    with closing(built.session()) as session:
        ports = [(port.name, port.dtype) for port in session.inputs]
        samples = [_of_ports(ports, feed) for feed in feeds]

        def outputs_of(sample: Mapping[str, Array]) -> list[Array]:
            session.run(**sample)
            return [session.get_output(place) for place in range(len(session.outputs))]

        outputs = [outputs_of(sample) for sample in samples]

    def tvm_outputs() -> list[list[Array]]:
        with temporary_folder() as folder:
            dialect.compile_tvm_build(module, options, folder / "tvm.so")
            arguments = [_of_ports([(name, "") for name, _ in ports], feed) for feed in feeds]
            return library_outputs(folder / "tvm.so", arguments)

    expected = expected_outputs(model, feeds, tvm_outputs, verify)
    quantised = rounds(unit.kind for unit in prepared.units.operators)
    precision = options.precision or "float32"
    limit = tolerance(precision, expected.outputs[0], quantised=quantised)
    return any(difference(*pair, limit) for pair in zip(outputs, expected.outputs, strict=False))


def _of_ports(ports: Sequence[tuple[str, str]], feed: Mapping[str, Array]) -> dict[str, Array]:
    """Return the inputs that a program takes, by its port names and, where stated, in its types.

    If the numbers of inputs agree, they are matched by position, otherwise by name.
    """
    if len(ports) == len(feed):
        arrays = [*feed.values()]
    elif all(name in feed for name, _ in ports):
        arrays = [feed[name] for name, _ in ports]
    else:
        raise UserError("the inputs of a part of the model have other names in its program")
    return {
        name: array.astype(dtype or array.dtype, copy=False)
        for (name, dtype), array in zip(ports, arrays, strict=True)
    }
