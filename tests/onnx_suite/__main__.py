"""``python -m tests.onnx_suite``: see the package."""

from __future__ import annotations

import argparse
import collections
import os
import re
import sys
from pathlib import Path

from rich.progress import track

from tests.onnx_suite.cases import FORMS, all_cases
from tests.onnx_suite.expectations import write_expectations
from tests.onnx_suite.results import Results, run_cases, table
from tests.onnx_suite.verdict import VERDICTS
from tests.onnx_suite.ways import OURS, WAYS

#: Libraries count threads when they start; ONNX Runtime refuses the newest opsets unless told.
_ENVIRONMENT = {
    "TVM_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "ALLOW_RELEASED_ONNX_OPSET_ONLY": "0",
}


def _run(options: argparse.Namespace, results: Results) -> None:
    """Examine every case that has no verdict yet."""
    cases = all_cases(options.form)
    chosen = [name for name in cases if re.search(options.only, name)][:: options.every]
    outcomes = results.of(options.through, options.form)
    forgotten = VERDICTS if options.again == [] else options.again or ()
    left = [n for n in chosen if n not in outcomes or outcomes[n].verdict in forgotten]
    print(f"{len(left)} of {len(chosen)} cases are left")
    verdicts = run_cases(options.through, options.form, left)
    for name, verdict in track(verdicts, "cases", total=len(left)):
        results.add(options.through, options.form, name, verdict)
        unexpected = verdict.verdict not in ("pass", "tail", "refused", "outside")
        if options.through in OURS and unexpected:
            print(f"{verdict.verdict:8} {name}: {verdict.detail[:160]}", flush=True)
    outcomes = results.of(options.through, options.form)
    counts = collections.Counter(outcomes[name].verdict for name in chosen)
    print(", ".join(f"{verdict}: {counts[verdict]}" for verdict in VERDICTS))


def _show(options: argparse.Namespace, results: Results) -> None:
    """Print the cases of one verdict."""
    cases = all_cases(options.form)
    for name, row in results.of(options.through, options.form).items():
        if row.verdict == options.verdict and re.search(options.only, name):
            print(f"{name} [{', '.join(cases[name].operators)}]: {row.detail}")


def _topic(name: str) -> str:
    if not name.startswith("node/"):
        return f"({name.partition('/')[0]})"
    return "(written out)" if "_expanded" in name else "+".join(all_cases("inputs")[name].operators)


def _table(options: argparse.Namespace, results: Results) -> None:
    """Print counts, and per operator what peers pass and tvm-ios does not."""
    print(table(results, _topic))


def _expect(options: argparse.Namespace, results: Results) -> None:
    """Make what the cases came to what is expected of them."""
    write_expectations(results)


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.onnx_suite", description=__doc__)
    parser.add_argument("--results", type=Path, default=Path("out/onnx_suite.json"))
    commands = parser.add_subparsers(required=True)
    for function in (_run, _show, _table, _expect):
        command = commands.add_parser(function.__name__[1:], help=function.__doc__)
        command.set_defaults(function=function)
        if function in (_run, _show):
            command.add_argument("--through", choices=WAYS, default="tvm-ios")
            command.add_argument("--form", choices=FORMS, default="inputs")
            command.add_argument("--only", default="", help="a regular expression for names")
        if function is _run:
            command.add_argument("--every", type=int, default=1, help="take every n-th case")
            command.add_argument(
                "--again", choices=VERDICTS, nargs="*", help="forget all verdicts, or these"
            )
        if function is _show:
            command.add_argument("--verdict", choices=VERDICTS, default="wrong")
    options = parser.parse_args()
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    options.results.parent.mkdir(exist_ok=True)
    results = Results(options.results)
    try:
        options.function(options, results)
    finally:
        if options.function is _run:
            results.save()


if __name__ == "__main__":
    sys.exit(_main())
