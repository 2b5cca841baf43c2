"""Kernels of all steps of recurrent layers, of known and of open extents, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime_ext.isa.levels import isa_of
from runtime_ext.kernels.expression import Access
from runtime_ext.kernels.spec import Recurrence
from tests.kernels.kernel_harness import targets
from tests.kernels.open_kernels import OpenKernel
from tvm_ios.files.array_files import Array
from tvm_ios.shapes.extent import Symbol, extent_of

TARGETS = targets("sse", "avx2", "avx512")
LANES = {name: isa_of(tvm.target.Target(target)).lanes for name, target in TARGETS.items()}
GATES = {"lstm": 4, "gru": 3, "rnn": 1}
FUNCTIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
}
B, T = (extent_of(Symbol(name, 1, 64, hint=8)) for name in ("batch", "steps"))
#: Places of buffers, of which a kernel may use some.
(GATES_READ, WEIGHT, STATES, STATE, MEMORY, LAST, BIAS, PEEPHOLES, SCALE) = range(9)


def spec_of(
    target: str,
    kind: str,
    *,
    steps: int,
    batch: int,
    hidden: int,
    activations: tuple[str, ...] = ("sigmoid", "tanh", "tanh"),
    reverse: bool = False,
    late: bool = False,
    given: tuple[str, ...] = (),
    quantised: bool = False,
) -> Recurrence:
    width, gates = LANES[target], GATES[kind]
    blocks = -(-hidden // width)
    # Results lie in the middle of a wider tensor, as in a concatenation.
    row = hidden + 7
    lstm = kind == "lstm"
    return Recurrence(
        (
            (steps, batch, gates * hidden),
            (blocks, hidden, gates, width),
            (steps, batch, row),
            (batch, hidden),
            (batch, hidden),
            (batch, hidden),
            (1, (4 if quantised else 6) * hidden),
            (1, 3 * hidden),
            (1, gates * hidden),
        ),
        kind=kind,
        activations=activations,
        reverse=reverse,
        late=late,
        steps=steps,
        batch=batch,
        hidden=hidden,
        gates=Access(GATES_READ, 0, (batch * gates * hidden, gates * hidden, 0, 1)),
        weight=WEIGHT,
        width=width,
        scale=SCALE if quantised else None,
        bias=BIAS if (late or quantised) and "bias" in given else None,
        peepholes=PEEPHOLES if lstm and "peepholes" in given else None,
        state=Access(STATE, 0, (0, hidden, 0, 1)) if "state" in given else None,
        memory=Access(MEMORY, 0, (0, hidden, 0, 1)) if lstm and "memory" in given else None,
        target=Access(STATES, 3, (batch * row, row, 0, 1)),
        last=Access(LAST, 0, (0, hidden, 0, 1)) if lstm and "last" in given else None,
    )


class Layer:
    """Random tensors of a recurrence at a shape, and what NumPy makes of them."""

    def __init__(self, spec: Recurrence, steps: int, batch: int, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        hidden, count = spec.hidden, spec.gate_count
        self.spec, self.steps = spec, steps

        def random(*shape: int) -> Array:
            return rng.standard_normal(shape, np.float32)

        self.gates = random(steps, batch, count * hidden)
        self.weight = random(count, hidden, hidden) / np.float32(np.sqrt(hidden))
        if spec.scale is not None:
            self.weight = rng.integers(-128, 128, self.weight.shape).astype(np.int8)
        self.state, self.memory = random(batch, hidden), random(batch, hidden)
        self.bias = random(1, (6 if spec.scale is None else 4) * hidden)
        self.peepholes = random(1, 3 * hidden)
        self.scale = rng.uniform(0.005, 0.01, (1, count * hidden)).astype(np.float32)

    def arrays(self) -> list[Array]:
        spec, (steps, batch, _) = self.spec, self.gates.shape
        width, hidden = spec.width, spec.hidden
        packed = np.zeros((-(-hidden // width) * width, spec.gate_count, hidden), self.weight.dtype)
        packed[:hidden] = self.weight.transpose(1, 0, 2)
        packed = packed.reshape(-1, width, spec.gate_count, hidden).transpose(0, 3, 2, 1)
        nothing = np.full((steps, batch, hidden + 7), np.nan, np.float32)
        last = np.full((batch, hidden), np.nan, np.float32)
        tensors = [self.gates, np.ascontiguousarray(packed), nothing, self.state, self.memory, last]
        return [*tensors, self.bias, self.peepholes, self.scale]

    def expected(self) -> tuple[Array, Array]:
        """All states, and the last memory."""
        spec, hidden = self.spec, self.spec.hidden
        state = self.state if spec.state else np.zeros_like(self.state)
        memory = self.memory if spec.memory else np.zeros_like(self.memory)
        states = np.empty((*self.gates.shape[:2], hidden), np.float32)
        for time in range(self.steps)[:: -1 if spec.reverse else 1]:
            state, memory = self._cell(
                np.split(self.gates[time], spec.gate_count, 1), state, memory
            )
            states[time] = state
        return states, memory

    def _cell(self, x: list[Array], state: Array, memory: Array) -> tuple[Array, Array]:
        spec = self.spec
        f, *others = (FUNCTIONS[name] for name in spec.activations)
        if spec.kind == "rnn":
            return f(x[0] + self._product(state, 0)), memory
        if spec.kind == "gru":
            z, r = (f(x[i] + self._product(state, i)) for i in range(2))
            if spec.late:
                bias = self.bias[0, 5 * spec.hidden :] if spec.bias is not None else 0
                inner = r * (self._product(state, 2) + bias)
            else:
                inner = self._product(r * state, 2)
            return (1 - z) * others[0](x[2] + inner) + z * state, memory
        g, h = others
        gates = [x[i] + self._product(state, i) for i in range(4)]
        if spec.bias is not None:
            gates = [a + b for a, b in zip(gates, np.split(self.bias, 4, 1), strict=True)]
        peep: Any = np.split(self.peepholes, 3, 1) if spec.peepholes is not None else [0, 0, 0]
        after = f(gates[2] + peep[2] * memory) * memory
        after = after + f(gates[0] + peep[0] * memory) * g(gates[3])
        return f(gates[1] + peep[1] * after) * h(after), after

    def _product(self, state: Array, gate: int) -> Array:
        weight = self.weight[gate].T.astype(np.float32)
        if self.spec.scale is None:
            return state @ weight
        least, most = np.float32(min(0, state.min())), np.float32(max(0, state.max()))
        by = np.float32((most - least) / np.float32(255)) if most > least else np.float32(1)
        zero = np.clip(np.rint(-least / by), 0, 255)
        rounded = np.clip(np.rint(state / by) + zero, 0, 255) - zero
        hidden = self.spec.hidden
        return (rounded @ weight) * (by * self.scale[:, gate * hidden :][:, :hidden])


def check(kernel: OpenKernel, layer: Layer, values: dict[str, int], borders: Any = ()) -> None:
    spec, arrays = kernel.spec, layer.arrays()
    given = [array.copy() for array in arrays]
    got = kernel.run(values, given, borders)
    states, memory = layer.expected()
    hidden = spec.hidden
    # A number that is rounded otherwise makes a difference of 1e-3 and more.
    largest = max(1, np.abs(states).max())
    error = np.abs(got[STATES][..., 3 : 3 + hidden] - states).max()
    assert error < 2e-5 * largest, error
    around = np.delete(got[STATES], np.s_[3 : 3 + hidden], axis=2)
    assert np.isnan(around).all(), "written beside the states"
    if spec.last is not None:
        assert np.abs(got[LAST] - memory).max() < 2e-5 * max(1, np.abs(memory).max())
    for place in (GATES_READ, WEIGHT, STATE, MEMORY, BIAS, PEEPHOLES, SCALE):
        assert np.array_equal(got[place], arrays[place]), "written into an input"


@st.composite
def recurrences(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    kind = draw(st.sampled_from(sorted(GATES)))
    count = {"lstm": 3, "gru": 2, "rnn": 1}[kind]
    names = st.sampled_from(sorted(FUNCTIONS))
    # States stay near 1, where errors compare with results.
    usual = ("tanh",) if kind == "rnn" else ("sigmoid", "tanh", "tanh")[:count]
    activations = draw(st.one_of(st.just(usual), st.tuples(*[names] * count)))
    options = {
        "steps": draw(st.integers(1, 5)),
        "batch": draw(st.integers(1, 9)),
        "hidden": draw(st.sampled_from([1, 3, 4, 7, 8, 16, 17, 24, 33, 40])),
        "activations": activations,
        "reverse": draw(st.booleans()),
        "late": kind == "gru" and draw(st.booleans()),
        "given": tuple(
            draw(st.sets(st.sampled_from(["state", "memory", "peepholes", "bias", "last"])))
        ),
    }
    return kind, options


@settings(max_examples=14, deadline=None)
@given(recurrences(), st.sampled_from(sorted(TARGETS)), st.integers(0, 9))
def test_a_layer_of_known_extents(
    recurrence: tuple[str, dict[str, Any]], target: str, border: int
) -> None:
    kind, options = recurrence
    spec = spec_of(target, kind, **options)
    kernel = OpenKernel(spec, TARGETS[target])
    layer = Layer(spec, options["steps"], options["batch"])
    check(kernel, layer, {}, [min(border, kernel.tiles({}))])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("lstm", {"given": ("state", "memory", "last"), "reverse": True}),
        ("lstm", {"given": ("peepholes", "last")}),
        ("gru", {"given": ("bias",), "late": True, "activations": ("sigmoid", "tanh")}),
        ("gru", {"given": ("state",), "activations": ("sigmoid", "tanh")}),
        ("rnn", {"activations": ("tanh",)}),
    ],
    ids=str,
)
def test_a_layer_of_open_extents(target: str, kind: str, options: dict[str, Any]) -> None:
    """One kernel runs batches of every remainder of its tiles, and any number of steps."""
    spec = spec_of(target, kind, steps=T, batch=B, hidden=21, **options)
    kernel = OpenKernel(spec, TARGETS[target])
    for batch, steps in [*((n, 3) for n in range(1, 10)), (1, 1), (1, 40), (13, 2), (4, 7)]:
        values = {"batch": batch, "steps": steps}
        layer = Layer(spec, steps, batch, seed=batch)
        for borders in ((), (kernel.tiles(values) // 2,)):
            check(kernel, layer, values, borders)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("hidden", [3, 16, 37])
@pytest.mark.parametrize("given", [(), ("state", "bias", "peepholes", "last")])
def test_states_are_rounded_as_by_onnx_runtime(
    target: str, hidden: int, given: tuple[str, ...]
) -> None:
    spec = spec_of(target, "lstm", steps=T, batch=1, hidden=hidden, given=given, quantised=True)
    kernel = OpenKernel(spec, TARGETS[target])
    for steps in (1, 2, 6):
        check(kernel, Layer(spec, steps, 1, seed=steps), {"steps": steps})


def test_a_state_of_zeros_is_rounded_to_zeros() -> None:
    spec = spec_of("sse", "lstm", steps=2, batch=1, hidden=5, given=("state",), quantised=True)
    layer = Layer(spec, 2, 1)
    layer.state[:] = 0
    check(OpenKernel(spec, TARGETS["sse"]), layer, {})


def test_numbers_that_are_none_stay_in_their_row() -> None:
    spec = spec_of("sse", "gru", steps=3, batch=3, hidden=5, activations=("sigmoid", "tanh"))
    layer = Layer(spec, 3, 3)
    layer.gates[1, 1] = np.nan
    states = OpenKernel(spec, TARGETS["sse"]).run({}, layer.arrays())[STATES][..., 3:8]
    assert np.isnan(states[1:, 1]).all()
    assert np.isfinite(states[:, [0, 2]]).all()
    assert np.isfinite(states[0]).all()
