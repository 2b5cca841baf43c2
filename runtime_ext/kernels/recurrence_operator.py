"""An operator that TVM's Relax lacks: all steps of an LSTM, GRU or RNN in one direction.

Its arguments are those of the operators of :mod:`tvm_ios.onnx.rewrites.recurrence.loops`, without
those that are not given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

NAME = "tvm_ios.recurrence"


@dataclass(frozen=True, slots=True)
class Recurrent:
    """The attributes of the operator."""

    #: ``lstm``, ``gru`` or ``rnn``.
    kind: str
    #: ``relu``, ``sigmoid`` or ``tanh`` for each of ONNX's f, g and h.
    activations: tuple[str, ...]
    #: Whether the last step comes first.
    reverse: bool
    #: Whether a GRU resets after the product with the state.
    late: bool
    #: The names of the optional arguments that are given, in order.
    given: tuple[str, ...]
    #: Whether the last memory is a second result.
    memory: bool

    @staticmethod
    def of(call: Any) -> Recurrent:
        """Return the attributes of a call of the operator."""
        attrs = call.attrs
        return Recurrent(
            str(attrs["kind"]),
            tuple(map(str, attrs["activations"])),
            bool(attrs["reverse"]),
            bool(attrs["late"]),
            tuple(map(str, attrs["given"])),
            bool(attrs["memory"]),
        )

    def attributes(self) -> dict[str, Any]:
        """Return the attributes by name, as plain data."""
        return {name: getattr(self, name) for name in self.__slots__}

    def arguments(self, call: Any) -> Mapping[str, Any]:
        """Return the arguments of a call by name."""
        return dict(zip(("gates", "weight", *self.given), call.args, strict=True))


def recurrence(
    gates: Any, weight: Any, optional: Mapping[str, Any], recurrent: Recurrent
) -> relax.Call:
    """Return a call of the operator; ``optional`` are the arguments given, by name."""
    attrs = tvm.ir.make_node("ir.DictAttrs", **recurrent.attributes())
    inputs = [gates, weight, *(optional[name] for name in recurrent.given)]
    return relax.Call(tvm.ir.Op.get(NAME), inputs, attrs)


def _infer(call: Any, _: Any) -> Any:
    steps, batch, _gates = call.args[0].ty.shape
    hidden, dtype = call.args[1].ty.shape[2], call.args[0].ty.dtype
    states = relax.TensorType([steps, batch, hidden], dtype)
    if not Recurrent.of(call).memory:
        return states
    return relax.TupleType([states, relax.TensorType([1, batch, hidden], dtype)])


def _legalize(builder: Any, call: Any) -> Any:
    """Return a call of TIR that computes the operator, one image of the batch after another."""
    function = builder.add_func(_of_tir(call).without_attr("global_symbol"), "recurrence")
    types = call.ty.fields if isinstance(call.ty, relax.TupleType) else [call.ty]
    return relax.call_tir(function, relax.Tuple(list(call.args)), list(types))


def _of_tir(call: Any) -> Any:
    recurrent = Recurrent.of(call)
    steps, batch, width = (int(extent) for extent in call.args[0].ty.shape)
    hidden, dtype = int(call.args[1].ty.shape[2]), str(call.args[0].ty.dtype)
    kind, count = recurrent.kind, width // hidden
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("recurrence")
        names = ("gates", "weight", *recurrent.given)
        of = {
            name: T.arg(name, T.buffer(tuple(map(int, argument.ty.shape)), str(argument.ty.dtype)))
            for name, argument in zip(names, call.args, strict=True)
        }
        states = T.arg("states", T.buffer((steps, batch, hidden), dtype))
        results = [states]
        if recurrent.memory:
            results.append(T.arg("last", T.buffer((1, batch, hidden), dtype)))
        with T.serial(batch) as loop, T.sblock("recurrence"):
            row = T.axis.spatial(batch, loop)
            T.reads(*(buffer[_all(buffer, name, row)] for name, buffer in of.items()))
            T.writes(*(result[0 : result.shape[0], row, 0:hidden] for result in results))
            state, memory, reset = (
                T.sblock_alloc_buffer((hidden,), dtype, scope="local") for _ in range(3)
            )
            sums = T.sblock_alloc_buffer((width,), dtype, scope="local")
            # Of what is quantised: the least and the largest number, scale and zero point.
            found = T.sblock_alloc_buffer((4,), dtype, scope="local")
            is_quantised = "scale" in of
            for name, buffer in (("state", state), ("memory", memory)):
                with T.serial(hidden) as i:
                    first = of[name][0, row, i] if name in of else tirx.const(0.0, dtype)
                    T.buffer_store(buffer, first, [i])

            def product(source: Any, begin: int, end: int) -> None:
                """Store the products of a state with the weights of some gates."""
                with T.serial(end - begin) as gate:
                    T.buffer_store(sums, tirx.const(0.0, dtype), [gate + begin])
                    with T.serial(hidden) as k:
                        weight = tirx.Cast(dtype, of["weight"][0, gate + begin, k])
                        more = source[k] * weight
                        T.buffer_store(sums, sums[gate + begin] + more, [gate + begin])
                    if is_quantised:
                        scaled = sums[gate + begin] * (found[2] * of["scale"][0, gate + begin])
                        T.buffer_store(sums, scaled, [gate + begin])

            with T.serial(steps) as step:
                at = steps - 1 - step if recurrent.reverse else step
                early = kind == "gru" and not recurrent.late
                if is_quantised:
                    _quantise(state, reset, found)
                product(reset if is_quantised else state, 0, width - hidden if early else width)
                if early:
                    f = _activation(recurrent.activations[0])
                    with T.serial(hidden) as i:
                        r = f(sums[i + hidden] + of["gates"][at, row, i + hidden])
                        T.buffer_store(reset, r * state[i], [i])
                    product(reset, width - hidden, width)
                with T.serial(hidden) as i:
                    made = [sums[i + g * hidden] for g in range(count)]
                    read = [of["gates"][at, row, i + g * hidden] for g in range(count)]
                    _cell(recurrent, of, (made, read), (state, memory), i)
                    T.buffer_store(states, state[i], [at, row, i])
            if recurrent.memory:
                with T.serial(hidden) as i:
                    T.buffer_store(results[1], memory[i], [0, row, i])
    return builder.get()


def _quantise(state: Any, target: Any, found: Any) -> None:
    """Store a state as ONNX's DynamicQuantizeLinear rounds it, less the zero point."""
    zero, one, most = (tirx.const(n, str(state.ty.dtype)) for n in (0.0, 1.0, 255.0))
    for place in range(2):
        T.buffer_store(found, zero, [place])
    with T.serial(int(state.shape[0])) as i:
        T.buffer_store(found, tirx.min(found[0], state[i]), [0])
        T.buffer_store(found, tirx.max(found[1], state[i]), [1])
    span = found[1] - found[0]
    T.buffer_store(found, tirx.Select(span > zero, span / most, one), [2])

    def clipped(value: Any) -> Any:
        return tirx.max(tirx.min(value, most), zero)

    T.buffer_store(found, clipped(tirx.nearbyint(zero - found[0] / found[2])), [3])
    with T.serial(int(state.shape[0])) as i:
        value = clipped(tirx.nearbyint(state[i] / found[2]) + found[3])
        T.buffer_store(target, value - found[3], [i])


