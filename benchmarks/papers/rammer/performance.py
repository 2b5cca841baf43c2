"""Speed, utilisation and overhead of Rammer and its baseline, simulated on described devices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from benchmarks.papers.catalogue import flat
from benchmarks.papers.rammer.models import ZOO
from benchmarks.papers.rammer.simulated import TILES, Simulated, choose_by
from benchmarks.papers.row import How, Row, Value
from benchmarks.papers.steps import Steps
from tvm_ios.costs.kernel_estimate import KernelLibrary, fastest_alone, product_forms
from tvm_ios.devices.device import load_device
from tvm_ios.devices.engine import IOS, load_engine
from tvm_ios.graph.units import form_units
from tvm_ios.models.load import load_operators
from tvm_ios.models.source import ModelSource
from tvm_ios.schedule.rkernel import most_efficient

#: The six models of table 1; AlexNet has no parameters there.
MODELS = (*ZOO.values(), "alexnet")
_DEVICES = ("v100", "mi50")
#: Of figure 17: models and batches; the LSTM of the zoo has one sequence.
_CELLS = (
    *(("resnext29_branches", batch) for batch in (1, 4, 16)),
    ("lstm_tc_gates", 1),
)
_OTHERS = "neither TensorFlow nor TVM nor TensorRT can run on the authors' devices here"
_ONE_PROGRAM = (
    "kernels of the device's figures, not the authors'; the baseline launches each unit, LSTM-TC's "
    "13,040 too, of which the authors fuse more; in Rammer's program, the whole network, neither "
    "polling nor a kernel's need of registers takes processors from others"
)
_NO_TRADE = (
    "a block of the described device uses its share of a processor and nothing besides, so that "
    "small tiles cost little where many run at once"
)


def speed_ups(published: Mapping[str, Any], steps: Steps) -> Iterator[Row]:
    """Rammer over its baseline (figure 11)."""
    times = simulated(steps, MODELS)
    ratios = [each["base fastest"] / each["rammer selected"] for each in times]
    ours = {"average": fmean(ratios), "largest": max(ratios)}
    yield from _compared("over RammerBase", published, ours, "x", _ONE_PROGRAM, neutral=1.0)
    yield from _not_had(published, {"over RammerBase"}, "x")


def speed_ups_on_mi50(published: Mapping[str, Any], steps: Steps) -> Iterator[Row]:
    """Rammer over its baseline, also with Rammer's kernels (figure 19)."""
    times = simulated(steps, MODELS, device="mi50")
    ratios = [each["base fastest"] / each["rammer selected"] for each in times]
    label = "over RammerBase"
    for name, value in (("average", fmean(ratios)), ("largest", max(ratios))):
        note = _ONE_PROGRAM
        whole = f"{label}, {name}"
        yield _row(whole, published[label][name], value, "x", note, 1.0, "mi50")
    name = "RammerBase with Rammer's kernels, ResNeXt, slower by"
    resnext = times[MODELS.index(ZOO["ResNeXt"])]
    drop = resnext["base selected"] / resnext["base fastest"]
    yield _row(name, published[name], drop, "x", _NO_TRADE, 1.0, "mi50")
    yield from _not_had(published, {label, name}, "x")


def utilisation(published: Mapping[str, Any], steps: Steps) -> Iterator[Row]:
    """The part of the processors in use (figure 14)."""
    times = dict(zip(MODELS, simulated(steps, MODELS), strict=True))
    ratios = {name: each["rammer used"] / each["base used"] for name, each in times.items()}
    ours = {"average": fmean(ratios.values()), "largest, LSTM-TC": ratios[ZOO["LSTM-TC"]]}
    yield from _compared("over RammerBase", published, ours, "x", _ONE_PROGRAM, neutral=1.0)
    yield from _not_had(published, {"over RammerBase"}, "x")


def overhead(published: Mapping[str, Any], steps: Steps) -> Iterator[Row]:
    """Time in which nothing is computed (figure 16)."""
    times = simulated(steps, MODELS)
    base = [each["base launches"] for each in times]
    parts = [each["base launches"] / each["base fastest"] for each in times]
    launch = load_engine(IOS).launch_overhead
    label = "average overhead, ms"
    ours = {"RammerBase": fmean(base) * 1e3, "Rammer": launch * 1e3}
    note = (
        "a launch takes 2 us on the described device, fitted to IOS's measurements; there are more "
        "than the authors', who fuse more of a recurrent cell; Rammer's program is one of them, "
        "where the authors' is several"
    )
    yield from _compared(label, published, ours, "ms", note)
    percent = {"RammerBase": fmean(parts) * 100}
    yield from _compared("average overhead, %", published, percent, "%", note)
    name = "RammerBase to Rammer, x"
    yield _row(name, published[name], fmean(base) / launch, "x", note, neutral=1.0)
    for label in ("average overhead, ms", "average overhead, %"):
        others = {name: v for name, v in published[label].items() if name not in ours}
        yield from _not_had({label: others}, set(), label.rpartition(" ")[2])


