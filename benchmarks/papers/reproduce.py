"""All rows that are asked for, several tables and figures at once, none computed twice."""

from __future__ import annotations

import multiprocessing
import os
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from itertools import zip_longest
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.papers.catalogue import Item, item_named
from benchmarks.papers.registry import rows_of
from benchmarks.papers.row import Row
from benchmarks.papers.steps import Steps
from tvm_ios.errors import UserError
from tvm_ios.progress import Progress, silent
from tvm_ios.sweep.worker import begin_worker


@dataclass(frozen=True, slots=True)
class Reproduced:
    """A table or figure with its rows."""

    #: What it is.
    item: Item
    #: Of it, or of the one that it is the same as; none if they failed.
    rows: tuple[Row, ...]
    #: Of a core, that they took now or, where they are kept, in an earlier run.
    seconds: float = 0.0
    #: Why there are none, in one sentence.
    error: str | None = None


def reproduce(
    items: Sequence[Item],
    folder: Path,
    workers: int = 1,
    anew: bool = False,
    progress: Progress = silent,
    tell: Callable[[str], None] = lambda sentence: None,
) -> tuple[Reproduced, ...]:
    """The rows of tables and figures; one that fails stops no other.

    Parameters
    ----------
    items
        Which.
    folder
        Where what is computed is kept, see :class:`benchmarks.papers.steps.Steps`.
    workers
        How many are computed at once, each in a process of its own.
    anew
        Whether all is computed again.
    progress
        Called with (what, done, total).
    tell
        Called with what fails, in one sentence.
    """
    wanted = {item.same_as or item.name for item in items}
    done: dict[str, Reproduced] = {}
    pool = ThreadPoolExecutor(workers)
    try:
        running: dict[Future[dict[str, Any]], str] = {}
        for name in _in_turn(wanted):
            if _is_data(item_named(name)):
                done[name] = _finished(name, _make(name, Steps(folder)))
            else:
                running[pool.submit(_in_process, name, folder, anew)] = name
        progress("tables and figures", len(done), len(wanted))
        for future in as_completed(running):
            name = running[future]
            done[name] = _finished(name, future.result())
            if (error := done[name].error) is not None:
                tell(f"{name}: {error}")
            progress("tables and figures", len(done), len(wanted))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        # If all went well there are none.
        for child in multiprocessing.active_children():
            child.kill()
    return tuple(replace(done[item.same_as or item.name], item=item) for item in items)


def _in_turn(names: Iterable[str]) -> list[str]:
    """One of each text after another: those of one text ask for the same, and would wait for it."""
    by_text: dict[str, list[str]] = {}
    for name in sorted(names):
        by_text.setdefault(name.partition("/")[0], []).append(name)
    turns = zip_longest(*by_text.values())
    return [name for turn in turns for name in turn if name is not None]


def _is_data(item: Item) -> bool:
    """Whether its rows are in the text's file, with nothing to compute."""
    return item.illustration is not None or item.not_possible is not None


def _in_process(name: str, folder: Path, anew: bool) -> dict[str, Any]:
    """Make rows in a process of their own: one that is killed stops no other."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(sender, os.getpid(), name, folder, anew))
    process.start()
    sender.close()
    try:
        return receiver.recv()
    except EOFError:
        return {"error": "its process was killed, maybe for want of memory: give fewer --workers"}
    finally:
        process.join()


def _work(sender: Connection, parent: int, name: str, folder: Path, anew: bool) -> None:
    begin_worker(parent)
    try:
        outcome = _make(name, Steps(folder, anew))
    except UserError as error:
        outcome = {"error": " ".join(str(error).split())}
    except Exception as error:  # whatever a library raises
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}, line {place.lineno}"
        outcome = {"error": f"unexpected {type(error).__name__} in {where}: {error}"}
    sender.send(outcome)


def _make(name: str, steps: Steps) -> dict[str, Any]:
    begin = time.process_time()
    rows = [row.to_json() for row in rows_of(item_named(name), steps)]
    return {"rows": rows, "seconds": time.process_time() - begin + steps.kept_seconds}


def _finished(name: str, outcome: dict[str, Any]) -> Reproduced:
    rows = tuple(map(Row.from_json, outcome.get("rows", ())))
    item = item_named(name)
    return Reproduced(item, rows, outcome.get("seconds", 0.0), outcome.get("error"))
