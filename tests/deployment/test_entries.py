"""Programs in a deployment: added, shared, run, replaced, removed; what is refused, and kills."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runtime_ext.deployment import adding, writer
from runtime_ext.deployment.adding import NewEntry, add_entry
from runtime_ext.deployment.deployment import Deployment, load_deployment, load_program
from runtime_ext.deployment.machine import Machine
from runtime_ext.deployment.pruning import prune
from runtime_ext.execution.executable import Executable, load
from runtime_ext.execution.runtime_module import load_module
from runtime_ext.native_errors import ExecutableError, RequestsError, SessionError
from tests.deployment.rows_model import (
    IDENTITY,
    MODEL,
    add_range,
    add_rows,
    expected,
    image,
    range_executable,
    rewrite,
    rows_executable,
)
from tests.fuzz.deployments import write_registry
from tests.fuzz.mutators import damage_json, disarrange_json
from tests.refusals import refused
from tvm_ios.deployment.entry import OpenAxis
from tvm_ios.deployment.registry import DeploymentError, read_registry
from tvm_ios.errors import UserError


def computes(app: Path, rows: int) -> str:
    """Runs a batch right; the entry that was taken."""
    loaded = load_program(app)
    assert isinstance(loaded, Deployment)
    session = loaded.session()
    session.run(image=image(rows))
    np.testing.assert_array_equal(session.get_output("result"), expected(image(rows)))
    return session.entry.id


def files(app: Path) -> dict[str, int]:
    return {room: len(list((app / room).iterdir())) for room in ("entries", "weights", "kernels")}


def test_entries_share_weights_and_kernels(app: Path) -> None:
    assert files(app) == {"entries": 3, "weights": 1, "kernels": 2}
    for entry in (app / "entries").iterdir():
        done = subprocess.run(["sha256sum", "-c", "--quiet", "SHA256SUMS"], cwd=entry)
        assert done.returncode == 0
        assert not (entry / "kernels.so").exists()
        assert not (entry / "params.safetensors").exists()


def test_the_smallest_batch_that_holds_the_rows_is_run(app: Path) -> None:
    taken = {rows: computes(app, rows) for rows in (1, 2, 3, 4)}
    assert "-b1-" in taken[1]
    assert all("-2l-b4-" in taken[rows] for rows in (2, 3, 4))
    one_lane = load_deployment(app, lanes=1).session()
    one_lane.run(image=image(3))
    assert "-1l-b4-" in one_lane.entry.id


def test_one_session_goes_from_shape_to_shape(app: Path) -> None:
    session = load_deployment(app).session()
    for rows in (4, 1, 3, 4, 2):
        session.set_input("image", image(rows))
        session.run()
        np.testing.assert_array_equal(session.get_output(), expected(image(rows)))
        assert session.outputs[0].shape == session.inputs[0].shape == (rows, 4)
    changed = image(2)
    session.set_input(None, changed)
    changed[:] = 0
    session.run()
    np.testing.assert_array_equal(session.get_output(), expected(image(2)))
    assert len(session.benchmark(1, 2)) == 2
    assert session.profile()
    session.close()


def test_what_is_not_served_is_refused_by_what_there_is(app: Path) -> None:
    session = load_deployment(app).session()
    with pytest.raises(SessionError, match="not known before"):
        session.get_output()
    with pytest.raises(SessionError, match="'image' was never set"):
        session.run()
    with pytest.raises(DeploymentError, match=r"image:5x4; .* image:1x4; image:4x4 or fewer rows"):
        session.run(image=image(5))
    with pytest.raises(DeploymentError, match="image:4x3"):
        session.run(image=np.zeros((4, 3), "float32"))
    with pytest.raises(SessionError, match="of type float64, not float32"):
        session.run(image=np.zeros((4, 4)))
    with pytest.raises(SessionError, match="no input 'x'; there are: image"):
        session.run(x=image(4))


def test_without_a_proof_a_batch_is_not_padded(tmp_path: Path) -> None:
    add_rows(tmp_path / "app", 4, padding=False)
    assert computes(tmp_path / "app", 4)
    with pytest.raises(DeploymentError, match=r"no program takes image:3x4; .* image:4x4$"):
        computes(tmp_path / "app", 3)


def test_an_entry_alone_is_an_executable(app: Path, tmp_path: Path) -> None:
    entry = read_registry(app).entries[1]
    executable = load(app / "entries" / entry.id)
    assert isinstance(executable, Executable)
    session = executable.session()
    session.run(image=image(4))
    np.testing.assert_array_equal(session.get_output(), expected(image(4)))
    executable.save(tmp_path / "alone.tar")
    assert load(tmp_path / "alone.tar").inputs == executable.inputs


def test_kernels_in_several_files_make_one_program(tmp_path: Path) -> None:
    """What is added links only kernels that no library has, and may need two libraries."""
    from tests.execution.small_executable import IMAGE, STEPS, small_executable

    executable = small_executable(tmp_path)
    schedule = rows_executable(tmp_path, 1).schedule
    upper, *others = executable.program.kernels
    several = Executable(
        **{
            **{name: getattr(executable, name) for name in executable.__dataclass_fields__},
            "schedule": schedule,
            "kernels": {executable.kernels: [upper], tmp_path / "copy.so": others},
        }
    )
    shutil.copyfile(executable.kernels, tmp_path / "copy.so")
    several.save(tmp_path / "two")
    loaded = load(tmp_path / "two")
    assert isinstance(loaded, Executable)
    assert [file.name for file in loaded.libraries] == ["kernels.so", "kernels-1.so"]
    session = loaded.session()
    session.run(image=IMAGE, steps=STEPS)
    whole = executable.session()
    whole.run(image=IMAGE, steps=STEPS)
    np.testing.assert_array_equal(session.get_output(), whole.get_output())


def test_the_same_again_takes_the_place_of_what_was_there(app: Path) -> None:
    before = read_registry(app)
    entry = add_rows(app, 4, lanes=2, padding=False)
    after = read_registry(app)
    assert len(after.entries) == 3
    assert entry in after.entries
    assert len({e.id for e in before.entries} & {e.id for e in after.entries}) >= 2
    assert files(app)["entries"] == 3
    assert computes(app, 4) == entry.id


def test_another_model_and_another_folder_are_refused(app: Path, tmp_path: Path) -> None:
    new = NewEntry(rows_executable(tmp_path, 2), "sequential")
    with pytest.raises(DeploymentError, match="is a deployment of scaled, and other is another"):
        add_entry(app, "other", "1" * 64, new)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("keep")
    with pytest.raises(DeploymentError, match=r"is not a deployment; choose another name"):
        add_entry(tmp_path / "mine", MODEL, IDENTITY, new)
    with pytest.raises(DeploymentError, match=r"leave out .tar"):
        add_entry(tmp_path / "app.tar", MODEL, IDENTITY, new)
    with pytest.raises(DeploymentError, match=r"it lacks deployment.json"):
        load_deployment(tmp_path / "mine")
    assert [f.name for f in (tmp_path / "mine").iterdir()] == ["letter.txt"]


def test_pruning_keeps_what_others_need(app: Path) -> None:
    one, four, two_lanes = read_registry(app).entries
    with pytest.raises(DeploymentError, match="'nobody' is no entry of"):
        prune(app, ["nobody"])
    with pytest.raises(DeploymentError, match=r"is more than one entry"):
        prune(app, ["x86-64"])
    with pytest.raises(DeploymentError, match=r"no entry of .* would stay"):
        prune(app, [one.id, four.id, two_lanes.id])
    done = prune(app, [four.id[:-2]])
    assert done.removed == (four,)
    assert done.freed_bytes > 1000
    assert files(app) == {"entries": 2, "weights": 1, "kernels": 2}
    assert prune(app, [one.id], keep=True).removed == (two_lanes,)
    assert files(app) == {"entries": 1, "weights": 1, "kernels": 1}
    assert computes(app, 1) == one.id


Damage = Callable[[Path], object]


def first(app: Path, pattern: str) -> Path:
    return sorted(app.glob(pattern))[0]


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda app: os.truncate(first(app, "weights/*"), 100), "weights/.* is damaged"),
        (lambda app: [f.unlink() for f in app.glob("kernels/*")], "lacks ../../kernels/"),
        (lambda app: [f.unlink() for f in app.glob("entries/*/program.json")], "lacks program"),
        (lambda app: shutil.rmtree(app / "entries"), "there is no executable"),
        (lambda app: [f.unlink() for f in app.glob("entries/*/SHA256SUMS")], "lacks SHA256SUMS"),
    ],
)
def test_damage_of_an_entry_is_named(app: Path, damage: Damage, sentence: str) -> None:
    damage(app)
    with pytest.raises(ExecutableError, match=sentence):
        computes(app, 4)


def test_damage_after_a_file_was_verified_is_named(app: Path) -> None:
    """Also where the file keeps its name, its size and its date."""
    file = first(app, "weights/*")
    # What was just written is verified each time.
    time.sleep(2.5)
    assert computes(app, 4) == computes(app, 4)
    before, content = file.stat(), file.read_bytes()
    with file.open("r+b") as stream:
        stream.write(bytes([content[0] ^ 1]) + content[1:])
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(ExecutableError, match=r"weights/.* is damaged"):
        computes(app, 4)
    file.write_bytes(content)
    computes(app, 4)


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (
            lambda app: (app / "deployment.json").write_text(
                (app / "deployment.json").read_text().replace('"lanes": 1', '"lanes": 2', 1)
            ),
            "deployment.json is damaged",
        ),
        (lambda app: os.truncate(app / "deployment.json", 300), "json is damaged"),
        (lambda app: rewrite(app, lambda d: d.update(version=3)), "is of format version 3"),
        (lambda app: rewrite(app, lambda d: d.update(format="any")), "is not of a tvm-ios"),
        (lambda app: rewrite(app, lambda d: d.update(entries=[{"id": "../x"}])), "misstates"),
        (lambda app: rewrite(app, lambda d: d.pop("model")), "lacks or misstates 'model'"),
    ],
)
def test_damage_of_the_registry_is_named(app: Path, damage: Damage, sentence: str) -> None:
    damage(app)
    with pytest.raises(DeploymentError, match=sentence):
        load_deployment(app)


@pytest.mark.parametrize(
    "name", ["../../../secret", "../../weights/../secret", "../../kernels/short.so", "/etc/passwd"]
)
def test_an_entry_needs_no_file_elsewhere(app: Path, name: str) -> None:
    (app.parent / "secret").write_text("")
    entry = app / "entries" / read_registry(app).entries[1].id
    empty = hashlib.sha256(b"").hexdigest()
    with (entry / "SHA256SUMS").open("a") as sums:
        sums.write(f"{empty}  {name}\n")
    with pytest.raises(ExecutableError, match="lacks"):
        load(entry)


def test_what_is_added_mends_shared_files(app: Path) -> None:
    for file in (*app.glob("weights/*"), *app.glob("kernels/*")):
        os.truncate(file, 50)
    for rows, lanes in ((1, 1), (4, 1), (4, 2)):
        add_rows(app, rows, lanes=lanes)
    assert computes(app, 1)
    assert computes(app, 4)


class FullDisk:
    """A rename that fails, after some that do not."""

    def __init__(self, left: int) -> None:
        self._left = left

    def step(self, call: Callable[..., None]) -> Callable[..., None]:
        def step(*arguments: object) -> None:
            self._left -= 1
            if self._left < 0:
                raise OSError(28, "No space left on device")
            call(*arguments)

        return step


def test_a_full_disk_leaves_what_was_there(app: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever rename fails, the deployment is as before and nothing is left behind."""
    before = {f: f.read_bytes() for f in sorted(app.rglob("*")) if f.is_file()}
    executable = rows_executable(app.parent, 3, "x86-64-v3")
    new = NewEntry(executable, "sequential", padding=True)
    for renames in range(4):
        disk = FullDisk(renames)
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", disk.step(os.replace))
            patch.setattr(os, "rename", disk.step(os.rename))
            if renames == 3:
                add_entry(app, MODEL, IDENTITY, new)
                break
            with pytest.raises(UserError, match="No space left on device"):
                add_entry(app, MODEL, IDENTITY, new)
        assert {f: f.read_bytes() for f in sorted(app.rglob("*")) if f.is_file()} == before
    assert "-b3-" in computes(app, 3)


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.deployment.rows_model import add_rows
failing, steps = int(sys.argv[2]), iter(range(1000))
def killing(call):
    def step(*arguments):
        if next(steps) == failing:
            os.kill(os.getpid(), signal.SIGKILL)
        call(*arguments)
    return step
