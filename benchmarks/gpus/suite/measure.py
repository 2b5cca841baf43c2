"""Measures slices, each within its time, and keeps every part as soon as it is there."""

from __future__ import annotations

import json
import os
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from benchmarks.gpus.suite.command import Failed, Late, output_of
from benchmarks.gpus.suite.record import Record, open_record, restore_state, this_machine, unpack
from benchmarks.gpus.suite.slices import POLICIES, Kind, Part, Slice, parts_of

#: In a suite's folder: bundles packed, and unpacked; what they share, our code; wheels; checks.
BUNDLES, WORK, PACKAGES, WHEELS, CHECKS = "bundles", "work", "packages", "wheels", "checks"
TVM_RUNTIME = "tvm-runtime.tar.xz"
#: What measures the edges of captured graphs.
EDGES = "benchmarks.gpus.suite.edges"
#: Parts that other frameworks may spoil, or that say nothing of programs.
_OTHERS = {"peers", "warps", "compiled", "edges"}
#: Of a slice, what nobody has begun.
_REST = "the rest"


def measure_slices(
    suite: Path,
    slices: Sequence[Slice],
    results: Path,
    *,
    seconds: float,
    end: float,
    again: bool,
    keep_going: bool,
    policies: str = POLICIES,
) -> Record:
    """Measure what has no result yet.

    Parameters
    ----------
    suite
        The folder that was prepared.
    slices
        In this order.
    results
        Where the record is written.
    seconds
        A slice's time.
    end
        When the time of all is over, by :func:`time.monotonic`.
    again
        Measure also what has a result or has failed.
    keep_going
        Go on if one fails that comes first.
    policies
        To search on a GPU, between commas.
    """
    record = open_record(results, suite / "results")
    record.machines.append(this_machine())
    for which in slices:
        earlier = {} if again else record.slices.get(which.key, {})
        outcome = _measured(suite, record, which, earlier, seconds, end, policies)
        record.slices[which.key] = outcome
        record.write()
        record.write_state(suite / WORK)
        ours = outcome.get("failed", {}).keys() - _OTHERS
        if which.comes_first and ours and not keep_going:
            print(f"gpu.py: {which.key} failed, see above; --keep-going goes on", file=sys.stderr)
            break
    return record


def _measured(
    suite: Path,
    record: Record,
    which: Slice,
    earlier: Mapping[str, Any],
    seconds: float,
    end: float,
    policies: str,
) -> dict[str, Any]:
    """A slice's results: those that are known, and of each other part what it gives or why not."""
    if earlier and not earlier["late"]:
        return dict(earlier)
    begin = time.monotonic()
    if begin >= end:
        return {"failed": {}, **earlier, "late": {_REST: "there was no time left for it"}}
    own_end = min(begin + seconds, end)
    results: dict[str, Any] = {**earlier, "late": {_REST: "it was interrupted; run it again"}}
    failed: dict[str, str] = results.setdefault("failed", {})
    if which.kind is Kind.checks:
        for name, run in (("checks", _run_checks), ("edges", _run_edges)):
            if name not in results and not failed:
                _keep(results, name, lambda run=run: run(suite, own_end))
        del results["late"][_REST]
        return results
    bundle = _unpacked(suite, record, which)
    if bundle is None:
        return {"late": {}, "failed": {"bundle": "none was prepared"}}
    # A search that ends names the schedules of the parts after it.
    while part := next(
        (
            part
            for part in parts_of(which, suite / WORK, seconds, policies)
            if part.name not in {**results, **failed, **results["late"]}
        ),
        None,
    ):
        print(f"{which.key}: {part.name}", file=sys.stderr)
        _keep(results, part.name, lambda p=part: _run_part(suite, bundle, p, own_end))
        record.slices[which.key] = results
        record.write()
    if which.kind is Kind.crossed and "batches" not in {**results, **failed}:
        results["late"]["batches"] = "fewer than two batches have been measured"
    del results["late"][_REST]
    results["seconds"] = earlier.get("seconds", 0.0) + time.monotonic() - begin
    return results


