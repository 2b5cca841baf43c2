"""Which program of a deployment is taken, against brute force, and what a refusal says."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_ios.deployment.choice import Machine, Shapes, choose, misfit, reason, served_shapes
from tvm_ios.deployment.entry import Entry, TensorType, batch_of
from tvm_ios.deployment.registry import DeploymentError

#: What code of each level needs, as far as these tests go.
FEATURES = {"x86-64-v2": ("ssse3",), "x86-64-v3": ("avx2", "ssse3"), "sm_90": (), "sm_80": ()}
LEVELS = ("x86-64-v2", "x86-64-v3", "sm_80", "sm_90")


def entry(
    name: str,
    *shapes: tuple[int, ...],
    arch: str = "x86-64-v2",
    lanes: int = 1,
    padding: bool = True,
    latency: float | None = None,
) -> Entry:
    inputs = tuple(TensorType(n, s, "float32") for n, s in zip("xy", shapes, strict=False))
    return Entry(
        id=name,
        arch=arch,
        features=FEATURES[arch],
        lanes=lanes,
        inputs=inputs,
        outputs=(),
        batch=batch_of(inputs),
        padding=padding,
        policy="ios",
        latency_ms=latency,
        device=None,
        date="",
        bytes=0,
    )


MACHINE = Machine(frozenset(("ssse3", "avx2")), 2)
extents = st.integers(1, 3)
shapes = st.one_of(
    st.tuples(st.tuples(extents, extents)),
    st.tuples(st.tuples(extents, extents), st.tuples(extents, extents)),
)
machines = st.builds(
    Machine,
    features=st.frozensets(st.sampled_from(("ssse3", "avx2"))),
    lanes=st.integers(1, 3),
    gpu_archs=st.frozensets(st.sampled_from(("sm_80", "sm_90"))),
    streams=st.none() | st.integers(1, 3),
)
entries = st.lists(
    st.builds(
        lambda which, arch, lanes, padding, latency: entry(
            "", *which, arch=arch, lanes=lanes, padding=padding, latency=latency
        ),
        shapes,
        st.sampled_from(LEVELS),
        extents,
        st.booleans(),
        st.none() | st.sampled_from((1.0, 2.0)),
    ),
    max_size=8,
).map(lambda found: [replace(e, id=f"e{n}") for n, e in enumerate(found)])


def runs(entry: Entry, machine: Machine) -> bool:
    if entry.arch.startswith("sm_"):
        return entry.arch in machine.gpu_archs and entry.lanes <= (machine.streams or entry.lanes)
    return set(entry.features) <= machine.features and entry.lanes <= machine.lanes


def rows_to_run(entry: Entry, given: Shapes) -> int | None:
    """Rows that the program computes for these inputs; None if it cannot take them.

    Tried, not reasoned: the inputs grow, all by a row, until they are the program's.
    """
    wanted = {port.name: port.shape for port in entry.inputs}
    grown = dict(given)
    if wanted == grown:
        return next(iter(grown.values()))[0]
    equal_rows = len({shape[0] for shape in grown.values()}) == 1
    for _ in range(3):
        if not entry.padding or not equal_rows:
            return None
        grown = {name: (rows + 1, *rest) for name, (rows, *rest) in grown.items()}
        if wanted == grown:
            return next(iter(grown.values()))[0]
    return None


@given(entries, machines, shapes)
def test_the_taken_one_is_the_best_of_those_that_can(
    entries: list[Entry], machine: Machine, which: tuple[tuple[int, ...], ...]
) -> None:
    given_shapes = dict(zip("xy", which, strict=False))
    able = {
        e.id: rows
        for e in entries
        if runs(e, machine) and (rows := rows_to_run(e, given_shapes)) is not None
    }
    assert {e.id for e in entries if misfit(e, machine, given_shapes) is None} == able.keys()
    if not able:
        with pytest.raises(DeploymentError):
            choose(entries, machine, given_shapes)
        return
    taken = choose(entries, machine, given_shapes)
    others = [e for e in entries if e.id in able and e.id != taken.id]
    # Where two inputs differ in rows there is one shape only.
    assert all(able[taken.id] <= able[e.id] for e in others)
    others = [e for e in others if able[e.id] == able[taken.id]]
    assert all(LEVELS.index(taken.arch) >= LEVELS.index(e.arch) for e in others)
    others = [e for e in others if e.arch == taken.arch]
    assert all(taken.lanes >= e.lanes for e in others)
    others = [e for e in others if e.lanes == taken.lanes]
    assert all((taken.latency_ms or 9) <= (e.latency_ms or 9) for e in others)
    assert choose(entries[::-1], machine, given_shapes) == taken


def test_a_refusal_names_what_there_is() -> None:
    there = [entry("a", (1, 3)), entry("b", (8, 3)), entry("c", (8, 5), padding=False)]
    with pytest.raises(DeploymentError) as refused:
        choose(there, MACHINE, {"x": (9, 3)})
    assert str(refused.value) == (
        "no program takes x:9x3; there are those for x:1x3; x:8x3 or fewer rows; x:8x5"
    )
    assert misfit(there[1], MACHINE, {"x": (9, 3)}) == "9 rows are more than 8"
    assert "not known to be independent" in str(misfit(there[2], MACHINE, {"x": (2, 5)}))
    assert misfit(there[0], MACHINE, {"z": (1, 3)}) == "there is no input 'z'; there are: x"
    assert misfit(there[0], MACHINE, {"x": (1, 4)}) == "x:1x3 is given as 1x4"
    assert misfit(there[0], MACHINE, {}) == "input 'x' is not given"


def test_a_refusal_of_the_machine_says_what_it_lacks() -> None:
    there = [entry("a", (1, 3), arch="x86-64-v3", lanes=2)]
    with pytest.raises(DeploymentError, match="x86-64-v3 with 2 lanes, and the CPU lacks avx2"):
        choose(there, Machine(frozenset(("ssse3",)), 2), {"x": (1, 3)})
    with pytest.raises(DeploymentError, match="it has 2 lanes, and 1 may be used"):
        choose(there, replace(MACHINE, lanes=1), {"x": (1, 3)})
    with pytest.raises(DeploymentError, match="no GPU that runs sm_90"):
        choose([entry("g", (1, 3), arch="sm_90")], MACHINE, {"x": (1, 3)})
    with pytest.raises(DeploymentError, match="no entries"):
        choose([], MACHINE, {"x": (1, 3)})


def test_an_exact_batch_goes_before_a_higher_level() -> None:
    small, padded = entry("a", (1, 3)), entry("b", (8, 3), arch="x86-64-v3", lanes=2)
    assert choose([small, padded], MACHINE, {"x": (1, 3)}) == small
    assert reason(padded, small) == "fits, but a has a smaller batch"
    assert choose([small, padded], MACHINE, {"x": (2, 3)}) == padded


def test_inputs_that_differ_in_rows_are_not_padded() -> None:
    there = [entry("a", (8, 3), (1, 3))]
    assert there[0].batch is None
    assert misfit(there[0], MACHINE, {"x": (4, 3), "y": (1, 3)}) == "x:8x3 is given as 4x3"
    assert served_shapes(there) == ["x:8x3, y:1x3"]
