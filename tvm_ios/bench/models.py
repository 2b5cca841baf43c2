"""Measure several models one by one; a failed model does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tvm_ios.bench.bench import NetworkResult
from tvm_ios.bench.document import BenchDocument
from tvm_ios.bench.throughput import ServedResult
from tvm_ios.errors import UserError
from tvm_ios.models.load import load_operators
from tvm_ios.models.source import Form, ModelSource
from tvm_ios.progress import Progress


def bench_models(
    models: Mapping[str, ModelSource],
    document: BenchDocument,
    measure: Callable[..., NetworkResult | ServedResult],
    folder: Path,
    *,
    output: Path | None,
    raises: bool,
    progress: Progress,
    tell: Callable[[str], None],
) -> None:
    """Measure the models that the document lacks; add each result, or the reason of its failure.

    ``measure`` is :func:`tvm_ios.bench.bench.bench` or ``bench_throughput``, and takes ``model``,
    ``folder`` and ``progress``. The document is saved to ``output`` after each model. With
    ``raises`` a failure is raised instead.
    """

    def save() -> None:
        if output is not None:
            document.save(output)

    @contextmanager
    def failures_kept(name: str, say: Callable[[str], None] | None = None) -> Generator[None]:
        try:
            yield
        except (UserError, OSError) as error:
            if raises:
                raise
            document.add_failure(name, None, str(error))
            if say is not None:
                say(f"tvm-ios: {name}: {error}")

    # All files first: what is mistyped should not show after an hour. One is read by who calls.
    readable: dict[str, ModelSource] = {}
    for name, model in models.items():
        if document.has(name):
            continue
        with failures_kept(name, tell):
            if len(models) > 1 and model.form is Form.ONNX:
                load_operators(model)
            readable[name] = model
    if document.failed:
        save()
    for name, model in readable.items():

        def of_model(what: str, done: int, total: int, name: str = name) -> None:
            progress(f"{name}: {what}", done, total)

        with failures_kept(name):
            document.add(measure(model, folder=folder / name, progress=of_model))
        save()
