"""The record of the suite for people."""

from __future__ import annotations

from typing import Any

from benchmarks.gpus.suite.record import Record


def print_record(record: Record) -> None:
    """A line for each program of ours, and what was skipped and why."""
    print("slice                    sequential          kept  ratio   best peer, and ours over it")
    for key, results in record.slices.items():
        peers = _best_peer(results)
        if "checks" in results:
            print(f"{key:23} {results['checks']['passed']} passed")
        for name, microseconds in results.get("edges", {}).get("microseconds", {}).items():
            print(f"{key:23} {microseconds:9.3f}us  from kernel to kernel, {name}")
        if "search" in results:
            print(f"{key:23} {_row(results['search'])}   {peers}")
        for name, part in results.items():
            if name.endswith(" lanes"):
                last = name == [n for n in results if n.endswith(" lanes")][-1]
                print(f"{f'{key} {name}':23} {_row(part)}   {peers if last else ''}")
        for name, milliseconds in results.get("batches", {}).get("latency_ms", {}).items():
            print(f"{key:23} {milliseconds:9.3f}ms  {name}")
        for name, row in results.get("warps", {}).get("warps", {}).items():
            print(
                f"{'':23} {name}: {row['mean']:.1f} of {row['most']} warps active, several kernels "
                f"at once in {row['side_by_side']:.0%} of the time"
            )
    for key, results in record.slices.items():
        for what, why in {**results.get("failed", {}), **results.get("late", {})}.items():
            print(f"{key}: {what} skipped: {why}")
        for part in results.values():
            for what, why in part.get("skipped", {}).items() if isinstance(part, dict) else ():
                print(f"{key}: {what} skipped: {why}")


def _best_peer(results: dict[str, Any]) -> str:
    """The fastest one, and our time over its, in the contest in which both were."""
    ratios = {
        name: (part["latency_ms"][name], part["latency_ms"]["kept"] / part["latency_ms"][name])
        for part in (results.get("peers", {}), results.get("compiled", {}))
        for name in part.get("latency_ms", {})
        if name.startswith(("torch", "onnx", "tvm"))
    }
    best = max(ratios, key=lambda name: ratios[name][1], default="")
    return f"{best} {ratios[best][0]:.3f}ms {ratios[best][1]:.2f}" if best else ""


def _row(search: dict[str, Any]) -> str:
    rows = {row["policy"]: row for row in search["policies"]}
    ratio = search["confirmed"]["sequential"]["median"]
    return f"{rows['sequential']['latency_ms']:9.3f}ms {search['kept']:>13} {ratio:6.2f}"
