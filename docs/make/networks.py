"""Makes ``docs/networks.md`` of ``results/optimize.json``; ``--check`` only compares."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "networks.md"
RESULT = ROOT / "benchmarks" / "results" / "optimize.json"

_HEADER = """# The networks

Every network of the zoo and every real topology inside the `onnx` wheel (`light_*`), optimised by
`tvm-ios optimize` with random weights and checked (`python benchmarks/optimize.py` measures,
`python docs/make/networks.py` writes this page). Measured on {processor}, {lanes} lanes, {date}.

*Kept* is the policy whose program was fastest, with its ratio to the sequential program in pairs of
runs (the upper end of the 95 % interval in brackets); where it is sequential, no schedule was
surely faster. *Errors* are relative to the largest output: of the program against TVM's own build
of the same module, and of the saved executable against ONNX Runtime on the original file (logits,
where the network ends in a softmax).

| network | operators | units | kept | to sequential | error to TVM | error to ONNX Runtime |
|---|---|---|---|---|---|---|
"""


def page() -> str:
    """The page, made of the result file."""
    result = json.loads(RESULT.read_text())
    machine = result["machine"]
    header = _HEADER.format(
        processor=machine["processor"], lanes=machine["lanes"], date=machine["date"]
    )
    rows = sorted(result["figures"], key=lambda row: (row["model"].startswith("light_"),))
    return header + "".join(map(_row, rows))


def _row(row: dict[str, Any]) -> str:
    ratio = row["confirmed"]["sequential"]
    kept = row["kept"]
    compared = "" if kept == "sequential" else f"{ratio['ratio']:.3f} ({ratio['high']:.3f})"
    error = max(policy["max_rel_error"] for policy in row["policies"])
    cells = (
        f"`{row['model']}`",
        row["search"]["operators"],
        row["search"]["units"],
        kept,
        compared,
        f"{error:.1e}",
        f"{row['output_error']:.1e}",
    )
    return f"| {' | '.join(map(str, cells))} |\n"


def main() -> None:
    """Write the page, or compare it."""
    if "--check" in sys.argv[1:]:
        if PAGE.read_text() != page():
            sys.exit("docs/networks.md is not what the result file says: make it anew")
        return
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
