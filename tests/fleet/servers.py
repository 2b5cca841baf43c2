"""A real tracker and real servers on the loopback, which end with the test."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from runtime_ext.fleet.tracker import Address, Tracker, TrackerError

KEY = "tested"
#: Seconds in which a process that imports TVM is ready, on a machine that is busy or emulated.
_STARTS = 600.0


@dataclass
class Processes:
    """A tracker and its servers."""

    #: Where the tracker listens.
    tracker: Address
    #: The servers' processes by their addresses, in the order in which they were started.
    servers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def options(self) -> list[str]:
        """What commands are given to measure on them."""
        return ["--tracker", str(self.tracker), "--key", KEY]

    def signal(self, server: str, number: signal.Signals) -> None:
        """Send a signal to a server and all of its processes."""
        os.killpg(self.servers[server].pid, number)

    def kill(self, server: str) -> None:
        """End a server and all of its processes, as a machine that loses its power does."""
        self.signal(server, signal.SIGKILL)
        self.servers.pop(server).wait()

    def start(self, ours: bool = False, python: str = sys.executable) -> str:
        """One more server, TVM's or ours, perhaps of another Python; its address."""
        port = _free_port()
        if ours:
            command = ["tvm_ios", "server", "--port", str(port)]
        else:
            command = ["tvm.exec.rpc_server", *_listening(port)]
        process = _started(["-m", *command, *self.options], python)
        address = f"127.0.0.1:{port}"
        self.servers[address] = process
        self.wait(len(self.servers))
        return address

    def wait(self, free: int) -> None:
        """Wait until so many servers are free."""
        end = time.monotonic() + _STARTS
        while time.monotonic() < end:
            try:
                listed = Tracker(self.tracker).listed().get(KEY)
                if listed is not None and listed.free >= free:
                    return
            except TrackerError:
                pass
            time.sleep(0.1)
        raise AssertionError(f"{free} servers are not ready within {_STARTS} s")


@contextmanager
def running(servers: int) -> Generator[Processes]:
    """A tracker and so many plain servers of TVM."""
    port = _free_port()
    tracker = _started(["-m", "tvm.exec.rpc_tracker", *_listening(port), "--silent"])
    processes = Processes(Address("127.0.0.1", port))
    try:
        for _ in range(servers):
            processes.start()
        yield processes
    finally:
        for process in (*processes.servers.values(), tracker):
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _listening(port: int) -> list[str]:
    return ["--host", "127.0.0.1", "--port", str(port), "--port-end", str(port + 1)]


def _started(arguments: Sequence[str], python: str = sys.executable) -> subprocess.Popen[bytes]:
    # In a group of its own, which is killed as a whole: servers have a process for each session.
    path = os.pathsep.join(p for p in sys.path if p)
    return subprocess.Popen(
        [python, *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | ({"PYTHONPATH": path} if python == sys.executable else {}),
        start_new_session=True,
    )


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
