"""The machines of a key, each lent to one caller at a time; lost ones are asked for again."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from runtime_ext.fleet.choice import FleetChoice
from runtime_ext.fleet.connection import LostError
from runtime_ext.fleet.machine import Machine
from runtime_ext.fleet.tracker import Tracker, TrackerError
from tvm_ios.errors import UserError
from tvm_ios.measuring.timing_device import UntimedError

T = TypeVar("T")

#: A trial that has cost this many machines is given up: it is what breaks them.
_MACHINES_A_TRIAL = 3
#: The times that a machine may come back after it was lost.
_RETURNS = 3
#: Seconds between two requests to the tracker, and how long a fleet without machines waits.
_ASK_AGAIN, _PATIENCE = 2.0, 20.0
#: Seconds between two attempts while machines are lent, or servers are being given back.
_LOOK_AGAIN = 0.1

#: Returns a clause on why a machine differs from the others; None if it does not.
Misfit = Callable[[Machine], str | None]


class FleetLostError(UntimedError):
    """A measurement for which no machine is left."""


@dataclass(frozen=True, slots=True)
class Gone:
    """A machine, by address, that was lost or left out, with a clause that says why."""

    machine: str
    why: str


class MachinePool:
    """Machines that are alike, lent to one caller each.

    Lost ones are replaced by others of the tracker with the same key, if ``misfit`` finds no
    difference. ``lost`` has the machines that did not answer, in order, repeatedly if one came back
    and was lost again. ``exhausted`` is whether a caller got no machine because none was left.
    """

    def __init__(
        self, tracker: Tracker, key: str, machines: Sequence[Machine], misfit: Misfit
    ) -> None:
        self.lost: list[Gone] = []
        self.exhausted = False
        self._tracker, self._key, self._misfit = tracker, key, misfit
        self._size = len(machines)
        self._free = list(machines)
        self._alike = {machine.address for machine in machines}
        self._busy = 0
        self._changed = threading.Condition()
        self._recruiting = False
        #: Held while asking the tracker: a server that is renewed must not be found as one that
        #: came back.
        self._asking = threading.Lock()
        self._last_loss = 0.0
        self._closed = False

    def run(self, measure: Callable[[Machine], T]) -> tuple[T, str]:
        """Call ``measure`` with a free machine; return its result and the machine's address.

        A machine that does not answer is dropped, and another one tried. Raise FleetLostError if
        none is left and none comes back within 20 s, UntimedError if three were lost.
        """
        lost: list[Gone] = []
        while len(lost) < _MACHINES_A_TRIAL:
            machine = self._take()
            try:
                answer = measure(machine)
            except LostError as error:
                lost.append(Gone(machine.address, str(error)))
                self._lose(lost[-1])
            except BaseException:
                self._put(machine)
                raise
            else:
                self._put(machine)
                return answer, machine.address
        raise UntimedError(
            f"a program was tried on {len(lost)} machines, and all of them were lost with it: "
            + "; ".join(f"{gone.machine}: {gone.why}" for gone in lost)
        )

    def renew(self, machine: Machine) -> None:
        """Connect a lent machine anew: to the same server, or another one that is like it.

        Raise LostError if there is none within 20 s.
        """
        with self._asking:
            machine.close()
            deadline = time.monotonic() + _PATIENCE
            while time.monotonic() < deadline:
                lent = self._tracker.lend(self._key)
                if lent is None:
                    time.sleep(_LOOK_AGAIN)
                    continue
                machine.connect(lent)
                if machine.address in self._alike or self._misfit(machine) is None:
                    return
                machine.close()
        raise LostError("its server could not be had again for a fresh process")

    def close(self) -> None:
        """Give the machines back, as soon as they are free."""
        with self._changed:
            self._closed = True
            machines, self._free = self._free, []
            self._changed.notify_all()
        for machine in machines:
            machine.close()

    def _take(self) -> Machine:
        with self._changed:
            while not self._free:
                if self._closed:
                    raise FleetLostError("the fleet was given back: open it again")
                waited = time.monotonic() - self._last_loss
                if not self._busy and waited > _PATIENCE:
                    self.exhausted = True
                    raise FleetLostError(
                        f"no machine of the key {self._key!r} is left: {told(self.lost)}"
                    )
                self._changed.wait(_ASK_AGAIN)
            self._busy += 1
            return self._free.pop(0)

    def _put(self, machine: Machine, *, was_busy: bool = True) -> None:
        """Take back a machine that is free; close it if the pool was closed."""
        with self._changed:
            self._busy -= was_busy
            closed = self._closed
            if not closed:
                self._free.append(machine)
                self._changed.notify()
        if closed:
            machine.close()

    def _lose(self, gone: Gone) -> None:
        with self._changed:
            self._busy -= 1
            self.lost.append(gone)
            self._last_loss = time.monotonic()
            begins, self._recruiting = not self._recruiting, True
        if begins:
            threading.Thread(target=self._recruit, name="lost machines", daemon=True).start()

    def _recruit(self) -> None:
        """Ask the tracker for machines until there are as many as before."""
        while True:
            time.sleep(_ASK_AGAIN)
            with self._changed:
                if self._closed or len(self._free) + self._busy >= self._size:
                    self._recruiting = False
                    return
            # A tracker that is gone may come back, too.
            with suppress(TrackerError, LostError, UserError), self._asking:
                self._ask_for_one()

    def _ask_for_one(self) -> None:
        lent = self._tracker.lend(self._key)
        if lent is None:
            return
        machine = Machine(lent)
        if Counter(gone.machine for gone in self.lost)[machine.address] > _RETURNS:
            return machine.close()
        if self._misfit(machine) is not None:
            return machine.close()
        return self._put(machine, was_busy=False)


def connect(tracker: Tracker, choice: FleetChoice) -> tuple[list[Machine], list[Gone]]:
    """Connect to the free servers of a key.

    Return the machines, in the order of their addresses, and those that do not answer. Raises
    TrackerError if no server of the key is free, and UserError if none of them can be used.
    """
    key, most = choice.key, choice.devices
    end = time.monotonic() + choice.patience
    while True:
        keys = tracker.listed()
        listed = keys.get(key)
        if listed is None or listed.free >= (most or listed.servers) or time.monotonic() > end:
            break
        time.sleep(_LOOK_AGAIN)
    if listed is None:
        others = f"it has {', '.join(keys)}" if keys else "it has none at all"
        raise TrackerError(
            f"the tracker {tracker.address} has no server of the key {key!r}, {others}: start "
            f"one with `tvm-ios server --tracker {tracker.address} --key {key}`"
        )
    wanted = min(listed.free, most or listed.free)
    if not wanted:
        raise TrackerError(
            f"all servers of the key {key!r} ({listed.servers}) serve others: wait, or start more"
        )

    def one(_: int) -> Machine | Gone | None:
        lent = tracker.lend(key)
        if lent is None:
            return None
        try:
            return Machine(lent)
        except LostError as error:
            return Gone(str(lent.address), str(error))

    with ThreadPoolExecutor(wanted) as threads:
        answers = list(threads.map(one, range(wanted)))
    machines = [answer for answer in answers if isinstance(answer, Machine)]
    gone = [answer for answer in answers if isinstance(answer, Gone)]
    if not machines:
        raise UserError(f"no server of the key {key!r} can be used: {told(gone) or 'all are busy'}")
    return sorted(machines, key=lambda machine: machine.address), gone


def told(gone: Sequence[Gone]) -> str:
    """Return a clause that lists which machines are gone and why."""
    return "; ".join(f"{one.machine}: {one.why}" for one in gone)
