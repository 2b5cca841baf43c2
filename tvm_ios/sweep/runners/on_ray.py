"""A runner on Ray: an existing cluster, or one on this machine that ends with the sweep."""

from __future__ import annotations

import importlib
import json
import os
import secrets
import signal
import socket
import sys
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

from tvm_ios.errors import UserError
from tvm_ios.files.atomic import temporary_folder
from tvm_ios.sweep.content import Job
from tvm_ios.sweep.runners.runner import ATTEMPTS, Runner, describe_here, killed
from tvm_ios.sweep.tasks import HERE
from tvm_ios.sweep.worker import work

#: The address of a cluster that is started on this machine, for the sweep alone.
LOCAL = "local"

#: Read when Ray is imported: no reports of usage to anyone.
_QUIET = {"RAY_USAGE_STATS_ENABLED": "0"}
#: And for a cluster of our own: all of it listens on the loopback (this is what Ray does on systems
#: where a cluster is of one machine), and strangers lack the token.
_LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_AUTH_MODE": "token"}
#: For the schedules that travel between tasks; models in files are not sent on one machine.
_STORE_BYTES = 128 << 20
#: Seconds that a cluster has to accept a connection.
_ANSWER_SECONDS = 10.0


@contextmanager
def on_ray(address: str, workers: int, devices: Collection[str]) -> Generator[Runner]:
    """Open a runner on a cluster of Ray.

    ``address`` is :data:`LOCAL` (start a cluster here with ``workers`` CPUs), ``auto`` for a
    cluster that this machine belongs to, or HOST:PORT. ``devices`` are those that measured tasks
    hold: each has to be a resource of the cluster. Raise UserError if Ray is not installed, there
    is no such cluster, or it lacks a resource.
    """
    # Ray's messages about its workers do not belong on a command's stdout.
    with temporary_folder() as folder, redirect_stdout(sys.stderr):
        ray = _connect(address, workers, devices, folder)
        try:
            yield _OnRay(ray, address, devices)
        finally:
            ray.shutdown()


class _OnRay:
    """A :class:`tvm_ios.sweep.runners.runner.Runner` on Ray."""

    def __init__(self, ray: Any, address: str, devices: Collection[str]) -> None:
        offered = ray.cluster_resources()
        for device in devices:
            if device not in offered:
                offer = json.dumps({device: 1})
                raise UserError(
                    f"no node of the Ray cluster {address} offers {device!r}: start the one that "
                    f"measures there with ray start --resources='{offer}'"
                )
        self.workers = int(offered["CPU"])
        self._ray = ray
        self._sends_files = address != LOCAL
        self._sent: dict[Path, Any] = {}
        self._running: dict[Any, Job] = {}

    def machine(self, lanes: int | None) -> str:
        if not self._sends_files:
            return describe_here(lanes)
        described = self._ray.remote(describe_here).options(num_cpus=0, resources={HERE: 1e-3})
        return self._ray.get(described.remote(lanes))

    def start(self, job: Job, schedule: str | None) -> None:
        content = json.dumps(job.content)
        if self._sends_files:
            arguments = (content, schedule, list(job.files), *map(self._send, job.files.values()))
            function = _work_with_files
        else:
            files = {name: str(path.absolute()) for name, path in job.files.items()}
            arguments, function = (content, files, schedule), work
        task = self._ray.remote(function).options(
            num_cpus=self._cpus_of_here() if job.holds == HERE else 1,
            resources={} if job.holds is None else {job.holds: 1},
            max_retries=ATTEMPTS - 1,
        )
        self._running[task.remote(*arguments)] = job

    def next(self) -> tuple[Job, dict[str, Any]]:
        (done,), _ = self._ray.wait(list(self._running), num_returns=1)
        job = self._running.pop(done)
        errors = self._ray.exceptions
        try:
            text = self._ray.get(done)
        except (errors.WorkerCrashedError, errors.OutOfMemoryError):
            return job, killed(ATTEMPTS)
        except errors.RayError as error:
            return job, {"error": f"Ray gave it up: {str(error).strip().partition(chr(10))[0]}"}
        outcome = json.loads(text)
        for name, path in job.files.items():
            if "error" in outcome:
                outcome["error"] = outcome["error"].replace(name, str(path))
        return job, outcome

    def _send(self, path: Path) -> Any:
        """Put a file's bytes into Ray's store, only once; return the reference."""
        if path not in self._sent:
            self._sent[path] = self._ray.put(path.read_bytes())
        return self._sent[path]

    def _cpus_of_here(self) -> float:
        """Return the number of CPUs of the measuring node, so that a job can take all of them."""
        nodes = (node["Resources"] for node in self._ray.nodes() if node["Alive"])
        return min(node.get("CPU", 0) for node in nodes if HERE in node)


def _work_with_files(
    content: str, schedule: str | None, names: Sequence[str], *files: bytes
) -> str:
    """Run :func:`work` on another machine, with the contents of its files sent along."""
    with temporary_folder() as folder:
        paths = {name: folder / name for name in names}
        for path, data in zip(paths.values(), files, strict=True):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        outcome = work(content, {name: str(path) for name, path in paths.items()}, schedule)
        return outcome.replace(f"{folder}/", "")


def _connect(address: str, workers: int, devices: Collection[str], folder: Path) -> Any:
    local = address == LOCAL
    os.environ.update(_QUIET)
    if local:
        os.environ.update(_LOOPBACK, RAY_AUTH_TOKEN=secrets.token_hex(32))
    try:
        ray = importlib.import_module("ray")
    except ImportError as error:
        raise UserError(
            "--address needs Ray, which is not installed: pip install 'tvm-ios[ray]', or leave it "
            "out to use processes of this machine"
        ) from error
    if not local:
        _require_listener(address)
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    if local:
        options |= {
            "num_cpus": workers,
            "num_gpus": 0,
            "resources": dict.fromkeys(devices, 1),
            "object_store_memory": _STORE_BYTES,
            "include_dashboard": False,
            "_temp_dir": str(folder),
        }
    before = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(address, **options)
    except (ConnectionError, OSError, RuntimeError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise UserError(
            f"there is no Ray cluster at {address}: {reason}"
            if not local
            else f"Ray does not start on this machine: {reason}"
        ) from error
    # Ray takes SIGTERM for itself, and commands end in a sentence of their own.
    signal.signal(signal.SIGTERM, before)
    return ray


def _require_listener(address: str) -> None:
    """Require that something listens at HOST:PORT, or raise UserError: Ray tries for minutes."""
    host, colon, port = address.rpartition(":")
    if not colon or "//" in address:
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _ANSWER_SECONDS).close()
    except (OSError, ValueError, OverflowError) as error:
        raise UserError(f"there is no Ray cluster at {address}: {error}") from error
