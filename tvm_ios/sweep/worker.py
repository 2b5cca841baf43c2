"""Doing a task in a worker process: JSON in, JSON out; no failure ends the process."""

from __future__ import annotations

import json
import os
import platform
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runtime_ext.fresh_process import end_with_parent
from tvm_ios.errors import UserError
from tvm_ios.sweep.content import versions


def begin_worker(parent: int) -> None:
    """Set up this process as a local worker that ends with its ``parent``, a process ID."""
    end_with_parent(parent)
    # Ctrl-C is for the command alone, which ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Libraries print what nobody asked for, and a command's output may be JSON.
    os.dup2(2, 1)


def work(content: str, files: Mapping[str, str], schedule: str | None) -> str:
    """Do a task, and return its outcome as JSON.

    ``content`` is a job's content as JSON, ``files`` its files by name, ``schedule`` the one that
    the needed task has found, as JSON. The outcome has ``seconds`` and ``worker``, and either
    ``result`` or, as one sentence, ``error``.
    """
    begin = time.perf_counter()
    try:
        outcome: dict[str, Any] = {"result": _result(json.loads(content), files, schedule)}
    except MemoryError as error:
        outcome = {"error": f"it needs more memory than there is: {error}"}
    except OSError as error:
        named = filter(None, (error.filename, error.strerror))
        outcome = {"error": ": ".join(map(str, named)) or str(error)}
    except UserError as error:
        outcome = {"error": str(error)}
    except Exception as error:  # whatever a policy, a cost model or a library raises
        outcome = {
            "error": f"unexpected {type(error).__name__}: {error}; `tvm-ios schedule --debug` with "
            "the same model, policy and cost shows where"
        }
    if "error" in outcome:
        outcome["error"] = " ".join(outcome["error"].split())
    outcome["seconds"] = time.perf_counter() - begin
    outcome["worker"] = f"{platform.node()}, process {os.getpid()}"
    return json.dumps(outcome)


def _result(
    content: dict[str, Any], files: Mapping[str, str], schedule: str | None
) -> dict[str, Any]:
    there = content["versions"]
    here = versions(*there)
    for package, version in there.items():
        if here[package] != version:
            raise UserError(
                f"{platform.node()} has {package} {here[package]}, and the sweep was begun with "
                f"{version}: install that on all machines of the cluster"
            )
    from tvm_ios.sweep.perform import perform

    paths = {name: Path(path) for name, path in files.items()}
    return perform(content, paths, None if schedule is None else json.loads(schedule))
