"""Machines that callers and the search for lost ones want at the same time."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest

from runtime_ext.fleet import pool as pools
from runtime_ext.fleet.connection import LostError
from runtime_ext.fleet.pool import MachinePool
from runtime_ext.fleet.tracker import Address, Lent


class Servers:
    """A tracker whose servers are free some time after they were given back."""

    def __init__(self) -> None:
        self.free: list[Address] = []

    def lend(self, key: str) -> Lent | None:
        return Lent(self.free.pop(), key) if self.free else None

    def machine(self, lent: Lent) -> Any:
        return Connection(self, lent)


class Connection:
    def __init__(self, servers: Servers, lent: Lent) -> None:
        self._servers = servers
        self.connect(lent)

    def connect(self, lent: Lent) -> None:
        self._lent, self.address = lent, str(lent.address)

    def close(self) -> None:
        threading.Timer(0.05, self._servers.free.append, [self._lent.address]).start()


def test_a_server_that_is_renewed_is_not_taken_for_one_that_came_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    servers = Servers()
    # Who looks for lost machines would be the first to see it.
    monkeypatch.setattr(pools, "_ASK_AGAIN", 0.002)
    monkeypatch.setattr(pools, "_PATIENCE", 1.0)
    monkeypatch.setattr(pools, "Machine", servers.machine)
    lost, renewed = (servers.machine(Lent(Address("here", port), "key")) for port in (1, 2))
    pool = MachinePool(cast(Any, servers), "key", [lost, renewed], lambda _: None)

    def measure(machine: Any) -> str:
        if machine is lost:
            raise LostError("it is gone")
        for _ in range(3):
            pool.renew(machine)
        return machine.address

    assert pool.run(measure) == ("here:2", "here:2")
    assert [gone.machine for gone in pool.lost] == ["here:1"]
    pool.close()
