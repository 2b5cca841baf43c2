"""The orders of the executor's atomics suffice under C++'s memory model, and may not be weaker.

Its protocols are small threads here, whose orders are read from the sources of the library. A
thread that sleeps does so in a futex of Linux, whose queue has a lock: what waits there and what
wakes updates one place, in which waits count ones and wakes hundreds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.fast_run import only
from tests.memory_model.executions import Execution, executions
from tests.memory_model.program import Blocked, Load, Operation, Order, Store, Thread, Update
from tests.memory_model.rc11 import Rc11

NATIVE = Path(__file__).parents[2] / "runtime_ext" / "native"
WEAK, RELAXED, ACQUIRE, RELEASE, ACQ_REL, SC = Order
_ORDERS = dict(relaxed=RELAXED, acquire=ACQUIRE, release=RELEASE, acq_rel=ACQ_REL, seq_cst=SC)
#: What is wanted if nobody sleeps: more than any value here.
_NOBODY = 9
_WAKE = 100

Steps = Generator[Operation, Any, Any]


class Access(NamedTuple):
    """An access to an atomic in the sources: the object and what is done, and which of these."""

    file: str
    name: str
    place: int = 0


@cache
def sources() -> Mapping[Access, Order]:
    """The order of each access to an atomic."""
    found: dict[Access, Order] = {}
    operation = (
        r"(\w+)(?:\[[^;]*?\])?(?:\.|->)(load|store|exchange|fetch_add|compare_exchange_\w+)\("
    )
    for path in sorted(NATIVE.glob("*.[hc]*")):
        text = re.sub(r"//.*", "", path.read_text())
        for match in re.finditer(operation, text):
            name = f"{match[1]}.{match[2]}"
            place = sum(a.file == path.name and a.name == name for a in found)
            orders = re.findall(r"memory_order_(\w+)", _arguments(text[match.end() :]))
            assert orders, f"{name} in {path.name} names no order"
            # The second order of a compare-exchange is of one that fails.
            own = orders[0 if "compare" in name else -1]
            found[Access(path.name, name, place)] = _ORDERS[own]
    return found


def _arguments(text: str) -> str:
    """The text up to the bracket that closes it."""
    depth = 1
    for end, character in enumerate(text):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if not depth:
            return text[:end]
    raise ValueError(text)


@dataclass
class Orders:
    """The orders of the sources, of which one may be weaker; and those that were asked for."""

    weaker: Mapping[Access, Order]
    used: set[Access]

    def __call__(self, file: str, name: str, place: int = 0) -> Order:
        access = Access(file, name, place)
        self.used.add(access)
        return self.weaker.get(access, sources()[access])


class Protocol(NamedTuple):
    """Threads that keep to a protocol, and what must not happen."""

    threads: Callable[[Orders], Sequence[Callable[[], Steps]]]
    #: Of an execution, besides data races.
    is_wrong: Callable[[Execution], bool]
    initial: Mapping[str, int] = {}


def signal_publish(order: Orders, value: int, signal: str = "") -> Steps:
    """``Signal::Publish``."""
    yield Store(f"value{signal}", value, order("signal.h", "value_.store"))
    if value >= (yield Load(f"wanted{signal}", order("signal.h", "wanted_.load"))):
        yield from signal_wake(order, signal)


def signal_wake(order: Orders, signal: str = "") -> Steps:
    """``Signal::Wake``."""
    yield Store(f"wanted{signal}", _NOBODY, order("signal.h", "wanted_.store"))
    yield Update(f"bell{signal}", lambda bell: bell + 1, order("signal.h", "bell_.fetch_add"))
    yield Update(f"futex{signal}", lambda queue: queue + _WAKE, ACQ_REL)


def signal_await(order: Orders, target: int, signal: str = "") -> Steps:
    """``Signal::value``, until it has reached a target."""
    if (yield Load(f"value{signal}", order("signal.h", "value_.load"))) < target:
        raise Blocked


def signal_sleep(order: Orders, target: int, cancelled: str = "") -> Steps:
    """A round of ``Signal::Sleep``; the number of wakes before it fell asleep, if it did."""
    rung = yield Load("bell", order("signal.h", "bell_.load"))
    least = yield Load("wanted", order("signal.h", "wanted_.load", 1))
    while least > target:
        found = yield Update(
            "wanted",
            lambda wanted, least=least: target if wanted == least else None,
            order("signal.h", "wanted_.compare_exchange_weak"),
            failure=order("signal.h", "wanted_.compare_exchange_weak"),
        )
        if found == least:
            break
        least = found
    if (yield Load("value", order("signal.h", "value_.load", 1))) >= target:
        yield Load("data", used=False)
        return None
    if cancelled and (yield Load(cancelled, order("signal.h", "cancelled.load", 1))):
        return None
    wakes = (yield Update("futex", lambda queue: queue + 1, ACQ_REL)) // _WAKE
    if (yield Load("bell", RELAXED)) == rung:
        return wakes
    # The next round, which is no other.
    raise Blocked


def oversleeps(target: int) -> Callable[[Execution], bool]:
    """Return whether a thread fell asleep after the last wake, and nobody will wake it."""

    def holds(execution: Execution) -> bool:
        final, wakes = execution.final, execution.results[1]
        if wakes is None or final["futex"] // _WAKE > wakes:
            return False
        return final["value"] >= target or final["wanted"] > target

    return holds


def results_of_a_launch(order: Orders) -> Sequence[Callable[[], Steps]]:
    """Settings of a run go to its workers, and results of launches from lane to lane."""

    def caller() -> Steps:
        yield Store("settings", 1)
        yield Store("timed", 1, order("executor.cc", "timed_.store"))
        yield from signal_publish(order, 1, " of runs")
        yield from signal_await(order, 1, " of launches")
        return (yield Load("result")) == 2

    def worker() -> Steps:
        yield from signal_await(order, 1, " of runs")
        timed = yield Load("timed", order("lanes.cc", "timed_.load"))
        yield Store("result", (yield Load("settings")) + timed)
        yield from signal_publish(order, 1, " of launches")
        return True

    return caller, worker


def sleeping(target: int) -> Callable[[Orders], Sequence[Callable[[], Steps]]]:
    """Return a thread that publishes 1, and one that sleeps until the target."""

    def threads(order: Orders) -> Sequence[Callable[[], Steps]]:
        def publishes() -> Steps:
            yield Store("data", 1)
            yield from signal_publish(order, 1)

        return publishes, lambda: signal_sleep(order, target)

    return threads


def cancelling(flag: str, place: int = 0) -> Callable[[Orders], Sequence[Callable[[], Steps]]]:
    """Return a thread that cancels, and one that sleeps for what then never comes."""

    def threads(order: Orders) -> Sequence[Callable[[], Steps]]:
        def cancels() -> Steps:
            yield Store(flag, 1, order("executor.cc", f"{flag}_.store", place))
            yield from signal_wake(order)

        return cancels, lambda: signal_sleep(order, 1, flag)

    return threads


def claiming(order: Orders) -> Sequence[Callable[[], Steps]]:
    """A launch is run once, by its lane or by one that waits, after what it depends on."""

    def other_lane() -> Steps:
        yield Store("needed", 1)
        yield from signal_publish(order, 1, " of the other")
        return True

    def runs() -> Steps:
        yield from signal_await(order, 1, " of the other")
        claimed = (yield Load("claim", order("lanes.cc", "claim.load"))) == 0 and (
            yield Update(
                "claim",
                lambda claim: None if claim else 1,
                order("lanes.cc", "claim.compare_exchange_strong"),
            )
        ) == 0
        if claimed:
            yield Store("result", (yield Load("needed")))
            yield Store("value", 1, order("signal.h", "value_.store"))
        else:
            yield from signal_await(order, 1)
        return (yield Load("result")) == 1

    return other_lane, runs, runs


def pieces(order: Orders) -> Sequence[Callable[[], Steps]]:
    """Two pieces of a launch in run 2: its runner takes one, and one that waits the other."""

    def word(run: int, front: int, back: int) -> int:
        return 100 * run + 10 * front + back

    def take(run: int, first: bool) -> Steps:
        seen = yield Load("left", order("pieces.h", "left_.load"))
        for _ in range(1 if first else 2):
            front, back = seen // 10 % 10, seen % 10
            if seen // 100 != run or front == back:
                return None
            rest = word(run, front + 1, back) if first else word(run, front, back - 1)
            found = yield Update(
                "left",
                lambda left, seen=seen, rest=rest: rest if left == seen else None,
                order("pieces.h", "left_.compare_exchange_weak"),
                failure=order("pieces.h", "left_.compare_exchange_weak"),
            )
            if found == seen:
                return front if first else back - 1
            seen = found
        raise Blocked

    def compute(piece: int) -> Steps:
        yield Load("needed", used=False)
        yield Store(f"part {piece}", 1)
        yield Update("done", lambda done: done + 1, order("pieces.h", "done_.fetch_add"))

    def runner() -> Steps:
        yield Store("needed", 1)
        yield Store("done", 0, order("pieces.h", "done_.store"))
        yield Store("left", word(2, 0, 2), order("pieces.h", "left_.store"))
        yield from compute((yield from take(2, True)))
        if (yield Load("done", order("pieces.h", "done_.load"))) < 2:
            raise Blocked
        yield Load("part 0", used=False)
        yield Load("part 1", used=False)
        return True

    def helper() -> Steps:
        piece = yield from take(2, False)
        if piece is not None:
            yield from compute(piece)
        return True

    return runner, helper


def learning(order: Orders) -> Sequence[Callable[[], Steps]]:
    """A launch's times are learned by those who run it, of which the next run knows."""

    def first() -> Steps:
        least = yield Load("least", order("pieces.h", "least_.load", 1))
        yield Store("least", least + 1, order("pieces.h", "least_.store"))
        yield Update("learned", lambda n: n + 1, order("pieces.h", "learned_.fetch_add"))
        yield from signal_publish(order, 1)
        return True

    def second() -> Steps:
        yield from signal_await(order, 1)
        learned = yield Load("learned", order("pieces.h", "learned_.load"))
        return learned == (yield Load("least", order("pieces.h", "least_.load"))) == 1

    return first, second


