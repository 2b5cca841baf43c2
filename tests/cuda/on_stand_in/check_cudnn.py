from __future__ import annotations

import gc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime_ext.cuda.executor import CudaExecutor
from runtime_ext.cuda.machine_code.launchable import read_kernels, write_kernels
from runtime_ext.cuda.nvidia import cudnn
from runtime_ext.cuda.nvidia.cudnn import CudnnRefusal
from runtime_ext.cuda.nvidia.cudnn_convolution import CudnnLanes
from runtime_ext.cuda.nvidia.driver import open_device
from runtime_ext.cuda.nvidia.memory import DeviceMemory
from runtime_ext.cuda.nvidia.resources import stream
from runtime_ext.kernels.library_convolution import Image, LibraryConvolution
from runtime_ext.native_errors import KernelError
from tests.cuda.convolutions import (
    TOLERANCE,
    Array,
    buffers_of,
    convolution,
    drawn,
    packed,
    reference,
    view,
)
from tests.cuda.on_stand_in.stand_in import calls, live, seed
from tests.cuda.random_convolutions import convolutions
from tests.fast_run import examples
from tests.refusals import refused
from tvm_ios.program.program import Buffer, KernelUse, Launch, Program, Role, Wait


class Running:
    """Convolutions, each on a lane of its own and then all again on the next one's lane."""

    def __init__(self, kernels: list[LibraryConvolution], captured: bool = True) -> None:
        self.kernels, self.data = kernels, [drawn(call, n) for n, call in enumerate(kernels)]
        buffers: list[Buffer] = []
        places: list[tuple[int, ...]] = []
        for number, call in enumerate(kernels):
            first, types = len(buffers), buffers_of(call)
            buffers += [Buffer(f"{number}.{i}", t, Role.OUTPUT) for i, t in enumerate(types)]
            places.append(tuple(range(first, len(buffers))))
        lanes = [
            (
                Launch(n, places[n], 0, 1, n),
                *((Wait((n + 1) % len(kernels), 1),) if len(kernels) > 1 else ()),
                Launch((n + 1) % len(kernels), places[(n + 1) % len(kernels)], 0, 1, n),
            )
            for n in range(len(kernels))
        ]
        program = Program(
            tuple(lanes),
            tuple(f"call{n}" for n in range(len(kernels))),
            tuple(buffers),
            tuple(f"unit{n}" for n in range(len(kernels))),
            tuple(KernelUse(1, len(bs), (2,)) for bs in places),
        )
        device = open_device()
        self.memory = DeviceMemory(device, program, {})
        self.executor = CudaExecutor(
            program,
            {f"call{n}": call for n, call in enumerate(kernels)},
            self.memory.addresses,
            device=device,
            captured=captured,
        )

    def check(self) -> None:
        for number, buffers in enumerate(self.data):
            for place, array in enumerate(buffers):
                self.memory.write(f"{number}.{place}", array)
        self.executor.run()
        for number, (call, buffers) in enumerate(zip(self.kernels, self.data, strict=True)):
            result = self.memory.read(f"{number}.2")
            wanted = reference(call, buffers)
            error = np.abs(view(result, call.result) - wanted).max() / max(np.abs(wanted).max(), 1)
            assert error <= TOLERANCE[call.precision], (call, error)
            self._outside(call, result, buffers[2])

    @staticmethod
    def _outside(call: LibraryConvolution, result: Array, before: Array) -> None:
        inside = np.zeros(result.shape, bool)
        view(inside, call.result)[...] = True
        np.testing.assert_array_equal(result[~inside], before[~inside])


@examples(60)
@given(st.lists(convolutions(), min_size=1, max_size=4), st.booleans(), st.integers(0, 9999))
def test_convolutions_side_by_side(
    kernels: list[LibraryConvolution], captured: bool, number: int
) -> None:
    seed(number)
    running = Running(kernels, captured)
    for _ in range(3):
        running.check()
    running.executor.close()


def plain(**changes: Any) -> LibraryConvolution:
    """A small one, its images in NHWC."""
    return replace(convolution((1, 4, 6, 6), 8), **changes)


