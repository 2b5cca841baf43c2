from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from tests.refusals import refused
from tvm_ios.devices.device import DeviceError, device_names, load_device
from tvm_ios.devices.engine import engine_names, engine_of, load_engine

FIGURES = {
    "peak_flops": "FLOP/s",
    "bandwidth": "byte/s",
    "processor_bandwidth": "byte/s",
    "processors": "cores",
    "efficiency": "of peak",
    "saturating_warps": "warps",
    "streaming_warps": "warps",
    "kernel_overhead": "s",
    "wait_overhead": "s",
}


SOURCES = ("published", "assumed", "fitted", "measured")


def description() -> dict[str, Any]:
    return {
        "format": "tvm-ios device",
        "version": 1,
        "name": "mine",
        "figures": {
            key: {"value": 2, "unit": unit, "source": "assumed"} for key, unit in FIGURES.items()
        },
    }


def load(tmp_path: Path, data: Any) -> Any:
    path = tmp_path / "mine.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return load_device(str(path))


def test_every_figure_of_every_device_says_where_it_is_from() -> None:
    assert {"a100", "cpu", "h100", "h200", "k80", "mi50", "rtx2080ti", "v100"} <= set(
        device_names()
    )
    for name in device_names():
        device = load_device(name)
        assert device.name == name
        assert set(device.sources) == set(FIGURES)
        assert all(text.split(":")[0] in SOURCES for text in device.sources.values())


def test_engines_say_where_their_figures_are_from_and_whose_kernels_they_run(
    tmp_path: Path,
) -> None:
    for name in engine_names():
        engine = load_engine(name)
        assert engine.name == name
        assert all(text.split(":")[0] in SOURCES for text in engine.sources.values())
    assert {load_engine(n).kernels for n in ("ios", "lanes")} == {"library"}
    assert engine_of(load_device("v100")) == load_engine("graph")
    assert engine_of(load_device("cpu")) == load_engine("lanes")
    assert engine_of(load_device("mi50")) == engine_of(load_device("k80")) == load_engine("ios")
    text = resources.files("tvm_ios").joinpath("devices/engine_data/graph.json").read_text()
    path = tmp_path / "mine.json"
    path.write_text(text.replace('"kernels": "cuda"', '"kernels": "many"'))
    with refused(DeviceError, "'kernels'", "library or cuda"):
        load_engine(str(path))
    with refused(DeviceError, "'warp'", "graph"):
        load_engine("warp")


def test_a_file_of_one_s_own(tmp_path: Path) -> None:
    device = load(tmp_path, description())
    assert (device.name, device.processors, device.peak_flops) == ("mine", 2, 2.0)


def test_an_unknown_device_is_named_with_the_known_ones() -> None:
    with refused(DeviceError, "'x99'", "v100"):
        load_device("x99")
    with refused(DeviceError, "none.json"):
        load_device("none.json")


@pytest.mark.parametrize("key", FIGURES)
def test_a_missing_or_impossible_figure_is_named(tmp_path: Path, key: str) -> None:
    missing = description()
    del missing["figures"][key]
    with refused(DeviceError, f"'{key}'", "mine.json"):
        load(tmp_path, missing)
    for change in (*({"value": v} for v in (-1, "fast", float("nan"), 1e400)), {"source": None}):
        wrong = description()
        wrong["figures"][key].update(change)
        if change == {"source": None}:
            del wrong["figures"][key]["source"]
        with refused(DeviceError, f"'{key}'", "mine.json"):
            load(tmp_path, wrong)


def test_another_unit_is_refused(tmp_path: Path) -> None:
    wrong = description()
    wrong["figures"]["kernel_overhead"]["unit"] = "us"
    with refused(DeviceError, "'kernel_overhead'", "in s"):
        load(tmp_path, wrong)


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"format": "tvm-ios device", "version": 2}'])
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    with refused(DeviceError, "mine.json"):
        load(tmp_path, text)


def test_gpus_say_what_a_multiprocessor_holds(tmp_path: Path) -> None:
    for name in ("a100", "h100", "h200", "v100"):
        multiprocessor = load_device(name).multiprocessor
        assert multiprocessor is not None
        assert multiprocessor.source.startswith("published")
        assert (
            multiprocessor.block_shared_bytes + multiprocessor.reserved_shared_bytes
            <= multiprocessor.shared_bytes
        )
    assert load_device("cpu").multiprocessor is None
    text = resources.files("tvm_ios").joinpath("devices/device_data/h200.json").read_text()
    given = json.loads(text)
    for wrong in ({"threads": -1}, {"arch": 90}, {"blocks": "many"}):
        with refused(DeviceError, "mine.json", "multiprocessor"):
            load(tmp_path, {**given, "multiprocessor": {**given["multiprocessor"], **wrong}})
    del given["multiprocessor"]["registers"]
    with refused(DeviceError, "mine.json", "'registers'", "multiprocessor"):
        load(tmp_path, given)