def failing(order: Orders) -> Sequence[Callable[[], Steps]]:
    """Why a run failed is read when its threads have left it."""

    def fails() -> Steps:
        yield Store("failure", 1)
        yield Store("abort", 1, order("executor.cc", "abort_.store", 1))
        yield from signal_publish(order, 1, " of the left")
        return True

    def caller() -> Steps:
        if not (yield Load("abort", order("executor.cc", "abort_.load"))):
            return True
        yield from signal_await(order, 1, " of the left")
        return (yield Load("failure")) == 1

    return fails, caller


def exclusive(
    enter: Access, leave: Access, inside: int = 1
) -> Callable[[Orders], Sequence[Callable[[], Steps]]]:
    """Return two threads that are refused, or change something and leave."""

    def threads(order: Orders) -> Sequence[Callable[[], Steps]]:
        def enters() -> Steps:
            if (yield Update("inside", lambda n: None if n else inside, order(*enter))):
                return True
            yield Store("data", (yield Load("data")) + 1)
            yield Store("inside", 0, order(*leave))
            return True

        return enters, enters

    return threads


def closing(
    closed: Access, asked: Access, enter: Access, leave: Access, ended: Access
) -> Callable[[Orders], Sequence[Callable[[], Steps]]]:
    """Return one that is inside and leaves, and one that closes; either ends the threads."""

    def threads(order: Orders) -> Sequence[Callable[[], Steps]]:
        def close() -> Steps:
            if (yield Update("inside", lambda _: 1, order(*enter))):
                return False
            yield Store("threads", (yield Load("threads")) + 1)
            yield Store("inside", 0, order(*ended))
            return True

        def leaves() -> Steps:
            yield Store("threads", 0)
            yield Store("inside", 0, order(*leave))
            return (yield Load("closed", order(*asked))) == 1 and (yield from close())

        def closes() -> Steps:
            yield Store("closed", 1, order(*closed))
            return (yield from close())

        return leaves, closes

    return threads