def test_chains_on_several_streams() -> None:
    """Two chains whose links take turns on three lanes: a lane's work is on its own stream."""
    extents = (1, 4, 6, 6)
    strides = packed(extents, True)
    link = plain(result=Image(2, 0, extents, strides), filter=(4, 4, 3, 3))
    image, weight, _ = buffers_of(link)
    links, lanes = 4, 3
    items: list[list[Launch | Wait]] = [[] for _ in range(lanes)]
    done: dict[int, tuple[int, int]] = {}
    # Images of chain c are buffers 5 c to 5 c + 4; the weights of all links follow the images.
    for step in range(links):
        for chain in range(2):
            lane = (step + chain) % lanes
            if step:
                items[lane].append(Wait(*done[chain]))
            arguments = (5 * chain + step, 10 + links * chain + step, 5 * chain + step + 1)
            items[lane].append(Launch(0, arguments, 0, 1, 0))
            done[chain] = lane, sum(isinstance(item, Launch) for item in items[lane])
    types = [image] * 10 + [weight] * (2 * links)
    buffers = tuple(Buffer(f"b{n}", kind, Role.OUTPUT) for n, kind in enumerate(types))
    uses = (KernelUse(1, 3, (2,)),)
    program = Program(tuple(map(tuple, items)), ("link",), buffers, ("u",), uses)
    device = open_device()
    memory = DeviceMemory(device, program, {})
    executor = CudaExecutor(program, {"link": link}, memory.addresses, device=device)
    assert live("cudnn handle") >= lanes
    rng = np.random.default_rng(0)
    for number in range(20):
        seed(number)
        values = [rng.uniform(-1, 1, kind.shape).astype("float32") for kind in types]
        for buffer, value in zip(buffers, values, strict=True):
            memory.write(buffer.name, value)
        executor.run()
        for chain in range(2):
            expected = values[5 * chain]
            for step in range(links):
                call = [expected, values[10 + links * chain + step], expected]
                expected = reference(link, call).transpose(0, 2, 3, 1).ravel().astype("float32")
            result = memory.read(f"b{5 * chain + links}")
            np.testing.assert_allclose(result, expected, atol=1e-4 * np.abs(expected).max())


def test_products_are_as_exact_as_asked_for() -> None:
    errors: dict[str, float] = {}
    for precision in ("float32", "tf32"):
        running = Running([plain(precision=precision)])
        running.check()
        result = view(running.memory.read("0.2"), running.kernels[0].result)
        errors[precision] = np.abs(result - reference(running.kernels[0], running.data[0])).max()
    assert errors["float32"] < 1e-5 < errors["tf32"]


def test_handles_are_used_again_and_all_else_is_given_back() -> None:
    gc.collect()
    Running([plain()] * 3).executor.close()
    gc.collect()
    kinds = ("stream", "event", "memory", "Tensor", "Filter", "Convolution", "Activation")
    before, handles = {kind: live(kind) for kind in kinds}, live("cudnn handle")
    running = Running([plain()] * 3)
    running.check()
    assert live("Convolution") > before["Convolution"]
    running.executor.close()
    del running
    gc.collect()
    assert {kind: live(kind) for kind in kinds} == before
    assert live("cudnn handle") == handles


def test_an_algorithm_is_chosen_once() -> None:
    call = plain(pads=(1, 1), bias=3, relu=True)
    Running([call]).executor.close()
    asked = calls("cudnnGetConvolutionForwardAlgorithm_v7")
    Running([call, call]).check()
    assert calls("cudnnGetConvolutionForwardAlgorithm_v7") == asked


def test_nothing_is_asked_while_a_run_is_replayed() -> None:
    running = Running([plain(bias=3, relu=True)])
    running.check()
    issued = calls("cudnnConvolutionBiasActivationForward")
    running.check()
    assert calls("cudnnConvolutionBiasActivationForward") == issued


def test_what_cudnn_does_not_compute_is_refused() -> None:
    # A dilated convolution with a bias and no activation: only one algorithm may, and does not.
    result = (1, 8, 4, 4)
    call = plain(dilations=(2, 2), result=Image(2, 0, result, packed(result, True)), bias=3)
    with refused(CudnnRefusal, "convolution", "dilated"):
        Running([call])
    with refused(CudnnRefusal, "CUDNN_STATUS_BAD_PARAM: channels do not fit"):
        Running([plain(groups=2)])


def test_a_stream_that_is_gone_is_said() -> None:
    device = open_device()
    queue = stream(device)
    lanes = CudnnLanes(device, {0: queue.handle})
    memory = Running([plain(strides=(1, 1), precision="tf32")]).memory
    bound = lanes.bind(0, plain(), memory.addresses)
    queue.close()
    with refused(CudnnRefusal, "the handle's stream is gone"):
        bound.issue()
    lanes.close()


def test_a_failing_convolution_names_its_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    running = Running([plain(precision="float16")])

    def fail(*_: Any) -> None:
        raise cudnn.CudnnError("cudnnConvolutionForward failed")

    monkeypatch.setattr(cudnn, "call", fail)
    with refused(KernelError, "'unit0'", "'call0'", "lane 0", "cudnnConvolutionForward"):
        running.executor.run()


def test_a_library_that_makes_no_handle_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    device = open_device()
    streams = live("stream")
    assert cudnn.usable_version(device) == "9.28.0"
    assert live("stream") == streams

    def fail(name: str, *_: Any) -> None:
        raise cudnn.CudnnError(f"{name} failed with CUDNN_STATUS_NOT_INITIALIZED")

    monkeypatch.setattr(cudnn, "call", fail)
    with refused(cudnn.CudnnError, "CUDNN_STATUS_NOT_INITIALIZED"):
        cudnn.usable_version(device)


def test_calls_are_written_and_read(tmp_path: Path) -> None:
    kernels = {
        "a": plain(),
        "b": plain(bias=3, relu=True, residual=replace(plain().result, argument=4)),
    }
    write_kernels(tmp_path / "kernels", "sm_90", kernels)
    assert read_kernels(tmp_path / "kernels") == ("sm_90", kernels)
    assert cudnn.version() == "9.28.0"
