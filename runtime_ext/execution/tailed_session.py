"""Sessions of models whose end runs after the program, on ONNX Runtime or ``onnx.reference``."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import onnx
from onnx import helper

from runtime_ext.execution.executor import Span
from runtime_ext.execution.model_session import OneThread, random_values
from runtime_ext.execution.ports import Port, find_port, named_values, port_value, require_not_read
from runtime_ext.execution.session import Session
from runtime_ext.execution.session_pool import SessionWithWorkers
from runtime_ext.native_errors import SessionError
from tvm_ios.errors import UserError
from tvm_ios.files.array_files import Array
from tvm_ios.onnx.tail import Tail

#: ONNX's own type annotations are incomplete.
_helper: Any = helper


class TailedSession(SessionWithWorkers):
    """A session of a whole model whose tail runs after the program; methods as of :class:`Session`.

    Parameters
    ----------
    program
        A session of the part before the tail.
    tail
        The end of the model, which runs after the program.

    Attributes
    ----------
    inputs, outputs
        Those of the model; an extent of an output that depends on the data is -1.

    Raises
    ------
    UserError
        If the runtime refuses the tail, or the tail reads a state.
    """

    def __init__(self, program: Session, tail: Tail) -> None:
        made = {port.name for port in program.outputs}
        ports = [onnx_port(value) for value in tail.model.graph.input]
        #: Inputs of the model that the tail reads; ``_alone`` are those that only the tail reads.
        self._reads = tuple(port for port in ports if port.name not in made)
        self._program, self._whole_tail = program, tail
        self.inputs, self.outputs = tailed_ports(program.inputs, program.outputs, tail)
        self._alone = self.inputs[len(program.inputs) :]
        require_not_read(program.state_inputs, (port.name for port in self._reads))
        self._types = {port.name: port.dtype for port in ports}
        self._tail = open_tail(tail, len(program.program.lanes))
        self._feeds: dict[str, Array] = {}
        self._results: Sequence[Array] = ()
        self._one_thread = OneThread()
        names = [port.name for port in self.inputs]
        super().__init__(names, program.workers, program.pin)

    def set_input(self, name: str | None = None, value: Any = None, /, **values: Any) -> None:
        """Copy inputs in; as :meth:`Session.set_input`."""
        names = [port.name for port in self.inputs]
        with self._one_thread:
            for key, content in named_values(name, value, values, names).items():
                port = find_port(self.inputs, key, "input")
                if port not in self._alone:
                    self._program.set_input(key, content)
                if key in self._types:
                    self._feeds[key] = np.array(port_value(port, content))

    @property
    def state_inputs(self) -> frozenset[str]:
        """The names of inputs that are states."""
        return self._program.state_inputs

    def reset_states(self) -> None:
        """Set all states to zeros; as :meth:`Session.reset_states`."""
        self._program.reset_states()

    def run(self, /, **inputs: Any) -> None:
        """Run once, after setting the inputs given; as :meth:`Session.run`."""
        self.set_input(**inputs)
        with self._one_thread:
            self._require_inputs()
            self._results = ()
            self._program.run()
            self._run_tail()

    def get_output(self, which: int | str = 0) -> Array:
        """Return a copy of an output of the last run; as :meth:`Session.get_output`."""
        if isinstance(which, str):
            which = self.outputs.index(find_port(self.outputs, which, "output"))
        if not -len(self.outputs) <= which < len(self.outputs):
            raise SessionError(f"there is no output {which}; there are {len(self.outputs)}")
        if not self._results:
            name = self.outputs[which].name
            raise SessionError(f"output {name!r} is not known before a complete run")
        return np.array(self._results[which])

    def benchmark(self, number: int = 1, repeat: int = 10) -> list[float]:
        """Return seconds a run of program and tail together; as :meth:`Session.benchmark`."""
        seconds: list[float] = []
        with self._one_thread:
            self._require_inputs()
            for program in self._program.benchmark(number, repeat):
                begin = time.perf_counter()
                for _ in range(number):
                    self._run_tail()
                seconds.append(program + (time.perf_counter() - begin) / number)
        return seconds

    def profile(self) -> tuple[Span, ...]:
        """Run the program once, and return the times of every launch; the tail has none."""
        return self._program.profile()

    def _reserve(self) -> None:
        self._program.reserve()

    def for_worker(self, workers: int) -> TailedSession:
        """Open a session of the same model for one of ``workers`` workers."""
        return TailedSession(self._program.for_worker(workers), self._whole_tail)

    def random_inputs(self, seed: int = 0) -> dict[str, Array]:
        """Return random inputs, as :meth:`Session.random_inputs`."""
        return {**self._program.random_inputs(seed), **random_values(self._alone, seed)}

    def close(self) -> None:
        """End the executor's threads and workers; the last outputs can still be read."""
        super().close()
        self._program.close()

    def _require_inputs(self) -> None:
        unset = {port.name for port in self._reads} - self._feeds.keys()
        if unset:
            raise SessionError(f"input {min(unset)!r} was never set")

    def _run_tail(self) -> None:
        made = {port.name: self._program.get_output(port.name) for port in self._program.outputs}
        # A GPU may compute in a precision other than the model's.
        feeds = {name: a.astype(self._types[name]) for name, a in (made | self._feeds).items()}
        self._results = self._tail(feeds)


def tailed_ports(
    inputs: Sequence[Port], outputs: Sequence[Port], tail: Tail
) -> tuple[tuple[Port, ...], tuple[Port, ...]]:
    """Return the inputs and outputs of a model, given those of its program, and its tail."""
    known = {port.name for port in (*inputs, *outputs)}
    read = map(onnx_port, tail.model.graph.input)
    return (
        (*inputs, *(port for port in read if port.name not in known)),
        tuple(map(onnx_port, tail.model.graph.output)),
    )


def open_tail(tail: Tail, threads: int) -> Callable[[Mapping[str, Array]], Sequence[Array]]:
    """Return a function from a tail's inputs by name to its outputs, on this many threads.

    It and the function raise UserError if the runtime refuses the model or these inputs.
    """
    try:
        installed = find_spec("onnxruntime") is not None
        run = _onnxruntime(tail.model, threads) if installed else _reference(tail.model)
    except Exception as error:  # each runtime raises what it likes
        raise _refusal(error) from error

    def run_tail(feeds: Mapping[str, Array]) -> Sequence[Array]:
        try:
            return run(feeds)
        except Exception as error:
            raise _refusal(error) from error

    return run_tail


def _onnxruntime(
    model: onnx.ModelProto, threads: int
) -> Callable[[Mapping[str, Array]], Sequence[Array]]:
    import onnxruntime

    options: Any = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    session: Any = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return lambda feeds: session.run(None, dict(feeds))


def _reference(model: onnx.ModelProto) -> Callable[[Mapping[str, Array]], Sequence[Array]]:
    from onnx.reference import ReferenceEvaluator

    evaluator: Any = ReferenceEvaluator(model)
    return lambda feeds: evaluator.run(None, dict(feeds))


def _refusal(error: Exception) -> UserError:
    text = " ".join(str(error).split())
    return UserError(f"what runs after the program was refused by its runtime: {text}")


def onnx_port(value: Any) -> Port:
    """Return the port of an ONNX graph's input or output; unknown extents are -1."""
    tensor = value.type.tensor_type
    shape = tuple(d.dim_value if d.HasField("dim_value") else -1 for d in tensor.shape.dim)
    return Port(value.name, "", shape, str(_helper.tensor_dtype_to_np_dtype(tensor.elem_type)))
