"""The page of counts and refusals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tests.onnx_suite.verdict import Verdict
from tests.outside.examined import VERDICTS

_HEAD = """# Cases drawn by the kinds of faults that users report

Made by `python -m tests.outside --cases {cases} --seed {seed} --page docs/outside_cases.md`. Models
are drawn at random by the kinds below, after public bug reports of other runtimes and exporters,
and compared with ONNX Runtime, `onnx.reference` or PyTorch. A case passes, also with its end on
ONNX Runtime (`tail`), or is refused in one sentence; in `open` no reference computes it.

"""


def page(rows: Sequence[tuple[str, int, Verdict]], seed: int) -> str:
    """Return the page of some verdicts as Markdown."""
    shown = [v for v in VERDICTS if any(row.verdict == v for _, _, row in rows)]
    counts = Counter((kind, row.verdict) for kind, _, row in rows)
    lines = [f"| kind | {' | '.join(shown)} |", f"|-|{'-:|' * len(shown)}"]
    for kind in dict.fromkeys(kind for kind, _, _ in rows):
        lines.append(f"| {kind} | {' | '.join(str(counts[kind, v]) for v in shown)} |")
    totals = [sum(counts[kind, v] for kind in {k for k, _ in counts}) for v in shown]
    lines.append(f"| all | {' | '.join(map(str, totals))} |")
    refused = dict.fromkeys(
        (kind, row.detail.replace("|", "\\|")) for kind, _, row in rows if row.verdict == "refused"
    )
    if refused:
        lines += ["", "## Refusals", "", "| kind | sentence |", "|-|-|"]
        lines += [f"| {kind} | {sentence} |" for kind, sentence in refused]
    return _HEAD.format(cases=len(rows), seed=seed) + "\n".join(lines) + "\n"
