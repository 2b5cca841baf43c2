"""Winograd's filtering beside direct convolution: each distinct unit, and whole networks.

For each distinct unit that has such forms, also those that an estimate leaves out, the direct
program and that of each form run in turn in one process, and their outputs are compared. Then whole
networks, one unit after another: all direct, and with the form that was the fastest for each unit.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from rich.table import Table

from benchmarks.in_turn import compared, measure_networks, program_runner, session_runner, shown
from benchmarks.report import model_of
from relay_passes.pipeline import prepare
from relay_passes.relax.importer import import_onnx
from relay_passes.relax.target_units import RelaxUnits
from relay_passes.search_options import SearchOptions
from tvm_ios.cli.frame.output import console
from tvm_ios.contest.outputs import output_errors
from tvm_ios.models.load import load_onnx
from tvm_ios.models.source import ModelSource
from tvm_ios.policies.sequential import sequential_schedule
from tvm_ios.program.lower import lower_stages
from tvm_ios.program.winograd import FORM
from tvm_ios.schedule.stage import Stage, Strategy

NETWORKS = ("squeezenet", "resnet50", "vgg16", "inception_v3", "light_densenet121")
#: A form is faster if the median ratio is below this, and the whole interval below one.
_FASTER = 0.97


def measure(network: str, lanes: int) -> dict[str, Any]:
    prepared = prepare(import_onnx(load_onnx(ModelSource(model_of(network), random_weights=0))))
    units = RelaxUnits(prepared, SearchOptions(lanes=lanes))
    graph, compiler = prepared.units, units.backend.compiler
    rows: dict[str, dict[str, Any]] = {}
    kernels: dict[int, str] = {}
    for unit in range(len(graph)):
        source = units.source((unit,))
        names = [name for name in compiler.rkernels(source) if name.startswith(FORM)]
        if not names:
            continue
        direct = compiler.compile({"": source})[""]
        if direct.key in rows:
            rows[direct.key]["equal_units"] += 1
        else:
            promising = {form.name for form in compiler.compile_forms({"": source})[""]}
            stage = Stage(Strategy.CONCURRENT, ((unit,),))
            forms = {
                name: compiler.compile_rkernels({"": source}, only={"": name})[""][name]
                for name in names
            }
            runners = {
                name: program_runner(
                    compiler,
                    lower_stages(graph, (stage,), {unit: form}, lanes=lanes, parts=units.parts),
                )
                for name, form in {"": direct.code, **{n: f.code for n, f in forms.items()}}.items()
            }
            ratios: dict[str, Any] = {}
            seconds = 0.0
            for name in names:
                ratio, (seconds, _) = compared(runners[""], runners[name])
                ratios[name] = {"ratio": asdict(ratio), "tried": name in promising}
            (kernel, *_) = direct.code.calls
            spec: Any = compiler.workload(kernel.symbol)
            rows[direct.key] = {
                "unit": graph.operators[unit].name,
                "channels": spec.channels,
                "outputs": sum(spec.parts),
                "image": list(spec.window.output),
                "taps": "x".join(map(str, spec.window.kernel)),
                "equal_units": 1,
                "us": seconds * 1e6,
                "forms": ratios,
            }
        best = _best(rows[direct.key]["forms"])
        if best is not None:
            kernels[unit] = best
    direct = sequential_schedule(graph)
    sessions = {
        name: units.build(replace(direct, kernels=chosen)).session()
        for name, chosen in (("direct", {}), ("forms", kernels))
    }
    outputs: dict[str, Any] = {}
    for name, session in sessions.items():
        session.run(**session.random_inputs(0))
        outputs[name] = [session.get_output()]
    ratio, (direct_seconds, seconds) = compared(
        session_runner(sessions["direct"]), session_runner(sessions["forms"]), 301, 20.0
    )
    return {
        **{"lanes": lanes, "load": os.getloadavg()[0]},
        **{"units": len(graph), "with_forms": len(kernels), "convolutions": list(rows.values())},
        "ratio": asdict(ratio),
        "ms": seconds * 1e3,
        "direct_ms": direct_seconds * 1e3,
        "error": output_errors(outputs["forms"], outputs["direct"])[1],
    }


def _best(forms: Mapping[str, Any]) -> str | None:
    """The form that is clearly faster than direct convolution by most."""
    faster = {
        name: form["ratio"]["median"]
        for name, form in forms.items()
        if form["ratio"]["median"] < _FASTER and form["ratio"]["high"] < 1
    }
    return min(faster, key=lambda name: faster[name], default=None)


def show(figures: Sequence[dict[str, Any]]) -> None:
    names = sorted({n for row in figures for unit in row["convolutions"] for n in unit["forms"]})
    units = Table("network", "lanes", "unit", "channels", "outputs", "image", "taps", "µs", *names)
    networks = Table("network", "lanes", "load", "units", "to direct", "least ms", "direct")
    for row in figures:
        for unit in row["convolutions"]:
            units.add_row(
                *(row["network"], str(row["lanes"])),
                unit["unit"] + (f" x{n}" if (n := unit["equal_units"]) > 1 else ""),
                *(str(unit[field]) for field in ("channels", "outputs", "image", "taps")),
                f"{unit['us']:.0f}",
                *(_cell(unit["forms"].get(name)) for name in names),
            )
        networks.add_row(
            *(row["network"], str(row["lanes"]), f"{row['load']:.1f}"),
            f"{row['with_forms']} of {row['units']}",
            shown(row["ratio"]),
            *(f"{row[field]:.2f}" for field in ("ms", "direct_ms")),
        )
    console().print(units)
    console().print(networks)


def _cell(form: Mapping[str, Any] | None) -> str:
    if form is None:
        return ""
    return f"{form['ratio']['median']:.2f}" + ("" if form["tried"] else " (left out)")


if __name__ == "__main__":
    measure_networks("winograd", __doc__, NETWORKS, measure, show)
