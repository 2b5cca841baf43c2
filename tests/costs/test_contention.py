from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fast_run import examples
from tvm_ios.costs.contention import Launch, launch_spans, makespans
from tvm_ios.costs.kernel_estimate import KernelEstimate
from tvm_ios.devices.device import DeviceDescription, load_device

DEVICE = replace(load_device("v100"), processors=4, bandwidth=100.0)
OVERHEAD = 0.25


def simulated(program: Sequence[Launch], device: DeviceDescription) -> float:
    """The same rules, one event after another."""
    now = 0.0
    begin: dict[int, float] = {}
    left = {place: 1.0 for place in range(len(program))}
    while left:
        for place in left:
            launch = program[place]
            if place not in begin and not any(source in left for source in launch.after):
                begin[place] = max(now + launch.delay, launch.earliest)
        running = [place for place in left if place in begin and begin[place] <= now]
        blocks = sum(program[place].kernel.blocks for place in running)
        fullest = math.ceil(blocks / device.processors)
        load = sum(program[p].kernel.share * program[p].kernel.blocks for p in running)
        slower = 1 + OVERHEAD * max(0, len(running) - 1)
        slower = max(slower, fullest * load / max(1, blocks))
        seconds = {
            place: kernel.block_seconds
            * max(slower, kernel.share * math.ceil(kernel.blocks / device.processors))
            for place, kernel in ((place, program[place].kernel) for place in running)
        }
        traffic = sum(program[place].kernel.bytes / seconds[place] for place in running)
        seconds = {p: s * max(1.0, traffic / device.bandwidth) for p, s in seconds.items()}
        waiting = [begin[place] - now for place in left if begin.get(place, now) > now]
        step = min([*waiting, *(left[place] * seconds[place] for place in running)])
        now += step
        for place in running:
            left[place] -= step / seconds[place]
            if left[place] < 1e-9:
                del left[place]
    return now


@st.composite
def programs(draw: st.DrawFn) -> list[Launch]:
    count = draw(st.integers(0, 7))
    return [
        Launch(
            KernelEstimate(
                draw(st.integers(1, 9)),
                draw(st.sampled_from([0.25, 1.0, 3.0])),
                draw(st.sampled_from([0.25, 0.5, 1.0])),
                draw(st.sampled_from([0, 10, 400])),
                0.0,
            ),
            tuple(draw(st.sets(st.integers(0, place - 1), max_size=2)) if place else ()),
            draw(st.sampled_from([0.0, 0.5, 1.25])),
            draw(st.sampled_from([0.0, 2.0])),
        )
        for place in range(count)
    ]


@examples(100)
@given(st.lists(programs(), max_size=5))
def test_many_programs_at_once_are_as_one_event_after_another(several: list[list[Launch]]) -> None:
    expected = [simulated(program, DEVICE) for program in several]
    assert makespans(several, DEVICE, OVERHEAD).tolist() == pytest.approx(expected, rel=1e-9)


@examples(40)
@given(programs())
def test_launches_end_when_one_event_after_another_says_so(program: list[Launch]) -> None:
    spans = launch_spans(program, DEVICE, OVERHEAD)
    assert len(spans) == len(program)
    ends = [end for _, end in spans]
    assert max(ends, default=0.0) == pytest.approx(simulated(program, DEVICE))
    for launch, (begin, end) in zip(program, spans, strict=True):
        assert begin <= end
        ready = max((ends[source] for source in launch.after), default=0.0)
        assert begin == pytest.approx(max(ready + launch.delay, launch.earliest))
        # Alone on the device it takes no longer than here.
        assert end - begin >= launch.kernel.seconds(DEVICE) * (1 - 1e-6)


@examples(50)
@given(programs())
def test_no_program_beats_its_longest_path_or_the_whole_device(program: list[Launch]) -> None:
    seconds = float(makespans([program], DEVICE)[0])
    ends: list[float] = []
    for launch in program:
        ready = max((ends[source] for source in launch.after), default=0.0)
        ends.append(ready + launch.delay + launch.kernel.seconds(DEVICE))
    work = sum(x.kernel.block_seconds * x.kernel.share * x.kernel.blocks for x in program)
    moved = sum(launch.kernel.bytes for launch in program)
    bounds = (*ends, work / DEVICE.processors, moved / DEVICE.bandwidth)
    assert seconds >= max(bounds) * (1 - 1e-9)


def test_programs_of_hundreds_of_launches() -> None:
    kernel = KernelEstimate(4, 1.0, 1.0, 0, 0.0)
    chain = [Launch(kernel, (place - 1,) if place else (), 0.5) for place in range(300)]
    assert makespans([chain], DEVICE)[0] == pytest.approx(450)
