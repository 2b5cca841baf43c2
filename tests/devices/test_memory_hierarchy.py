from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.refusals import refused
from tvm_ios.devices.device import DeviceError
from tvm_ios.devices.memory_hierarchy import hierarchy_names, load_hierarchy


def description() -> dict[str, Any]:
    device = load_hierarchy("stcp920")
    units = {"local_buffer": "byte", "global_buffer": "byte", "peak_flops": "FLOP/s"}
    units |= {"vector_flops": "FLOP/s"}
    units |= {f"{n}_bandwidth": "byte/s" for n in ("memory", "global", "local")}
    units |= {"kernel_overhead": "s"}
    return {
        "format": "tvm-ios memory hierarchy",
        "version": 1,
        "figures": {
            key: {"value": getattr(device, key), "unit": units.get(key, ""), "source": "assumed"}
            for key in device.sources
        },
    }


def load(tmp_path: Path, data: dict[str, Any]) -> Any:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(data))
    return load_hierarchy(str(path))


def test_the_published_figures() -> None:
    device = load_hierarchy("stcp920")
    assert (device.clusters, device.cores, device.compute_units) == (4, 8, 3)
    assert (device.local_buffer, device.global_buffer) == (64 << 10, 8 << 20)
    assert device.memory_bandwidth == 136e9
    assert device.cluster_local_buffer == 512 << 10
    ipu = load_hierarchy("ipu")
    assert (ipu.cores, ipu.local_buffer) == (1216, 256 << 10)
    goya = load_hierarchy("goya")
    assert (goya.clusters, goya.cores, goya.compute_units) == (1, 9, 1)
    assert load_hierarchy("a100").memory_bandwidth >= 1500e9


@pytest.mark.parametrize("name", hierarchy_names())
def test_every_figure_says_where_it_is_from(name: str) -> None:
    for source in load_hierarchy(name).sources.values():
        assert source.startswith(("published: ", "assumed"))


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    assert load(tmp_path, description()).local_buffer == 64 << 10


@pytest.mark.parametrize(
    ("key", "change"),
    [
        ("cores", {"value": 0}),
        ("cores", {"value": 1.5}),
        ("local_buffer", {"unit": "KB"}),
        ("peak_flops", {"value": "fast"}),
        ("memory_bandwidth", {"value": float("nan")}),
        ("kernel_overhead", {"value": -1}),
        ("weight_clusters", {"value": 5}),
    ],
)
def test_misstated_figures(tmp_path: Path, key: str, change: dict[str, Any]) -> None:
    data = description()
    data["figures"][key] |= change
    with refused(DeviceError, f"'{key}'", "mine.json"):
        load(tmp_path, data)


def test_what_is_no_hierarchy(tmp_path: Path) -> None:
    assert {"a100", "goya", "ipu", "stcp920"} <= set(hierarchy_names())
    with refused(DeviceError, "'tpu'", *hierarchy_names()):
        load_hierarchy("tpu")
    with refused(DeviceError, "none.json"):
        load_hierarchy(str(tmp_path / "none.json"))
    with refused(DeviceError, "mine.json", "version 1"):
        load(tmp_path, description() | {"version": 2})