def kernel_sets(published: Mapping[str, Any], steps: Steps) -> Iterator[Row]:
    """Both with the fastest and the selected kernels (figure 17)."""
    cells = [time for model, batch in _CELLS for time in simulated(steps, [model], batch)]

    def ratios(slower: str, faster: str) -> list[float]:
        return [cell[slower] / cell[faster] for cell in cells]

    selected = ratios("rammer fastest", "rammer selected")
    ours = {
        "fastest kernels: Rammer over RammerBase, average": (
            fmean(ratios("base fastest", "rammer fastest")),
            _ONE_PROGRAM,
        ),
        "Rammer: selected over fastest, average": (fmean(selected), _NO_TRADE),
        "Rammer: selected over fastest, largest": (max(selected), _NO_TRADE),
        "RammerBase: fastest over selected, average": (
            fmean(ratios("base selected", "base fastest")),
            _NO_TRADE,
        ),
    }
    for label, (value, note) in ours.items():
        yield _row(label, published[label], value, "x", note, neutral=1.0)
    label = "matrix product of LSTM-TC, batch 4"
    for name, value in product_kernels().items():
        unit = "us" if name.startswith("time") else "rTasks"
        note = (
            "4 rows of 256 times a matrix of 256 by 256 on the described device; the authors' "
            "fastest kernel has an rTask for each of the 1,024 results, no tile here is as small"
        )
        yield _row(f"{label}, {name}", published[label][name], value, unit, note)


def product_kernels() -> dict[str, float]:
    """The fastest and the most efficient kernel of a product of LSTM-TC's cells at batch 4."""
    device = load_device("v100")
    rows, columns, depth = 4, 256, 256
    moved = 4 * (rows * depth + depth * columns + rows * columns)
    forms = product_forms(rows, columns, depth, moved, device, KernelLibrary(TILES))
    fastest, efficient = fastest_alone(forms, device), choose_by(most_efficient)(forms, device)
    return {
        "rTasks of the fastest kernel": fastest.blocks,
        "rTasks of the selected kernel": efficient.blocks,
        "time of the fastest kernel, us": (fastest.seconds(device) + fastest.overhead) * 1e6,
        "time of the selected kernel, us": (efficient.seconds(device) + efficient.overhead) * 1e6,
    }


def simulated(
    steps: Steps, models: Sequence[str], batch: int = 1, device: str = "v100"
) -> list[dict[str, float]]:
    """What :func:`simulate` gives for some models on a device."""
    return [steps.once(simulate, model, batch)[device] for model in models]


def simulate(model: str, batch: int) -> dict[str, dict[str, float]]:
    """Seconds of a network, and parts of the processors in use, by device and variant.

    Parameters
    ----------
    model
        A network of the zoo.
    batch
        Its images, or sequences.
    """
    graph = form_units(load_operators(ModelSource(model, batch=batch if batch > 1 else None)))
    return {device: _variants(Simulated(graph, load_device(device))) for device in _DEVICES}


def _variants(variants: Simulated) -> dict[str, float]:
    fastest, selected = variants.fastest, variants.selected
    return {
        "base fastest": variants.base_seconds(fastest),
        "base selected": variants.base_seconds(selected),
        "rammer fastest": variants.seconds(fastest),
        "rammer selected": variants.seconds(selected),
        "base launches": variants.base_launch_seconds(fastest),
        "base used": variants.base_utilisation(fastest),
        "rammer used": variants.utilisation(selected),
    }


def _compared(
    label: str,
    published: Mapping[str, Any],
    ours: Mapping[str, float],
    unit: str,
    note: str,
    neutral: float | None = None,
) -> Iterator[Row]:
    for name, value in ours.items():
        yield _row(f"{label}, {name}", published[label][name], value, unit, note, neutral)


def _not_had(published: Mapping[str, Any], had: set[str], unit: str) -> Iterator[Row]:
    """Rows of what other systems are compared with."""
    others = {label: values for label, values in published.items() if label not in had}
    for label, value in flat(others):
        yield Row(label, value, None, unit, How.NOT_POSSIBLE, note=_OTHERS)


def _row(
    label: str,
    published: Value,
    ours: float,
    unit: str,
    note: str,
    neutral: float | None = None,
    device: str = "v100",
) -> Row:
    return Row(label, published, ours, unit, How.SIMULATED, device, note=note, neutral=neutral)
