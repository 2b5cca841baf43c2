"""Small random plans as documents, and their races by brute force."""

from __future__ import annotations

from random import Random
from typing import Any

#: Two memories of few bytes, and parts of one.
BUFFERS = {
    "x": 8,
    "y": 12,
    "front": {"within": "y", "begin": 0, "bytes": 7},
    "back": {"within": "y", "begin": 5, "bytes": 7},
}
_SIZES: dict[str, tuple[str, int, int]] = {
    "x": ("x", 0, 8),
    "y": ("y", 0, 12),
    "front": ("y", 0, 7),
    "back": ("y", 5, 7),
}


def random_document(random: Random) -> dict[str, Any]:
    """Return launches on some streams, with events, edges and bytes that they touch."""
    calls: list[dict[str, Any]] = []
    events: list[str] = []
    launches: list[str] = []
    streams = [f"s{n}" for n in range(random.randint(1, 3))]
    for number in range(random.randint(2, 12)):
        stream = random.choice(streams)
        kind = random.choice(["launch", "launch", "record", "wait"])
        if kind == "record":
            events.append(random.choice(["e0", "e1"]))
            calls.append({"record": events[-1], "stream": stream})
        elif kind == "wait" and events:
            calls.append({"wait": random.choice(events), "stream": stream})
        else:
            call: dict[str, Any] = {"launch": f"l{number}"}
            if random.random() < 0.8:
                call["stream"] = stream
            if launches and random.random() < 0.4:
                call["after"] = random.sample(launches, random.randint(1, min(2, len(launches))))
            call["reads"] = [_touched(random) for _ in range(random.randint(0, 2))]
            call["writes"] = [_touched(random) for _ in range(random.randint(0, 2))]
            if random.random() < 0.2:
                first = random.randint(0, 3)
                call |= {"work": "w", "tiles": [first, first + random.randint(0, 2)]}
            launches.append(call["launch"])
            calls.append(call)
    return {"format": "tvm-ios plan", "version": 1, "buffers": BUFFERS, "calls": calls}


def mutated(document: dict[str, Any], random: Random) -> dict[str, Any]:
    """Return a document with less order or more bytes: a call or an edge is left out, or moved."""
    calls = [dict(call) for call in document["calls"]]
    call = random.choice(calls)
    if "launch" not in call:
        if random.random() < 0.5:
            call["stream"] = random.choice(["s0", "s1", "s2"])
        elif "wait" in call:
            calls.remove(call)
    elif call.get("after") and random.random() < 0.5:
        call["after"] = call["after"][1:]
    elif random.random() < 0.5:
        call.pop("stream", None)
    else:
        call["writes"] = [*call["writes"], _touched(random)]
    return {**document, "calls": calls}


def brute_force(document: dict[str, Any]) -> set[frozenset[str]]:
    """Return the pairs that race, by paths in a graph of all calls and by sets of bytes."""
    edges: set[tuple[int, int]] = set()
    last: dict[str, int] = {}
    recorded: dict[str, int] = {}
    launches: dict[str, int] = {}
    for number, call in enumerate(document["calls"]):
        stream = call.get("stream")
        if stream in last:
            edges.add((last[stream], number))
        if stream is not None:
            last[stream] = number
        if "record" in call:
            recorded[call["record"]] = number
        elif "wait" in call:
            edges.add((recorded[call["wait"]], number))
        else:
            launches[call["launch"]] = number
    for name, number in launches.items():
        for other in document["calls"][number].get("after", ()):
            edges.add((launches[other], launches[name]))
    reached = _reached(edges, len(document["calls"]))
    racing: set[frozenset[str]] = set()
    names = [*launches]
    for i, one in enumerate(names):
        for other in names[i + 1 :]:
            a, b = launches[one], launches[other]
            if (a, b) in reached or (b, a) in reached:
                continue
            first, second = document["calls"][a], document["calls"][b]
            if _same_work_apart(first, second):
                continue
            reads, writes = _bytes(first["reads"]), _bytes(first["writes"])
            others, written = _bytes(second["reads"]), _bytes(second["writes"])
            if writes & (others | written) or reads & written:
                racing.add(frozenset((one, other)))
    return racing


def _reached(edges: set[tuple[int, int]], nodes: int) -> set[tuple[int, int]]:
    """Return the pairs with a path from the one to the other."""
    reached = set(edges)
    for middle in range(nodes):
        before = [a for a, b in reached if b == middle]
        after = [b for a, b in reached if a == middle]
        reached |= {(a, b) for a in before for b in after}
    return reached


def _same_work_apart(one: dict[str, Any], other: dict[str, Any]) -> bool:
    if "work" not in one or "work" not in other:
        return False
    (a, b), (c, d) = one["tiles"], other["tiles"]
    return b <= c or d <= a


def _touched(random: Random) -> object:
    buffer = random.choice([*_SIZES])
    size = _SIZES[buffer][2]
    if random.random() < 0.3:
        return buffer
    if random.random() < 0.3:
        stride = random.randint(1, 4)
        count = random.randint(1, (size - 1) // stride)
        left = size - (count - 1) * stride
        begin = random.randint(0, left - 1)
        touched = {"begin": begin, "bytes": random.randint(0, min(stride, left - begin))}
        return {"buffer": buffer, **touched, "count": count, "stride": stride}
    begin = random.randint(0, size)
    return {"buffer": buffer, "begin": begin, "bytes": random.randint(0, size - begin)}


def _bytes(touched: list[Any]) -> set[tuple[str, int]]:
    found: set[tuple[str, int]] = set()
    for item in touched:
        given: dict[str, Any] = {"buffer": item} if isinstance(item, str) else item
        memory, base, size = _SIZES[given["buffer"]]
        begin = given.get("begin", 0)
        length = given.get("bytes", size - begin)
        for n in range(given.get("count", 1)):
            start = base + begin + n * given.get("stride", 0)
            found |= {(memory, byte) for byte in range(start, start + length)}
    return found
