"""A deployment whose registry, programs or shared files are damaged, in Python and in C++."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from runtime_ext.deployment.adding import NewEntry, add_entry
from runtime_ext.deployment.deployment import load_deployment
from runtime_ext.execution.executable import Executable, load
from runtime_ext.execution.packages.package import seal, sealed_sums

from .models import SHAPE
from .mutators import Random, damage_bytes, damage_json, disarrange_json


def write_sound_deployment(executable: Path, folder: Path) -> None:
    """One program for two numbers of lanes."""
    program = load(executable)
    assert isinstance(program, Executable)
    for lanes in (1, 2):
        new = NewEntry(program, "greedy", padding=lanes == 2, lanes=lanes, latency_ms=1.5)
        add_entry(folder, "small", "0" * 64, new)


def deployment(sound: Path, room: Path, random: Random) -> None:
    """A registry whose checksum is right again, programs' files, or what they share."""
    folder = room / "app"
    shutil.copytree(sound / "deployment", folder)
    registry = folder / "deployment.json"
    kind = int(random.integers(10))
    if kind < 6:
        damage = damage_json if random.integers(2) else disarrange_json
        write_registry(registry, damage(json.loads(registry.read_text()), random))
    elif kind == 6:
        registry.write_bytes(damage_bytes(registry.read_bytes(), random))
    elif kind == 7:
        shared = sorted([*folder.glob("weights/*"), *folder.glob("kernels/*")])
        file = shared[int(random.integers(len(shared)))]
        file.write_bytes(damage_bytes(file.read_bytes(), random))
    elif kind == 8:
        entry = sorted((folder / "entries").iterdir())[int(random.integers(2))]
        meta = entry / "meta.json"
        meta.write_text(json.dumps(damage_json(json.loads(meta.read_text()), random)))
        sums = {name: sum_ for name, sum_ in sealed_sums(entry).items() if name.startswith("..")}
        seal(entry, shared=sums)
    if random.integers(2):
        _run_in_cpp(folder)
    else:
        session = load_deployment(folder).session()
        session.run(x=np.zeros(SHAPE, "float32"))
        session.get_output(0)
        session.close()


def write_registry(file: Path, data: Any) -> None:
    """Write what a registry holds, with the checksum that it then has."""
    if not isinstance(data, dict) or len(data) < 2:
        file.write_text(json.dumps(data))
        return
    head = json.dumps({k: v for k, v in data.items() if k != "sha256"}).removesuffix("}") + ", "
    checksum = hashlib.sha256(head.encode()).hexdigest()
    file.write_text(f'{head}"sha256": "{checksum}"}}')


def _run_in_cpp(folder: Path) -> None:
    from runtime_ext.execution.runtime_module import DeployedModule, load_module

    module = load_module(folder)
    assert isinstance(module, DeployedModule)
    try:
        module.entries()
        for number in range(module.get_num_inputs()):
            module.input_info(number)
            module.set_input(number, np.zeros(SHAPE, "float32"))
        module.run()
        module.chosen()
        for number in range(module.get_num_outputs()):
            module.output_info(number)
            module.get_output(number)
    finally:
        module.close()
