"""Which program of a deployment is taken, against brute force, and what a refusal says."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime_ext.deployment.choice import Shapes, all_shapes, choose, verdicts
from runtime_ext.deployment.machine import Machine
from tvm_ios.deployment.entry import Entry, OpenAxis, TensorType, batch_of
from tvm_ios.deployment.registry import DeploymentError, Registry, read_registry, write_registry
from tvm_ios.files.atomic import temporary_folder

#: What code of each level needs, as far as these tests go.
FEATURES = {"x86-64-v2": ("ssse3",), "x86-64-v3": ("avx2", "ssse3"), "sm_90": (), "sm_80": ()}
LEVELS = ("x86-64-v2", "x86-64-v3", "sm_80", "sm_90")


#: An extent, or an open one: its symbol, the least, the steps and how far each goes.
Extent = int | tuple[str, int, int, int]


def input_of(name: str, shape: tuple[Extent, ...]) -> TensorType:
    axes = [
        OpenAxis(axis, extent[0], extent[1], extent[1] + extent[2] * extent[3], extent[3])
        for axis, extent in enumerate(shape)
        if isinstance(extent, tuple)
    ]
    known = tuple(-1 if isinstance(extent, tuple) else extent for extent in shape)
    return TensorType(name, known, "float32", tuple(axes))


def entry(
    name: str,
    *shapes: tuple[Extent, ...],
    arch: str = "x86-64-v2",
    lanes: int = 1,
    padding: bool = True,
    latency: float | None = None,
    device: str | None = None,
) -> Entry:
    inputs = tuple(input_of(n, s) for n, s in zip("xy", shapes, strict=False))
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
        device=device,
        date="",
        bytes=0,
    )


MACHINE = Machine(frozenset(("ssse3", "avx2")), 2)
#: Names of machines, most of one kind; some end in something else than lanes.
devices = st.sampled_from([f"Xeon, x86-64-v3, {lanes} lanes" for lanes in (1, 2, 3)]) | (
    st.sampled_from(("Xeon, x86-64-v3", "EPYC, 1 lanes", "1 lanes", "EPYC, lanes", "EPYC,1 lanes"))
    | st.none()
)
extents = st.integers(1, 3)
#: The shapes of one or of two inputs.
shapes_of = {
    1: st.tuples(st.tuples(extents, extents)),
    2: st.tuples(st.tuples(extents, extents), st.tuples(extents, extents)),
}


@st.composite
def ranges_of(draw: st.DrawFn, inputs: int) -> tuple[tuple[Extent, ...], ...]:
    """The shapes of inputs of a range; some dimensions have a symbol in common."""
    steps = {symbol: draw(st.integers(0, 2)) for symbol in "nm"}
    return tuple(
        tuple(
            draw(extents)
            if symbol is None
            else (symbol, draw(extents), steps[symbol], draw(st.integers(1, 2)))
            for symbol in draw(st.tuples(*[st.sampled_from((None, "n", "m"))] * 2))
        )
        for _ in range(inputs)
    )


def shapes_in(entry: Entry) -> list[dict[str, tuple[int, ...]]]:
    """All shapes of a range, or the one of an entry without."""
    steps = {axis.symbol: axis.steps for port in entry.inputs for axis in port.open}
    every = [
        dict(zip(steps, numbers, strict=True))
        for numbers in product(*(range(count + 1) for count in steps.values()))
    ]
    return [
        {
            port.name: tuple(
                next((a.least + at[a.symbol] * a.step for a in port.open if a.axis == axis), extent)
                for axis, extent in enumerate(port.shape)
            )
            for port in entry.inputs
        }
        for at in every
    ]


machines = st.builds(
    Machine,
    features=st.frozensets(st.sampled_from(("ssse3", "avx2"))),
    lanes=st.integers(1, 3),
    gpu_archs=st.frozensets(st.sampled_from(("sm_80", "sm_90"))),
    streams=st.none() | st.integers(1, 3),
)


def entries_of(inputs: int) -> st.SearchStrategy[list[Entry]]:
    """Entries with this many inputs."""
    return st.lists(
        st.builds(
            lambda which, arch, lanes, padding, latency, device: entry(
                "", *which, arch=arch, lanes=lanes, padding=padding, latency=latency, device=device
            ),
            shapes_of[inputs] | ranges_of(inputs),
            st.sampled_from(LEVELS),
            extents,
            st.booleans(),
            st.none() | st.sampled_from((1.0, 2.0)),
            devices,
        ),
        max_size=8,
    ).map(lambda found: [replace(e, id=f"e{n}") for n, e in enumerate(found)])


def with_rivals(draw: st.DrawFn, entries: list[Entry]) -> list[Entry]:
    """The same, or all for the shapes and the level of the first, most measured on one machine."""
    if not entries or draw(st.booleans()):
        return entries
    first = entries[0]
    use = {"arch": first.arch, "features": first.features}
    alike = [replace(e, inputs=first.inputs, batch=first.batch, **use) for e in entries]
    if draw(st.booleans()):
        return alike
    return [
        replace(e, latency_ms=e.latency_ms or 1.5, device=f"EPYC, {e.lanes} lanes") for e in alike
    ]


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Entry], Shapes]:
    """Entries, and shapes that often one of them has."""
    inputs = draw(st.sampled_from((1, 2)))
    there = with_rivals(draw, draw(entries_of(inputs)))
    # A padded entry has a batch.
    there = [
        replace(e, padding=e.padding and e.batch is not None and not e.is_of_range) for e in there
    ]
    if there and draw(st.booleans()):
        return there, draw(st.sampled_from(shapes_in(draw(st.sampled_from(there)))))
    given = draw(shapes_of[draw(st.sampled_from((inputs, inputs, 1, 2)))])
    return there, dict(zip("xy", given, strict=False))


def misfit(entry: Entry, machine: Machine, shapes: Shapes) -> str | None:
    """Why an entry alone does not run; None if it does."""
    (verdict,) = verdicts([entry], machine, shapes)
    return None if verdict.fits else verdict.reason


def reason(entries: list[Entry], name: str, shapes: Shapes, machine: Machine = MACHINE) -> str:
    """What is said of the entry of this name."""
    return dict(zip([e.id for e in entries], verdicts(entries, machine, shapes), strict=True))[
        name
    ].reason


def runs(entry: Entry, machine: Machine) -> bool:
    if entry.arch.startswith("sm_"):
        return entry.arch in machine.gpu_archs and entry.lanes <= (machine.streams or entry.lanes)
    return set(entry.features) <= machine.features and entry.lanes <= machine.lanes


def way_to_run(entry: Entry, given: Shapes) -> tuple[int, int] | None:
    """How the program takes these inputs, less what is better; None if it cannot.

    Just these, as one of so many shapes, or with so many rows. Tried, not reasoned: the inputs
    grow, all by a row, until they are the program's.
    """
    every = shapes_in(entry)
    grown = dict(given)
    if grown in every:
        return (1, len(every)) if entry.is_of_range else (0, 0)
    if entry.is_of_range:
        return None
    (wanted,) = every
    equal_rows = len({shape[0] for shape in grown.values()}) == 1
    for _ in range(3):
        if not entry.padding or not equal_rows:
            return None
        grown = {name: (rows + 1, *rest) for name, (rows, *rest) in grown.items()}
        if wanted == grown:
            return 2, next(iter(grown.values()))[0]
    return None


def measured_on(entry: Entry) -> str | None:
    """The kind of machine, by the words of its name."""
    if entry.latency_ms is None or entry.device is None:
        return None
    *words, last = entry.device.split(", ")
    count, _, unit = last.partition(" ")
    return ", ".join(words if words and count.isdigit() and unit == "lanes" else [*words, last])


@given(cases(), machines)
def test_the_taken_one_is_the_best_of_those_that_can(
    case: tuple[list[Entry], Shapes], machine: Machine
) -> None:
    entries, given_shapes = case
    able = {
        e.id: way
        for e in entries
        if runs(e, machine) and (way := way_to_run(e, given_shapes)) is not None
    }
    judged = verdicts(entries, machine, given_shapes)
    whys = {e.id: verdict for e, verdict in zip(entries, judged, strict=True)}
    assert {name for name, verdict in whys.items() if verdict.fits} == able.keys()
    if not able:
        with pytest.raises(DeploymentError):
            choose(entries, machine, given_shapes)
        return
    taken = choose(entries, machine, given_shapes)
    assert [name for name, verdict in whys.items() if verdict.taken] == [taken.id]
    more = able[taken.id][0] == 2
    assert whys[taken.id].reason.startswith("taken, " if more else "taken")
    assert ("padded" in whys[taken.id].reason) == more
    assert all(f"fits, but {taken.id} " in whys[name].reason for name in able.keys() - {taken.id})
    others = [e for e in entries if e.id in able and e.id != taken.id]
    # Where two inputs differ in rows there is one shape only.
    assert all(able[taken.id] <= able[e.id] for e in others)
    others = [e for e in others if able[e.id] == able[taken.id]]
    assert all(LEVELS.index(taken.arch) >= LEVELS.index(e.arch) for e in others)
    others = [e for e in others if e.arch == taken.arch]
    reasons = [whys[e.id].reason for e in others]
    kinds = {measured_on(e) for e in (taken, *others)}
    if len(kinds) == 1 and kinds != {None}:
        assert all((taken.latency_ms or 9) <= (e.latency_ms or 9) for e in others)
        assert not any(
            "more lanes" in why and taken.latency_ms != e.latency_ms
            for why, e in zip(reasons, others, strict=True)
        )
    else:
        assert all(taken.lanes >= e.lanes for e in others)
        others = [e for e in others if e.lanes == taken.lanes]
        assert all((taken.latency_ms or 9) <= (e.latency_ms or 9) for e in others)
    assert choose(entries[::-1], machine, given_shapes) == taken


def test_a_range_goes_before_more_rows_and_after_its_own_shape() -> None:
    batch, length = ("batch", 1, 31, 1), ("length", 1, 511, 1)
    exact, padded = entry("exact", (2, 8)), entry("padded", (8, 8))
    wide = entry("wide", (batch, length), padding=False)
    narrow = entry("narrow", (batch, ("length", 1, 7, 1)), padding=False, arch="x86-64-v2")
    fast = entry("fast", (batch, length), padding=False, arch="x86-64-v3", lanes=2)
    there = [padded, wide, narrow, exact, fast]
    asked = {"x": (2, 8)}
    assert choose(there, MACHINE, asked) == exact
    assert reason(there, "narrow", asked) == "fits, but exact is for this shape alone"
    assert reason(there, "padded", asked) == "fits, but exact has a smaller batch"
    asked = {"x": (3, 8)}
    assert choose(there, MACHINE, asked) == narrow
    assert reason(there, "padded", asked) == "fits, but narrow needs no more rows"
    assert reason(there, "wide", asked) == "fits, but narrow is for a smaller range"
    assert choose(there, MACHINE, {"x": (3, 9)}) == fast
    assert reason(there, "wide", {"x": (3, 9)}) == "fits, but fast is for a higher level"
    assert reason(there, "narrow", {"x": (3, 9)}) == "x:1..32x1..8 is given as 3x9"
    assert choose([padded, wide], replace(MACHINE, lanes=1), {"x": (8, 8)}) == padded
    # Without shapes a deployment of ranges is asked for a middle.
    assert wide.shapes == {"x": (5, 22)}
    assert choose([wide, narrow], MACHINE) == wide
    assert choose([wide, padded], MACHINE) == padded
    assert [v.reason for v in verdicts([wide, padded], MACHINE)] == ["taken", "taken"]


def test_dimensions_of_one_symbol_agree() -> None:
    length = ("length", 1, 7, 1)
    there = [entry("a", (1, length), (("length", 8, 7, 8), 3), padding=False)]
    assert choose(there, MACHINE, {"x": (1, 2), "y": (16, 3)}) == there[0]
    assert misfit(there[0], MACHINE, {"x": (1, 2), "y": (24, 3)}) == (
        "y:8..64:8x3 is given as 24x3 beside x:1x2"
    )
    assert misfit(there[0], MACHINE, {"x": (1, 2), "y": (17, 3)}) == "y:8..64:8x3 is given as 17x3"
    with pytest.raises(DeploymentError, match=r"there are those for x:1x1..8, y:8..64:8x3$"):
        choose(there, MACHINE, {"x": (1, 9), "y": (16, 3)})


@given(st.data())
def test_shapes_of_other_inputs_are_those_of_a_range(data: st.DataObject) -> None:
    one = entry("a", *data.draw(ranges_of(2)), padding=False)
    every = shapes_in(one)
    assert one.shapes in every
    whole = data.draw(st.sampled_from(every))
    known = {axis.symbol for axis in one.inputs[0].open}
    completed = all_shapes([one], {"x": whole["x"]})
    assert completed in ([*every, {"x": whole["x"]}] if not one.is_of_range else every)
    if one.is_of_range:
        assert completed["x"] == whole["x"]
        if {axis.symbol for axis in one.inputs[1].open} <= known:
            assert completed == whole
    wrong = {"x": (whole["x"][0], 99)}
    assert all_shapes([one], wrong) == wrong


@given(entries_of(2), machines)
def test_what_is_written_of_entries_is_read(entries: list[Entry], machine: Machine) -> None:
    entries = [replace(e, padding=False) for e in entries]
    registry = Registry("model", "0" * 64, tuple(entries))
    with temporary_folder() as folder:
        write_registry(folder, registry)
        assert read_registry(folder) == registry
        version = json.loads((folder / "deployment.json").read_text())["version"]
    assert version == (2 if any(e.is_of_range for e in entries) else 1)
    taken = [v.taken for v in verdicts(entries, machine)]
    assert any(taken) == any(runs(e, machine) for e in entries)


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
    assert reason([small, padded], "b", {"x": (1, 3)}) == "fits, but a has a smaller batch"
    assert choose([small, padded], MACHINE, {"x": (2, 3)}) == padded
    assert reason([small, padded], "b", {"x": (2, 3)}) == "taken, 2 rows padded to 8"
    assert [v.reason for v in verdicts([small, padded], MACHINE)] == ["taken", "taken"]
    assert choose([padded, small], MACHINE) == small


def test_more_lanes_that_were_slower_on_the_same_machine_are_not_taken() -> None:
    one = entry("one", (1, 3), latency=1.0, device="EPYC, x86-64-v2, 1 lanes")
    two = entry("two", (1, 3), lanes=2, latency=2.0, device="EPYC, x86-64-v2, 2 lanes")
    asked = {"x": (1, 3)}
    assert choose([one, two], MACHINE, asked) == one
    assert reason([one, two], "two", asked) == "fits, but one was faster on the same machine"
    for other in (
        replace(two, latency_ms=None, device=None),
        replace(two, device="Xeon, x86-64-v2, 2 lanes"),
    ):
        assert choose([one, other], MACHINE, asked) == other
        assert reason([one, other], "one", asked) == "fits, but two has more lanes"
        assert choose([one, other], replace(MACHINE, lanes=1), asked) == one
    # Where one was not measured nobody knows: lanes decide, also between the others.
    three = entry("three", (1, 3), lanes=3)
    assert choose([one, two, three], replace(MACHINE, lanes=3), asked) == three
    assert choose([one, two, three], MACHINE, asked) == one
    quick = replace(two, latency_ms=0.5)
    assert reason([one, quick], "one", asked) == "fits, but two was faster on the same machine"


def test_inputs_that_differ_in_rows_are_not_padded() -> None:
    there = [entry("a", (8, 3), (1, 3), padding=False)]
    assert there[0].batch is None
    assert misfit(there[0], MACHINE, {"x": (4, 3), "y": (1, 3)}) == "x:8x3 is given as 4x3"
    with pytest.raises(DeploymentError, match=r"there are those for x:8x3, y:1x3$"):
        choose(there, MACHINE, {"x": (4, 3), "y": (1, 3)})


def test_levels_are_in_the_order_of_their_numbers() -> None:
    archs = ("aarch64", "x86-64-v3", "x86-64-v10", "sm_80", "sm_90a", "sm_103f")
    there = [replace(entry(arch, (1, 3)), arch=arch, features=()) for arch in archs]
    machine = replace(MACHINE, gpu_archs=frozenset(archs))
    for lower, higher in pairwise(there):
        for pair in ([lower, higher], [higher, lower]):
            assert choose(pair, machine, {"x": (1, 3)}) == higher
            why = f"fits, but {higher.id} is for a higher level"
            assert reason(pair, lower.id, {"x": (1, 3)}, machine) == why
    for unknown in ("x86-64-v", "sm_", "x3"):
        pair = [replace(there[0], arch=unknown), there[0]]
        assert "level" not in reason(pair[::-1], pair[0].id, {"x": (1, 3)}, machine)


def test_a_scalar_has_no_rows() -> None:
    there = [entry("a", (), padding=False)]
    assert choose(there, MACHINE, {"x": ()}) == there[0]
    assert misfit(there[0], MACHINE, {"x": (2,)}) == "x: is given as 2"
    with pytest.raises(DeploymentError, match=r"no program takes x:a scalar; there are .* x:2"):
        choose([entry("b", (2,))], MACHINE, {"x": ()})
    assert misfit(entry("b", (2,)), MACHINE, {"x": (0,)}) == "x:2 is given as 0"


def test_what_entries_misstate_is_one_sentence() -> None:
    unlike = [entry("a", (1, 3)), entry("b", (1, 3), (1, 3))]
    with pytest.raises(DeploymentError, match="the inputs of b are not those of other entries"):
        choose(unlike, MACHINE, {"x": (1, 3)})
    with pytest.raises(DeploymentError, match="no entries"):
        choose([], MACHINE)