def requests(order: Orders) -> Sequence[Callable[[], Steps]]:
    """Workers take one request after another."""

    def works() -> Steps:
        number = yield Update(
            "next", lambda n: n + 1, order("request_workers.cc", "next.fetch_add")
        )
        yield Store(f"result {number}", 1)
        return True

    return works, works


def fails(execution: Execution) -> bool:
    """Whether a thread has seen something that it must not see."""
    return not all(execution.results)


ASLEEP = {"wanted": _NOBODY}
AWAKE = {f"wanted of {what}": _NOBODY for what in ("runs", "launches", "the other", "the left")}
PROTOCOLS = {
    "results of a launch": Protocol(results_of_a_launch, fails, AWAKE),
    "sleeping": Protocol(sleeping(1), oversleeps(1), ASLEEP),
    "sleeping beside one that wants less": Protocol(sleeping(2), oversleeps(2), {"wanted": 1}),
    "sleeping when the run fails": Protocol(cancelling("abort", 1), oversleeps(0), ASLEEP),
    "sleeping at the end": Protocol(cancelling("stop"), oversleeps(0), ASLEEP),
    "claiming": Protocol(claiming, fails, AWAKE),
    "pieces": Protocol(pieces, fails, {"left": 111, "done": 2}),
    "learning": Protocol(learning, fails, ASLEEP),
    "failing": Protocol(failing, fails, AWAKE),
    "exclusive executor": Protocol(
        exclusive(Access("executor.cc", "busy_.exchange"), Access("executor.cc", "busy_.store", 1)),
        fails,
    ),
    "exclusive session": Protocol(
        exclusive(
            Access("exclusive.h", "inside_.exchange"), Access("exclusive.h", "inside_.store")
        ),
        fails,
    ),
    "masks of threads": Protocol(
        exclusive(
            Access("affinity.cc", "holder_.compare_exchange_weak"),
            Access("affinity.cc", "holder_.store"),
        ),
        fails,
    ),
    "closing an executor": Protocol(
        closing(
            Access("executor.cc", "closed_.store"),
            Access("executor.cc", "closed_.load", 1),
            Access("executor.cc", "busy_.exchange", 1),
            Access("executor.cc", "busy_.store", 1),
            Access("executor.cc", "busy_.store"),
        ),
        lambda e: not any(e.results),
        {"inside": 1},
    ),
    "closing workers": Protocol(
        closing(
            Access("request_workers.cc", "closed_.store"),
            Access("request_workers.cc", "closed_.load", 1),
            Access("request_workers.cc", "inside_.exchange"),
            Access("exclusive.h", "inside_.store"),
            Access("request_workers.cc", "inside_.store"),
        ),
        lambda e: not any(e.results),
        {"inside": 1},
    ),
    "requests": Protocol(requests, fails),
}


