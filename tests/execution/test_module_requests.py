"""``run_many`` of modules: the bits of single runs, whatever the workers, and what it refuses."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtime_ext.execution.executable import Executable
from runtime_ext.execution.runtime_module import ScheduledModule, load_module
from runtime_ext.native_errors import BusyError, ExecutableError, SessionError
from tests.deployment.rows_model import add_rows
from tests.deployment.rows_model import expected as rows_expected
from tests.execution.small_executable import IMAGE, STEPS, change
from tests.fast_run import examples
from tests.refusals import refused
from tests.threads import require_threads, threads_now


def requests_of(count: int, seed: int = 0) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    shape = IMAGE.shape
    return [
        {"image": rng.standard_normal(shape).astype("float32"), "steps": STEPS}
        for _ in range(count)
    ]


def require_same(module: ScheduledModule, executable: Executable, *how: Any) -> None:
    requests = requests_of(9)
    session = executable.session()
    for request, result in zip(requests, module.run_many(requests, *how), strict=True):
        session.run(**request)
        assert list(result) == [port.name for port in executable.outputs]
        for name, array in result.items():
            np.testing.assert_array_equal(array, session.get_output(name))


@pytest.mark.parametrize("how", [(), (1,), (2,), (5,)])
def test_requests_have_the_bits_of_single_runs(
    executable: Executable, saved: Path, how: tuple[int, ...]
) -> None:
    module = load_module(saved)
    for _ in range(2):
        require_same(module, executable, *how)
    assert module.run_many([]) == []


def test_workers_of_a_tar_read_it_again(executable: Executable, tmp_path: Path) -> None:
    executable.save(tmp_path / "m.tar")
    require_same(load_module(tmp_path / "m.tar"), executable, 2)


@given(st.integers(1, 4), st.integers(0, 12))
@settings(examples(10), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_number_of_requests(
    executable: Executable, saved: Path, workers: int, count: int
) -> None:
    module, requests = load_module(saved), requests_of(count)
    results = module.run_many(requests, workers)
    assert len(results) == count
    for request, result in zip(requests, results, strict=True):
        module.run(**request)
        np.testing.assert_array_equal(result["result"], module.get_output("result"))


@pytest.mark.parametrize("workers", [1, 3])
def test_a_request_that_fails_is_named_and_the_others_run(saved: Path, workers: int) -> None:
    module, requests = load_module(saved), requests_of(6)
    missing, unknown = dict(requests[2]), dict(requests[4], other=STEPS)
    del missing["steps"]
    requests[2], requests[4] = missing, unknown
    with refused(SessionError, "request 2", "6", "1 more", "steps"):
        module.run_many(requests, workers)
    requests[2] = dict(missing, steps=STEPS.astype("float32"))
    with refused(SessionError, "request 2", "steps", "float32"):
        module.run_many(requests[:4], workers)
    requests[2] = dict(missing, steps=STEPS)
    assert len(module.run_many(requests[:4], workers)) == 4


def test_what_it_refuses(saved: Path) -> None:
    module = load_module(saved)
    with refused(SessionError, "0 workers"):
        module.run_many(requests_of(1), 0)
    module.close()
    with refused(BusyError, "closed"):
        module.run_many(requests_of(1))


@pytest.mark.parametrize("workers", [1, 2])
def test_closing_ends_the_threads_of_workers(saved: Path, workers: int) -> None:
    module = load_module(saved)
    before = threads_now()
    module.run_many(requests_of(4), workers)
    module.close()
    # The module's own lane ends, too.
    require_threads(before - 1)


def test_closing_lets_the_requests_in_progress_end(saved: Path) -> None:
    module, requests = load_module(saved), requests_of(2000)
    threads = threads_now()
    outcomes: list[object] = []
    serving = threading.Thread(target=lambda: outcomes.append(len(module.run_many(requests, 1))))
    serving.start()
    # Until it is there, and the lane of its worker.
    while serving.is_alive() and threads_now() < threads + 2:
        time.sleep(0)
    module.close()
    serving.join()
    assert outcomes == [2000]
    require_threads(threads - 1)


def test_a_second_thread_is_refused(saved: Path) -> None:
    module, requests = load_module(saved), requests_of(400)
    module.run_many(requests[:4], 2)
    outcomes: list[object] = []
    begin = threading.Barrier(3)

    def serve() -> None:
        begin.wait()
        try:
            outcomes.append(len(module.run_many(requests, 2)))
        except SessionError as error:
            outcomes.append(error)

    threads = [threading.Thread(target=serve) for _ in range(2)]
    for thread in threads:
        thread.start()
    begin.wait()
    for thread in threads:
        thread.join()
    # One at least is served, and one that comes meanwhile is told so.
    assert 400 in outcomes
    for outcome in outcomes:
        assert outcome == 400 or "another thread" in str(outcome)


@pytest.mark.parametrize(
    ("noted", "refused_as"), [({"workers": 1}, None), ({"workers": -1}, "number")]
)
def test_the_notes_say_how_many_workers(
    saved: Path, noted: dict[str, int], refused_as: str | None
) -> None:
    def note(meta: dict[str, Any]) -> None:
        meta["notes"]["throughput"] = noted

    change(saved, "meta.json", note)
    if refused_as is None:
        assert len(load_module(saved).run_many(requests_of(3))) == 3
    else:
        with pytest.raises(ExecutableError):
            load_module(saved)


def test_requests_of_a_deployment_have_shapes_of_their_own(tmp_path: Path) -> None:
    for rows in (1, 4):
        add_rows(tmp_path / "app", rows)
    rng = np.random.default_rng(0)
    images = [rng.standard_normal((n, 4)).astype("float32") for n in (1, 3, 4, 2, 1)]
    module = load_module(tmp_path / "app")
    for workers in (1, 2):
        results = module.run_many([{"image": image} for image in images], workers)
        for image, result in zip(images, results, strict=True):
            np.testing.assert_array_equal(result["result"], rows_expected(image))