os.replace, os.rename = killing(os.replace), killing(os.rename)
add_rows(Path(sys.argv[1]), 3)
"""


@pytest.mark.slow
def test_killed_while_adding_it_stays_loadable(app: Path) -> None:
    for failing in count():
        done = subprocess.run([sys.executable, "-c", KILLED, str(app), str(failing)])
        assert computes(app, 4)
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL
    assert failing > 2
    assert "-b3-" in computes(app, 3)
    # What the killed ones left is gone.
    assert files(app) == {"entries": 4, "weights": 1, "kernels": 3}
    assert not list(app.glob(".new.*"))


def test_killed_while_pruning_it_stays_loadable(app: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, four, _ = read_registry(app).entries

    def killed(folder: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(writer, "sweep", killed)
        with pytest.raises(KeyboardInterrupt):
            prune(app, [one.id])
    assert computes(app, 4)
    assert files(app)["entries"] == 3
    prune(app, [four.id])
    assert files(app) == {"entries": 1, "weights": 1, "kernels": 1}


def _add(app: Path, rows: int) -> None:
    add_rows(app, rows)


def test_killed_while_adding_a_range_the_old_registry_loads(
    app: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever rename is the last, what is there is of one version and runs."""
    executable = range_executable(app.parent, 1, 9)
    new = NewEntry(executable, "sequential")
    for renames in count():

        def killed(*arguments: Any, left: list[int] = [renames], rename: Any = os.replace) -> None:  # noqa: B006
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt
            rename(*arguments)

        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", killed)
            patch.setattr(writer, "sweep", lambda folder: None)
            try:
                add_entry(app, MODEL, IDENTITY, new)
                break
            except KeyboardInterrupt:
                assert json.loads((app / "deployment.json").read_text())["version"] == 1
                assert computes(app, 4)
                with pytest.raises(DeploymentError, match="5x4"):
                    computes(app, 5)
    assert renames > 1
    assert "-range-" in computes(app, 5)
    add_rows(app, 2)
    # What the killed ones left is gone.
    assert files(app) == {"entries": 5, "weights": 1, "kernels": 4}
    assert not list(app.glob(".new.*"))


