"""``tvm-ios sweep``: many searches, on all cores or a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tvm_ios.cli.frame import panels
from tvm_ios.cli.frame.help_pages import HelpPage
from tvm_ios.cli.frame.output import Reporting, print_json, progress_bars, reports_errors
from tvm_ios.cli.options.fleet import Tracker, fleet_address
from tvm_ios.cli.options.values import refuse
from tvm_ios.cli.tables.swept import print_sweep
from tvm_ios.sweep.row_files import TableFormat
from tvm_ios.sweep.tasks import FLEET

if TYPE_CHECKING:
    from tvm_ios.sweep.runners.runner import Runner, Workers
    from tvm_ios.sweep.tasks import Task


PAGE = HelpPage(
    (
        "tvm-ios sweep sweep.toml -o results",
        "tvm-ios sweep sweep.toml -o results --workers 4 --format parquet",
        "tvm-ios sweep sweep.toml -o results --address auto",
        "tvm-ios sweep sweep.toml -o results --tracker 127.0.0.1:9190",
    ),
    "docs/sweeps.md says what a sweep's file holds; the same command goes on where it was stopped.",
)


@reports_errors
def sweep(
    file: Annotated[Path, typer.Argument(help="The sweep's .toml file.")],
    output: Annotated[
        Path, panels.output("-o", "--output", metavar="FOLDER", help="Where results are kept.")
    ],
    reporting: Reporting,
    address: Annotated[
        str | None,
        panels.running(
            help="Use Ray: local starts it on this machine, auto joins the cluster here, "
            "HOST:PORT another.  [processes of this machine]"
        ),
    ] = None,
    workers: Annotated[
        int | None, panels.running(min=1, help="Tasks at once on this machine.  [all CPUs]")
    ] = None,
    tracker: Tracker = None,
    table_format: Annotated[
        TableFormat, panels.output("--format", help="Of the one file of all rows.")
    ] = TableFormat.json,
) -> None:
    """Search models x batches x shapes x devices x policies, and cross what is found.

    Tasks run on all cores, or on a cluster of Ray; those that measure have their device for
    themselves. A task that is finished is never done again, whatever else the file asks for later:
    its key is the hash of the model's content, the device's figures, the versions and all
    options. A task that fails is reported, and the others go on.
    """
    from runtime_ext.machine.this_machine import available_lanes
    from tvm_ios.sweep.content import Jobs
    from tvm_ios.sweep.expansion import expand
    from tvm_ios.sweep.finished import results_folder
    from tvm_ios.sweep.row_files import require_format, write_rows
    from tvm_ios.sweep.rows import rows_of
    from tvm_ios.sweep.run import run_sweep
    from tvm_ios.sweep.sweep_file import read_sweep

    require_format(table_format)
    asked = read_sweep(file)
    tasks = expand(asked)
    devices = list(dict.fromkeys(device for task in tasks for device in _held(task)))
    listening = _tracker(tracker, devices)
    with (
        results_folder(output) as finished,
        progress_bars() as update,
        _workers(address, workers or available_lanes(), devices) as runner,
    ):
        machines = {d: _machine(d, runner, listening, asked.limits.lanes) for d in devices}
        swept = run_sweep(
            tasks,
            Jobs(asked.folder, asked.limits, machines, listening),
            runner,
            finished,
            update,
            lambda task, error: update.tell(f"tvm-ios: {task}: {error}"),
        )
        rows = rows_of(swept)
        path = write_rows(rows, output, table_format)
    failed = sum(row["error"] is not None for row in rows)
    counts = {"tasks": len(rows), "resumed": swept.resumed, "failed": failed}
    if reporting.as_json:
        print_json({**counts, "results": str(path), "rows": rows})
    else:
        print_sweep(rows, counts, path)
    if failed:
        raise typer.Exit(1)


def _held(task: Task) -> list[str]:
    from tvm_ios.sweep.tasks import MemoryTask, is_measured

    if isinstance(task, MemoryTask) or not is_measured(task.device):
        return []
    return [task.device]


def _tracker(tracker: str | None, devices: list[str]) -> str | None:
    """Return the address (HOST:PORT) of the tracker if a device is a fleet's key; else None."""
    keys = [device.removeprefix(FLEET) for device in devices if device.startswith(FLEET)]
    if keys:
        return str(fleet_address(tracker, keys[0])[0])
    refuse(f"the sweep has no device {FLEET}KEY", {"--tracker": tracker is not None})
    return None


def _machine(device: str, runner: Runner, tracker: str | None, lanes: int | None) -> str:
    """Return the name of the machine on which a measured device runs."""
    if tracker is None or not device.startswith(FLEET):
        return runner.machine(lanes)
    from runtime_ext.fleet.opening import fleet_name
    from tvm_ios.sweep.searches import fleet_choice

    return fleet_name(fleet_choice(tracker, device), lanes=lanes)


def _workers(address: str | None, workers: int, devices: list[str]) -> Workers:
    if address is None:
        from tvm_ios.sweep.runners.processes import processes

        return processes(workers)
    from tvm_ios.sweep.runners.on_ray import on_ray

    return on_ray(address, workers, devices)