def _keep(results: dict[str, Any], name: str, run: Callable[[], dict[str, Any]]) -> None:
    """Add what a part gives, or why it gives nothing."""
    try:
        results[name] = run()
    except Late as error:
        results["late"][name] = str(error)
    except Failed as error:
        results["failed"][name] = str(error)


def _run_part(suite: Path, bundle: Path, part: Part, end: float) -> dict[str, Any]:
    environment = {"PYTHONPATH": _paths(suite / PACKAGES, *_site(suite)), **part.environment}
    text = output_of([sys.executable, bundle / "run.py", *part.options], end, environment)
    return json.loads(text.splitlines()[-1])


def _run_edges(suite: Path, end: float) -> dict[str, Any]:
    """What described engines assume of a captured graph."""
    environment = {"PYTHONPATH": _paths(suite / PACKAGES, suite)}
    return json.loads(output_of([sys.executable, "-m", EDGES], end, environment))


def _run_checks(suite: Path, end: float) -> dict[str, Any]:
    """The tests that need a GPU; they bring what they need of ours along."""
    folder = suite / CHECKS
    with tempfile.TemporaryDirectory() as room:
        report = Path(room) / "report.xml"
        options = ["-q", "-p", "no:cacheprovider", "-c", os.devnull, f"--rootdir={folder}"]
        command = [sys.executable, "-m", "pytest", *options, f"--junit-xml={report}", folder]
        try:
            output_of(command, end, {"PYTHONPATH": _paths(suite / PACKAGES, folder)})
        except Failed as error:
            # Tests that fail are in the report.
            if not report.exists():
                raise Failed(f"pytest did not run: {error}") from error
        return _read_report(report)


def _read_report(report: Path) -> dict[str, Any]:
    cases = list(ElementTree.parse(report).getroot().iter("testcase"))
    said = {
        kind: {
            case.get("name", "?"): remark.get("message", "").partition("\n")[0]
            for case in cases
            if (remark := case.find(kind)) is not None
        }
        for kind in ("failure", "error", "skipped")
    }
    wrong = {**said["failure"], **said["error"]}
    passed = len(cases) - len(wrong) - len(said["skipped"])
    for name, message in wrong.items():
        print(f"checks: {name}: {message}", file=sys.stderr)
    if wrong:
        name, message = next(iter(wrong.items()))
        raise Failed(f"{len(wrong)} of {len(cases)} failed; {name}: {message}")
    if not passed:
        raise Failed(f"none ran: {next(iter(said['skipped'].values()), 'there are none')}")
    return {"passed": passed, "skipped": said["skipped"]}


def _unpacked(suite: Path, record: Record, which: Slice) -> Path | None:
    """The folder of a slice's bundle; None if it was not prepared."""
    bundle = suite / WORK / which.bundle
    archive = suite / BUNDLES / f"{which.bundle}.tar.xz"
    if not bundle.exists() and archive.exists():
        with tempfile.TemporaryDirectory(dir=_made(suite / WORK)) as room:
            with tarfile.open(archive) as packed:
                unpack(packed, Path(room))
            os.rename(Path(room) / which.bundle, bundle)
        restore_state(record, bundle)
    return bundle if bundle.exists() else None


def _paths(*folders: Path) -> str:
    """Where Python finds modules: in some folders before all that it has."""
    return os.pathsep.join([*map(str, folders), *filter(None, [os.environ.get("PYTHONPATH")])])


def _site(suite: Path) -> list[Path]:
    """A folder of what CPUs and TVM's own build need, if it was prepared for this Python."""
    tag = f"-cp{sys.version_info.major}{sys.version_info.minor}-"
    wheels = list((suite / WHEELS).glob("*.whl"))
    if not any(tag in wheel.name for wheel in wheels):
        return []
    site = suite / WORK / f"site{tag.rstrip('-')}"
    if not site.exists():
        with tempfile.TemporaryDirectory(dir=_made(suite / WORK)) as room:
            unpacked = _made(Path(room) / "site")
            for wheel in wheels:
                with zipfile.ZipFile(wheel) as packed:
                    packed.extractall(unpacked)
            with tarfile.open(suite / TVM_RUNTIME) as packed:
                unpack(packed, unpacked)
            os.rename(unpacked, site)
    return [site]


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
