"""Kernels of several operators: their CUDA C++ run on the CPU, and compiled for a GPU."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fused_harness import Network, OnCpu, network
from tvm import relax

from runtime_ext.cuda.fused_kernel import FusedKernel, fuse
from tvm_ios.devices import load_device
from tvm_ios.occupancy import OccupancyError
from tvm_ios.persistent import PersistentProgram
from tvm_ios.persistent_lowering import lower_persistent

op = relax.op
VEUS = 5


def inception(emit: Any, x: Any, w1: Any, w3: Any, w5: Any) -> list[Any]:
    """Three branches: 1x1; 1x1 and 3x3; pool. They meet in a concatenation and a softmax."""
    first = emit(op.nn.relu(emit(op.nn.conv2d(x, w1))))
    second = emit(op.nn.conv2d(first, w3, padding=1))
    pooled = emit(op.nn.max_pool2d(x, (3, 3), padding=(1, 1)))
    third = emit(op.nn.conv2d(pooled, w5))
    joined = emit(op.concat([first, second, third], axis=1))
    rows = emit(op.reshape(joined, (24, 49)))
    return [emit(op.nn.softmax(rows, axis=-1)), second]


@pytest.fixture(scope="module")
def block() -> Network:
    return network([(1, 8, 7, 7), (8, 8, 1, 1), (8, 8, 3, 3), (8, 8, 1, 1)], inception)


def lowered(net: Network, lanes: int = VEUS, seed: int = 0) -> PersistentProgram:
    return lower_persistent(net.graph, net.stage, net.placement(lanes, seed), net.code, lanes=lanes)


def check(net: Network, program: PersistentProgram, run: OnCpu, seed: int) -> None:
    found = run(program, net.inputs, seed)
    for name, value in net.expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-5)


def test_persistent_kernel_computes_the_network(block: Network, tmp_path: Path) -> None:
    program = lowered(block)
    made = fuse(program, block.kernels, load_device("h200"))
    assert made.table is not None
    assert made.launchable.cleared == (len(made.buffers),)
    assert made.kernel.grid == (VEUS, 1, 1)
    assert made.kernel.block[0] == max(k.threads for k in block.kernels.values())
    run = OnCpu(made.kernel.source, made, tmp_path)
    for seed in range(4):
        check(block, program, run, seed)
