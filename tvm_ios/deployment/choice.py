"""Choose the program of a deployment that a machine runs for given shapes, or say why none fits.

``runtime_ext/native`` has the same rule for C++.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tvm_ios.deployment.entry import Entry, TensorType
from tvm_ios.deployment.registry import DeploymentError

#: The shape of each input, by name.
Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Machine:
    """The features and limits by which a machine can run entries.

    Attributes
    ----------
    features
        CPU features that it has, in LLVM's names.
    lanes
        Threads that a program may use.
    gpu_archs
        The architectures of entries whose code its GPU runs.
    streams
        Streams that a program for a GPU may use; any number if None.
    """

    features: frozenset[str]
    lanes: int
    gpu_archs: frozenset[str] = frozenset()
    streams: int | None = None


def choose(entries: Sequence[Entry], machine: Machine, shapes: Shapes) -> Entry:
    """Return the entry that a machine runs for these shapes of all inputs.

    Of those that fit, the ones of the smallest batch, of these the ones of the highest
    instruction-set level (a GPU before any CPU). If all of these were measured on one machine, the
    fastest; else the one of the most lanes, then the fastest. Raise DeploymentError, which names
    the entries, if none fits.
    """
    fitting = [e for e in entries if misfit(e, machine, shapes) is None]
    if not fitting:
        raise DeploymentError(_refusal(entries, machine, shapes))
    best = min(map(_class, fitting))
    rivals = [entry for entry in fitting if _class(entry) == best]
    # More lanes are not always faster, but only one machine's latencies can tell.
    machines = {entry.machine for entry in rivals}
    if len(machines) == 1 and None not in machines:
        return min(rivals, key=lambda e: (_latency(e), -e.lanes, e.id.encode()))
    return min(rivals, key=lambda e: (-e.lanes, _latency(e), e.id.encode()))


def choose_smallest(entries: Sequence[Entry], machine: Machine) -> Entry:
    """Return the entry that a machine runs for the smallest batch of those that it can run.

    Raise DeploymentError, which names the entries, if none fits.
    """
    here = [entry for entry in entries if misfit(entry, machine) is None]
    smallest = min(here or entries, key=lambda entry: entry.batch or 0)
    return choose(entries, machine, smallest.shapes)


def misfit(entry: Entry, machine: Machine, shapes: Shapes | None = None) -> str | None:
    """Return why a machine cannot run an entry for these shapes, or at all; None if it can."""
    return _machine_misfit(entry, machine) or (
        None if shapes is None else _shape_misfit(entry, shapes)
    )


def is_padded(entry: Entry, shapes: Shapes) -> bool:
    """Return whether an entry that fits has more rows than these shapes."""
    return entry.shapes != dict(shapes)


def reason(entry: Entry, taken: Entry) -> str:
    """Return why another entry that fits is chosen before this one."""
    faster = _latency(taken) < _latency(entry)
    differences = [
        ("has a smaller batch", entry.batch != taken.batch),
        ("is for a higher level", _level(entry.arch) != _level(taken.arch)),
        ("was faster on the same machine", faster and entry.machine == taken.machine),
        ("has more lanes", entry.lanes != taken.lanes),
        ("is faster", faster),
    ]
    why = next((why for why, differs in differences if differs), "comes first")
    return f"fits, but {taken.id} {why}"


def served_shapes(entries: Sequence[Entry]) -> list[str]:
    """Return the shapes that entries serve, in words, each once."""
    texts = (
        f"{', '.join(map(str, e.inputs))}{' or fewer rows' * (e.padding and (e.batch or 1) > 1)}"
        for e in sorted(entries, key=lambda e: [port.shape for port in e.inputs])
    )
    return list(dict.fromkeys(texts))


def _class(entry: Entry) -> tuple[float, int]:
    """Return a sort key by batch and instruction-set level; the least is chosen first."""
    return math.inf if entry.batch is None else entry.batch, -_level(entry.arch)


def _latency(entry: Entry) -> float:
    return math.inf if entry.latency_ms is None else entry.latency_ms


def _level(arch: str) -> int:
    """Return a rank of an architecture: highest for GPUs, then for the newest x86-64 levels."""
    number = re.search(r"\d+$", arch.rstrip("af"))
    if number is None:
        return 0
    if arch.startswith("sm_"):
        return 1000 + int(number[0])
    return int(number[0]) if arch.startswith("x86-64-v") else 0


def _machine_misfit(entry: Entry, machine: Machine) -> str | None:
    if entry.on_gpu:
        if entry.arch not in machine.gpu_archs:
            return f"there is no GPU that runs {entry.arch}"
        if machine.streams is not None and entry.lanes > machine.streams:
            return f"it has {entry.lanes} streams, and {machine.streams} may be used"
        return None
    missing = sorted(set(entry.features) - machine.features)
    if missing:
        return f"the CPU lacks {', '.join(missing)}"
    if entry.lanes > machine.lanes:
        return f"it has {entry.lanes} lanes, and {machine.lanes} may be used"
    return None


def _shape_misfit(entry: Entry, shapes: Shapes) -> str | None:
    ports = {port.name: port for port in entry.inputs}
    for name in shapes:
        if name not in ports:
            return f"there is no input {name!r}; there are: {', '.join(ports)}"
    for name, port in ports.items():
        if name not in shapes:
            return f"input {name!r} is not given"
        given, own = tuple(shapes[name]), port.shape
        if len(given) != len(own) or given[1:] != own[1:]:
            return f"{port} is given as {_text(given)}"
    if entry.shapes == dict(shapes):
        return None
    rows = {tuple(shape[:1]) for shape in shapes.values()}
    if entry.batch is None or len(rows) != 1 or rows == {(0,)}:
        return f"{_first_other(entry.inputs, shapes)}"
    ((given_rows,),) = rows
    if given_rows > entry.batch:
        return f"{given_rows} rows are more than {entry.batch}"
    if not entry.padding:
        return f"{given_rows} rows are not {entry.batch}, and rows are not known to be independent"
    return None


def _first_other(inputs: Sequence[TensorType], shapes: Shapes) -> str:
    port = next(port for port in inputs if port.shape != tuple(shapes[port.name]))
    return f"{port} is given as {_text(shapes[port.name])}"


def _text(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "a scalar"


def _refusal(entries: Sequence[Entry], machine: Machine, shapes: Shapes) -> str:
    asked = ", ".join(f"{name}:{_text(shape)}" for name, shape in shapes.items())
    if not entries:
        return "the deployment has no entries; add one with `tvm-ios optimize -o`"
    here = [entry for entry in entries if misfit(entry, machine) is None]
    alike = [entry for entry in entries if _shape_misfit(entry, shapes) is None]
    if not here or alike:
        kinds = dict.fromkeys(f"{e.arch} with {e.lanes} lanes" for e in alike or entries)
        whys = dict.fromkeys(filter(None, (misfit(e, machine) for e in alike or entries)))
        return (
            f"no program for {asked} runs on this machine: there are those for {'; '.join(kinds)}, "
            f"and {next(iter(whys))}"
        )
    return f"no program takes {asked}; there are those for {'; '.join(served_shapes(here))}"
