"""Measurements on a device, as many at once as it takes; each is logged as soon as it ends."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cached_property

from tvm_ios.costs.log import MeasurementLog, quietest
from tvm_ios.errors import UnfusedError, UserError
from tvm_ios.measuring.device import UnsupportedError
from tvm_ios.measuring.timing_device import UntimedError

_LOGGER = logging.getLogger(__name__)
#: The samples, in seconds, of each key of a measurement.
Samples = Sequence[Sequence[float]]
#: Errors that fail one measurement only.
_REFUSALS = (UnfusedError, UnsupportedError, UntimedError)


@dataclass(frozen=True)
class Measurement:
    """A request to a device."""

    #: The log keys that it gives samples of, each with a label for people.
    labels: Mapping[str, str]
    #: Compiles and lowers, and returns a function that runs the measurement. Measurements are
    #: prepared one after another; several threads may run them at once.
    prepare: Callable[[], Callable[[], Samples]]
    #: Whether it times the tasks of a kernel instead of a stage.
    is_profile: bool = False
    #: The number of measurements that the log must have, unless this device is exact.
    times: int = 1


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a measurement: the seconds of each of its keys, or the error."""

    seconds: tuple[float, ...]
    error: UserError | None = None

    def required(self) -> tuple[float, ...]:
        """Return the seconds, or raise the error if there is one."""
        if self.error is not None:
            raise self.error
        return self.seconds


def logged_outcome(log: MeasurementLog, measurement: Measurement) -> Outcome:
    """Return the outcome of a measurement whose keys are all in the log."""
    return Outcome(tuple(quietest(log.measurements[key]) for key in measurement.labels))


@dataclass
class _Asked:
    """A measurement that has begun; its outcome is set when it ends."""

    measurement: Measurement
    outcome: Outcome | None = None


class Measurer:
    """Takes the measurements that a log lacks.

    One thread prepares them, writes the log and returns outcomes; others wait for the device. A
    device that takes one at a time needs no other threads. ``concurrency`` is how many the device
    takes at once. ``stages_measured`` counts the measurements that were not in the log, without
    profiles.
    """

    def __init__(self, log: MeasurementLog, concurrency: int) -> None:
        self.stages_measured = 0
        self._log = log
        self._concurrency = concurrency
        #: Includes measurements that are asked for while another one is prepared.
        self._running: dict[Future[Samples], _Asked] = {}

    def outcomes(self, measurements: Iterable[Measurement]) -> Iterator[Outcome]:
        """Yield the outcomes of measurements, in order.

        The next measurement is taken from the iterable only when the device has room for it, with
        one more to be prepared meanwhile, so a caller can stop when a budget ends. Raise UserError
        if the device fails for all measurements, or the log cannot be written.
        """
        asked: deque[_Asked] = deque()
        try:
            for measurement in measurements:
                asked.append(self._begin(measurement))
                while len(self._running) > self._concurrency:
                    self._keep_ended()
                while asked and (outcome := asked[0].outcome) is not None:
                    asked.popleft()
                    yield outcome
            while asked:
                while (outcome := asked[0].outcome) is None:
                    self._keep_ended()
                asked.popleft()
                yield outcome
        except BaseException:
            self._abandon(asked)
            raise

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._concurrency, "measuring")

    def _begin(self, measurement: Measurement) -> _Asked:
        asked = _Asked(measurement)
        keys = measurement.labels.keys()
        while any(keys & other.measurement.labels.keys() for other in self._running.values()):
            self._keep_ended()
        if not any(self._log.wants(key, measurement.times) for key in keys):
            asked.outcome = logged_outcome(self._log, measurement)
            _tell("in the log", asked)
            return asked
        try:
            ask_device = measurement.prepare()
        except _REFUSALS as error:
            asked.outcome = Outcome((), error)
            _tell("not measured", asked)
            return asked
        if self._concurrency == 1:
            self._end(asked, ask_device)
        else:
            self._running[self._pool.submit(ask_device)] = asked
        return asked

    def _keep_ended(self) -> None:
        """Wait until a measurement ends, and record all that have ended."""
        fatal: Exception | None = None
        for future in wait(self._running, return_when=FIRST_COMPLETED).done:
            try:
                self._end(self._running.pop(future), future.result)
            except Exception as error:
                # Raise it after the others, whose samples are kept.
                fatal = error
        if fatal is not None:
            raise fatal

    def _end(self, asked: _Asked, result: Callable[[], Samples]) -> None:
        measurement = asked.measurement
        try:
            samples = result()
        except _REFUSALS as error:
            asked.outcome = Outcome((), error)
            _tell("not measured", asked)
            return
        for (key, label), of_key in zip(measurement.labels.items(), samples, strict=True):
            self._log.append(key, of_key, label)
        self.stages_measured += not measurement.is_profile
        asked.outcome = logged_outcome(self._log, measurement)
        _tell("measured", asked)

    def _abandon(self, asked: Iterable[_Asked]) -> None:
        """Record the measurements that have ended, and cancel the others."""
        mine = {id(each) for each in asked}
        for future, each in tuple(self._running.items()):
            if id(each) in mine:
                del self._running[future]
                if not future.cancel() and future.done() and future.exception() is None:
                    self._end(each, future.result)


def _tell(how: str, asked: _Asked) -> None:
    """Write the outcome of a measurement into the process's log, at debug level."""
    outcome = asked.outcome
    if outcome is None or not _LOGGER.isEnabledFor(logging.DEBUG):
        return
    if outcome.error is not None:
        _LOGGER.debug(
            "%s: %s: %s", how, next(iter(asked.measurement.labels.values())), outcome.error
        )
    for label, seconds in zip(asked.measurement.labels.values(), outcome.seconds, strict=False):
        _LOGGER.debug("%s: %s: %.4f ms", how, label, seconds * 1e3)