@pytest.mark.slow
def test_two_processes_add_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    adders = [context.Process(target=_add, args=(tmp_path / "app", rows)) for rows in (1, 2, 3, 4)]
    for adder in adders:
        adder.start()
    for adder in adders:
        adder.join(120)
    assert [adder.exitcode for adder in adders] == [0] * 4
    assert files(tmp_path / "app") == {"entries": 4, "weights": 1, "kernels": 4}
    assert all(f"-b{rows}-" in computes(tmp_path / "app", rows) for rows in (1, 2, 3, 4))


def test_a_writer_waits_for_another(app: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The registry that an entry is added to is read once the other writer has gone."""
    seen: list[int] = []
    having = adding.write_registry

    def noted(folder: Path, registry: object) -> None:
        seen.append(len(read_registry(folder).entries))
        having(folder, registry)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(adding, "write_registry", noted)
    add_rows(app, 2)
    assert seen == [3]


def test_programs_for_better_machines_are_left_alone(app: Path) -> None:
    entry = add_rows(app, 4, "x86-64-v3", lanes=4)
    registry = read_registry(app)
    older = Machine(frozenset(registry.entries[0].features), 4)
    assert Deployment(app, registry, older).choose({"image": (4, 4)}).id != entry.id
    newer = Machine(frozenset(entry.features), 4)
    assert Deployment(app, registry, newer).choose({"image": (4, 4)}) == entry


@pytest.mark.parametrize("workers", [None, 1, 3])
def test_many_requests_of_any_shapes(app: Path, workers: int | None) -> None:
    loaded = load_program(app)
    assert isinstance(loaded, Deployment)
    session = loaded.session()
    sizes = [1, 4, 3, 1, 2, 4]
    results = session.run_many(({"image": image(rows)} for rows in sizes), workers=workers)
    for rows, result in zip(sizes, results, strict=True):
        np.testing.assert_array_equal(result["result"], expected(image(rows)))
    with refused(RequestsError, "1 of 3", "9x4"):
        session.run_many([{"image": image(rows)} for rows in (1, 9, 1)], workers=workers)
    session.close()


@pytest.fixture
def ranged(app: Path) -> Path:
    """The same with programs for 1 to 3 rows and for 1 to 9, the latter on one lane and on two."""
    add_range(app, 1, 9)
    add_range(app, 1, 9, lanes=2)
    add_range(app, 1, 3, lanes=2)
    return app


def test_a_range_serves_what_no_exact_program_does(ranged: Path) -> None:
    registry = read_registry(ranged)
    assert json.loads((ranged / "deployment.json").read_text())["version"] == 2
    by_id = {entry.id: str(entry.inputs[0]) for entry in registry.entries}
    taken = {rows: by_id[computes(ranged, rows)] for rows in range(1, 10)}
    assert taken == {
        **{1: "image:1x4", 2: "image:1..3x4", 3: "image:1..3x4", 4: "image:4x4"},
        **dict.fromkeys(range(5, 10), "image:1..9x4"),
    }
    with pytest.raises(DeploymentError, match=r"image:10x4; .* image:1..9x4; image:1..3x4"):
        computes(ranged, 10)


def test_ranges_share_weights_and_kernels_and_are_replaced(ranged: Path) -> None:
    assert files(ranged) == {"entries": 6, "weights": 1, "kernels": 3}
    before = read_registry(ranged)
    entry = add_range(ranged, 1, 9)
    after = read_registry(ranged)
    assert entry in after.entries
    assert len(after.entries) == len(before.entries) == 6
    assert not entry.padding
    assert entry.inputs[0].open == (OpenAxis(0, "rows", 1, 9, 1),)
    # Without ranges a registry is what it was before there were any.
    prune(ranged, [e.id for e in after.entries if e.is_of_range])
    assert json.loads((ranged / "deployment.json").read_text())["version"] == 1
    assert files(ranged) == {"entries": 3, "weights": 1, "kernels": 2}


def test_one_session_goes_through_exact_programs_and_ranges(ranged: Path) -> None:
    session = load_deployment(ranged).session()
    for rows in (4, 9, 2, 1, 5, 3, 9, 4, 7):
        session.run(image=image(rows))
        np.testing.assert_array_equal(session.get_output(), expected(image(rows)))
        assert session.outputs[0].shape == session.inputs[0].shape == (rows, 4)
    session.reserve()
    np.testing.assert_array_equal(session.get_output(), expected(image(7)))
    sizes = [9, 1, 4, 6, 3, 2, 9]
    results = session.run_many(({"image": image(rows)} for rows in sizes), workers=2)
    for rows, result in zip(sizes, results, strict=True):
        np.testing.assert_array_equal(result["result"], expected(image(rows)))
    assert session.random_inputs(0, {"image": (8, 4)})["image"].shape == (8, 4)
    session.close()


def test_a_session_keeps_the_programs_of_some_shapes_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = tmp_path / "app"
    add_range(app, 1, 40)
    monkeypatch.setattr("runtime_ext.deployment.session._KEPT", 4)
    session = load_deployment(app).session()
    assert session.random_inputs()["image"].shape == (6, 4)
    for rows in (*range(1, 41), 3):
        session.run(image=image(rows))
        np.testing.assert_array_equal(session.get_output(), expected(image(rows)))
    assert len(session._chosen) == 4  # pyright: ignore[reportPrivateUsage]


Change = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda axis: axis.update(axis=1), ["unknown extent"]),
        (lambda axis: axis.update(axis=5), ["unknown extent"]),
        (lambda axis: axis.update(least=10), ["'image'", "dimension 0"]),
        (lambda axis: axis.update(step=3), ["'image'", "dimension 0"]),
        (lambda axis: axis.update(step=0), ["'step'"]),
        (lambda axis: axis.update(symbol=3), ["'symbol'"]),
        (lambda axis: axis.pop("most"), ["'most'"]),
    ],
)
def test_a_range_that_is_misstated_is_named(
    tmp_path: Path, change: Change, named: list[object]
) -> None:
    app = tmp_path / "app"
    add_range(app, 1, 9)
    rewrite(app, lambda d: change(d["entries"][0]["inputs"][0]["open"][0]))
    with refused(DeploymentError, "deployment.json", *named):
        load_deployment(app)
    with refused(DeploymentError, "deployment.json"):
        load_module(app)


def test_padding_and_two_ranges_of_a_symbol_are_misstated(tmp_path: Path) -> None:
    app = tmp_path / "app"
    add_range(app, 1, 9)
    for change, named in (
        (lambda e: e.update(padding=True, batch=None), "pads rows"),
        (lambda e: e["inputs"][0]["open"].append({"axis": 1}), "'symbol'"),
        (lambda e: e["inputs"][0].pop("open"), "unknown extent"),
    ):
        copy = shutil.copytree(app, tmp_path / named.replace("'", ""))
        rewrite(copy, lambda d, change=change: change(d["entries"][0]))
        with refused(DeploymentError, named):
            load_deployment(copy)
        with pytest.raises(DeploymentError):
            load_module(copy)


def test_a_range_of_another_program_is_found_out(ranged: Path) -> None:
    registry = read_registry(ranged)
    exact, of_range = (
        next(e.id for e in registry.entries if str(e.inputs[0]) == text)
        for text in ("image:4x4", "image:1..9x4")
    )

    def swap(data: Any) -> None:
        for entry in data["entries"]:
            entry["id"] = {exact: of_range, of_range: exact}.get(entry["id"], entry["id"])

    rewrite(ranged, swap)
    for session in (load_deployment(ranged, lanes=1).session(), load_module(ranged, lanes=1)):
        with pytest.raises(UserError):
            session.run(image=image(5))


def test_a_damaged_registry_of_ranges_is_told_or_right(ranged: Path) -> None:
    """Whatever its JSON says, in Python and C++; the checksum is right."""
    file, outcomes = ranged / "deployment.json", {"right": 0, "told": 0}
    sound = file.read_text()
    for seed in range(150):
        random = np.random.default_rng(seed)
        damage = damage_json if seed % 2 else disarrange_json
        write_registry(file, damage(json.loads(sound), random))
        for load_session in (
            lambda: load_deployment(ranged).session(),
            lambda: load_module(ranged),
        ):
            try:
                session = load_session()
                for rows in (1, 4, 7, 2):
                    session.run(image=image(rows))
                    np.testing.assert_array_equal(session.get_output(0), expected(image(rows)))
                session.close()
                outcomes["right"] += 1
            except UserError:
                outcomes["told"] += 1
    assert min(outcomes.values()) > 20
