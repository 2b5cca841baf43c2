"""The native executor: one thread a lane, written in C++ (``runtime_ext/native``)."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tvm_ffi

from runtime_ext.execution.executor import Span, require_one_shape
from runtime_ext.native_library import load_native_library
from tvm_ios.costs.log_lines import DisturbedSamples
from tvm_ios.program.program import Program, Wait


class NativeExecutor:
    """Runs a program on one thread a lane; the calling thread is lane 0.

    Parameters
    ----------
    program
        The program to run.
    functions
        For each of the program's symbols a function of its buffers, its scalars, ``begin`` and
        ``end``. KeyError is raised if one is missing.
    buffers
        A tensor for each buffer of the program.
    pin
        Bind each lane to one CPU of the process's affinity mask; the calling thread only during
        a run. Such a lane waits while another process uses its CPU, even if another CPU is free.
    spin_seconds
        How long a waiting lane keeps its CPU busy before it sleeps, if the lane that it waits
        for has a CPU. With more lanes than CPUs, or than the container's quota, it sleeps at once.
    patience_seconds
        How long a launch may be ready without its lane beginning it, before a lane that waits for
        it runs it instead. Negative: for ever.
    """

    def __init__(
        self,
        program: Program,
        functions: Mapping[str, Callable[..., Any]],
        buffers: Sequence[Any],
        *,
        pin: bool = False,
        spin_seconds: float = 1e-3,
        patience_seconds: float = 5e-6,
    ) -> None:
        require_one_shape(program)
        self._library = load_native_library()
        self._handle = self._library["create"](
            [native_function(functions[symbol]) for symbol in program.kernels],
            list(program.kernels),
            list(program.units),
            list(buffers),
            [encode_lane(lane) for lane in program.lanes],
            pin,
            spin_seconds,
            patience_seconds,
        )
        self._run = self._library["run"]
        # Runs at interpreter exit too, while the threads' code is still loaded.
        self._finalizer = weakref.finalize(self, self._library["close"], self._handle)

    def run(self) -> None:
        """Run the program once; return when every lane has finished."""
        self._run(self._handle)

    def benchmark(self, number: int, repeat: int) -> list[float]:
        """Return seconds a run: ``repeat`` samples, each the mean of ``number`` runs."""
        return list(self._library["benchmark"](self._handle, number, repeat))

    def time(self, samples: int, sample_seconds: float, tries: int) -> list[float]:
        """Return seconds a run of each sample.

        They are :class:`DisturbedSamples` if other work held lanes up; see
        ``runtime_ext/native/sampling.h``.
        """
        seconds, disturbed = self._library["time_program"](
            self._handle, samples, sample_seconds, tries
        )
        return DisturbedSamples(seconds) if disturbed else list(seconds)

    def profile_launches(self) -> list[list[float]]:
        """Return, for each launch of the only lane, its seconds in several rounds."""
        return [list(samples) for samples in self._library["profile_launches"](self._handle)]

    def profile(self) -> tuple[Span, ...]:
        """Run once, and return the times of every launch, lane by lane."""
        flat = list(self._library["profile"](self._handle))
        return tuple(
            Span(lane, launch, begin * 1e-9, end * 1e-9, held_up * 1e-9, runner)
            for lane, launch, begin, end, held_up, runner in zip(*[iter(flat)] * 6, strict=True)
        )

    def close(self) -> None:
        """End the threads; later runs are refused."""
        self._library["close"](self._handle)


def native_function(function: Callable[..., Any]) -> Any:
    """Return a function of buffers and numbers as the native library calls it."""
    # convert() wraps a compiled function again, as a Python one: each call would take the GIL.
    return function if isinstance(function, tvm_ffi.Function) else tvm_ffi.convert(function)


def encode_lane(lane: Sequence[Any]) -> list[int]:
    """Return a lane as the native library takes it; see ``runtime_ext/native/plan.h``."""
    code: list[int] = []
    for item in lane:
        if isinstance(item, Wait):
            code += (0, item.lane, item.launches)
        else:
            code += (2 if item.scalars else 1, item.kernel, item.begin, item.end, item.unit)
            code += (len(item.buffers), *item.buffers)
            if item.scalars:
                code += (len(item.scalars), *item.scalars)
    return code