def _all(buffer: Any, name: str, row: Any) -> tuple[Any, ...]:
    whole = [slice(0, extent) for extent in buffer.shape]
    if name in ("gates", "state", "memory"):
        whole[1] = slice(row, row + 1)
    return tuple(whole)


def _cell(
    recurrent: Recurrent,
    of: Mapping[str, Any],
    sums: tuple[Sequence[Any], Sequence[Any]],
    kept: tuple[Any, Any],
    i: Any,
) -> None:
    """Write one element of a cell, from the products with the state and those with the input."""
    made, read = sums
    state, memory = kept
    functions = list(map(_activation, recurrent.activations))
    hidden = int(state.shape[0])
    if recurrent.kind == "rnn":
        # The other elements of the state are read no more.
        T.buffer_store(state, functions[0](made[0] + read[0]), [i])
        return
    one = tirx.const(1.0, str(made[0].ty.dtype))
    gates = [a + b for a, b in zip(made, read, strict=True)]
    if recurrent.kind == "gru":
        f, g = functions
        update = f(gates[0])
        inner = made[2]
        if recurrent.late:
            bias = of["bias"][0, 5 * hidden + i] if "bias" in of else 0.0
            inner = f(gates[1]) * (made[2] + bias)
        T.buffer_store(state, (one - update) * g(read[2] + inner) + update * state[i], [i])
        return
    f, g, h = functions
    if "bias" in of:
        gates = [gate + of["bias"][0, i + g * hidden] for g, gate in enumerate(gates)]

    def peephole(gate: Any, cell: Any, place: int) -> Any:
        if "peepholes" not in of:
            return gate
        return gate + of["peepholes"][0, place * hidden + i] * cell

    new = f(peephole(gates[0], memory[i], 0)) * g(gates[3])
    new = f(peephole(gates[2], memory[i], 2)) * memory[i] + new
    T.buffer_store(memory, new, [i])
    T.buffer_store(state, f(peephole(gates[1], memory[i], 1)) * h(memory[i]), [i])


def _activation(name: str) -> Any:
    if name == "relu":
        return lambda x: tirx.max(x, tirx.const(0.0, str(x.ty.dtype)))
    return {"sigmoid": tirx.sigmoid, "tanh": tirx.tanh}[name]


def _register() -> None:
    register: Any = tvm.ir.register_op_attr
    ffi: Any = tvm.ir.op._ffi_api  # pyright: ignore[reportPrivateUsage]
    ffi.RegisterOp(NAME, "All steps of a recurrent layer.")
    register(NAME, "FInferType", _infer)
    register(NAME, "FPurity", True)
    register(NAME, "FLegalize", _legalize)


_register()
