from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_ios.explain.advice import advise
from tvm_ios.explain.bounds import Bound, Peaks, Region

PEAKS = Peaks(flops=100e9, bandwidth=10e9, cache=1 << 20)
BUSY = Region(
    units=(0, 1, 2),
    seconds=1e-3,
    bounds={Bound.CRITICAL_PATH: 0.5e-3, Bound.LANES: 0.97e-3, Bound.ARITHMETIC: 0.4e-3},
    path=(0, 1, 2),
    busy=0.97,
    waiting=0.02,
    launching=0.01,
    launches=6,
    flops=40_000_000,
    nbytes=1_000_000,
    memory_bytes=0,
)
WAITING = replace(BUSY, busy=0.58, waiting=0.4, launching=0.02)


def bounded(region: Region, **seconds: float) -> Region:
    return replace(region, bounds={**region.bounds, **{Bound[k]: v for k, v in seconds.items()}})


@pytest.mark.parametrize(
    ("region", "searched", "words"),
    [
        (BUSY, True, ("both lanes are busy 97%", "40% of the arithmetic peak", "tune")),
        (replace(BUSY, flops=None), True, ("both lanes are busy 97%", "tune")),
        (replace(BUSY, flops=90_000_000), False, ("at 90% of the machine's arithmetic peak",)),
        (replace(BUSY, flops=10), False, ("moving data (1.0 MB at 1 GB/s)", "fuse more")),
        (
            replace(bounded(BUSY, MEMORY=0.8e-3), memory_bytes=8_000_000),
            False,
            ("memory-bound: 8.0 MB do not stay in the caches", "80%", "sub-graph instances"),
        ),
        (WAITING, False, ("wait 40%", "longest chain of kernels takes only 50%", "side")),
        (WAITING, True, ("wait 40%", "found no better groups", "--measure full")),
        (
            bounded(WAITING, CRITICAL_PATH=0.9e-3),
            False,
            ("critical path: both lanes wait 40%", "the chain a → … → c"),
        ),
        (
            replace(BUSY, busy=0.5, waiting=0.1, launching=0.4, launches=60),
            False,
            ("launch overhead: 60 launches at 13.3 µs take 40%", "ios-merge", "fewer lanes"),
        ),
        (
            replace(BUSY, busy=0.5, waiting=0.1, launching=0.4),
            False,
            ("lanes were not running 40% of the time: 133 µs before each launch", "quiet"),
        ),
        (replace(BUSY, flops=280_000_000), True, ("at 280% of the arithmetic peak", "quiet")),
    ],
)
def test_the_numbers_choose_the_sentence(region: Region, searched: bool, words: tuple[str]) -> None:
    sentence = advise(region, ("a", "b", "c"), PEAKS, 2, searched, (0, 1, 2))
    for word in words:
        assert word in sentence


def test_lanes_are_counted_in_words() -> None:
    assert advise(BUSY, (), PEAKS, 1, False, ()).startswith("the lane is busy")
    assert advise(BUSY, (), PEAKS, 4, False, ()).startswith("all 4 lanes are busy")
    alone = replace(BUSY, busy=0.5, waiting=0.0, launching=0.5)
    assert "fewer lanes" not in advise(alone, (), PEAKS, 1, False, ())


def test_a_chain_of_one_or_two_names_each_once() -> None:
    region = replace(bounded(WAITING, CRITICAL_PATH=0.9e-3), path=(1,))
    assert "the chain b," in advise(region, ("a", "b", "c"), PEAKS, 2, False, ())
    region = replace(region, path=(1, 2))
    assert "the chain b → c," in advise(region, ("a", "b", "c"), PEAKS, 2, False, ())


def test_a_block_without_kernels_needs_no_advice() -> None:
    assert advise(replace(BUSY, seconds=0.0), (), PEAKS, 2, False, ()) == "it runs no kernels"


def test_tuning_is_advised_for_what_can_be_tuned() -> None:
    chain = replace(bounded(WAITING, CRITICAL_PATH=0.9e-3), path=(0, 2))
    for region, others in ((BUSY, (3,)), (replace(BUSY, flops=None), (3,)), (chain, (1,))):
        assert advise(region, ("a", "b", "c"), PEAKS, 2, False, (2, 3)).endswith("`tvm-ios tune`")
        sentence = advise(region, ("a", "b", "c"), PEAKS, 2, False, others)
        assert "tvm-ios tune" not in sentence
        assert "none can be tuned" in sentence