def found(name: str, orders: Orders) -> Iterator[Execution]:
    """The executions of a protocol."""
    protocol = PROTOCOLS[name]
    threads = [Thread(run) for run in protocol.threads(orders)]
    return executions(Rc11, threads, protocol.initial)


def goes_wrong(name: str, weaker: Mapping[Access, Order]) -> bool:
    is_wrong = PROTOCOLS[name].is_wrong
    return any(e.race is not None or is_wrong(e) for e in found(name, Orders(weaker, set())))


@cache
def used(name: str) -> frozenset[Access]:
    """The accesses of a protocol, which the ways through its threads have."""
    orders = Orders({}, set())
    assert next(found(name, orders), None) is not None
    return frozenset(orders.used)


#: Stronger than these protocols ask for, of which none has two wakes.
STRONGER = (Access("signal.h", "wanted_.store"), Access("signal.h", "wanted_.load", 1))


def mutants() -> list[tuple[Access, Order]]:
    """Each access whose order may be weaker, with the next weaker one."""
    of_sc = {"load": ACQUIRE, "store": RELEASE}
    return [
        (access, RELAXED if order is not SC else of_sc.get(access.name.split(".")[1], ACQ_REL))
        for access, order in sources().items()
        if order is not RELAXED and access not in STRONGER
    ]


_SLOW = "sleeping beside one that wants less"


@pytest.mark.parametrize("name", only([name for name in PROTOCOLS if name != _SLOW], PROTOCOLS))
def test_a_protocol_holds(name: str) -> None:
    assert used(name)
    assert not goes_wrong(name, {})


@pytest.mark.parametrize(
    ("access", "weaker"),
    only([m for m in mutants() if m[0].file != "signal.h"], mutants(), several=True),
)
def test_no_order_could_be_weaker(access: Access, weaker: Order) -> None:
    protocols = [name for name in PROTOCOLS if name != _SLOW and access in used(name)]
    assert any(goes_wrong(name, {access: weaker}) for name in protocols)


def test_what_no_protocol_has_is_relaxed() -> None:
    """A hint, which may be old, or what threads touch that others order."""
    modelled = frozenset[Access]().union(*map(used, PROTOCOLS))
    assert {*modelled, *STRONGER} <= sources().keys()
    assert {sources()[access] for access in sources().keys() - modelled} == {RELAXED}
