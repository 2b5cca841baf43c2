"""The record of the suite for people."""

from __future__ import annotations

from typing import Any

from gpu_suite.record import Record


def print_record(record: Record) -> None:
    """A line for each program of ours, and what was skipped and why."""
    print("slice                    sequential          kept  ratio   best peer, and ours over it")
    for key, made in record.slices.items():
        peers = _best_peer(made)
        if "checks" in made:
            print(f"{key:23} {made['checks']['passed']} passed")
        if "search" in made:
            print(f"{key:23} {_row(made['search'])}   {peers}")
        for name, part in made.items():
            if name.endswith(" lanes"):
                last = name == [n for n in made if n.endswith(" lanes")][-1]
                print(f"{f'{key} {name}':23} {_row(part)}   {peers if last else ''}")
        for name, milliseconds in made.get("batches", {}).get("latency_ms", {}).items():
            print(f"{key:23} {milliseconds:9.3f}ms  {name}")
        for name, row in made.get("warps", {}).get("warps", {}).items():
            print(
                f"{'':23} {name}: {row['mean']:.1f} of {row['most']} warps active, several kernels "
                f"at once in {row['side_by_side']:.0%} of the time"
            )
    for key, made in record.slices.items():
        for what, why in {**made.get("failed", {}), **made.get("late", {})}.items():
            print(f"{key}: {what} skipped: {why}")
        for part in made.values():
            for what, why in part.get("skipped", {}).items() if isinstance(part, dict) else ():
                print(f"{key}: {what} skipped: {why}")


def _best_peer(made: dict[str, Any]) -> str:
    """The fastest one, and our time over its, in the contest in which both were."""
    ratios = {
        name: (part["latency_ms"][name], part["latency_ms"]["kept"] / part["latency_ms"][name])
        for part in (made.get("peers", {}), made.get("compiled", {}))
        for name in part.get("latency_ms", {})
        if name.startswith(("torch", "onnx", "tvm"))
    }
    best = max(ratios, key=lambda name: ratios[name][1], default="")
    return f"{best} {ratios[best][0]:.3f}ms {ratios[best][1]:.2f}" if best else ""


def _row(made: dict[str, Any]) -> str:
    rows = {row["policy"]: row for row in made["policies"]}
    ratio = made["confirmed"]["sequential"]["median"]
    return f"{rows['sequential']['latency_ms']:9.3f}ms {made['kept']:>13} {ratio:6.2f}"
