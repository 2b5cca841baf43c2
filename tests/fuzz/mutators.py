"""Damage: to bytes, to parsed JSON, to protocol buffers. All of it follows from the generator."""

from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np

Random = np.random.Generator

NUMBERS = (0, 1, -1, 2, 7, 255, 1 << 20, 1 << 31, (1 << 31) - 1, -(1 << 31), (1 << 62), 1 << 40)
VALUES: tuple[Any, ...] = (
    *NUMBERS,
    *(1 << 63, 10**30, 1.5, -0.0, 1e308, float("nan"), float("inf"), None, True, False),
    *("", "x", "../x", "\0", "ü" * 300, [], {}, [[]], [0] * 70, {"x": {}}),
)


def damage_bytes(data: bytes, random: Random) -> bytes:
    """Flip, cut, repeat, overwrite or insert a few bytes."""
    damaged = bytearray(data)
    for _ in range(1 + int(random.integers(4))):
        if not damaged:
            break
        at = int(random.integers(len(damaged)))
        end = min(len(damaged), at + 1 + int(random.integers(64)))
        match int(random.integers(6)):
            case 0:
                damaged[at] ^= 1 << int(random.integers(8))
            case 1:
                damaged[at] = int(random.choice([0, 1, 0x7F, 0x80, 0xFF]))
            case 2:
                del damaged[at:end]
            case 3:
                damaged[at:at] = damaged[at:end]
            case 4:
                damaged[at:end] = random.bytes(end - at)
            case _:
                del damaged[at:]
    return bytes(damaged)


def damage_json(data: Any, random: Random) -> Any:
    """Change a few places of parsed JSON: values, keys, order, number, depth."""
    whole = [copy.deepcopy(data)]
    for _ in range(1 + int(random.integers(3))):
        places = list(_places(whole))
        holder, key = places[int(random.integers(len(places)))]
        old = holder[key]
        other = places[int(random.integers(len(places)))]
        match int(random.integers(7)):
            case 0:
                holder[key] = copy.deepcopy(VALUES[int(random.integers(len(VALUES)))])
            case 1 if isinstance(old, int):
                holder[key] = old + int(random.choice([-1, 1]))
            case 2 if holder is not whole:
                del holder[key]
            case 3:
                holder[key] = copy.deepcopy(other[0][other[1]])
            case 4 if isinstance(holder, list) and holder is not whole:
                holder.insert(key, copy.deepcopy(old))
            case 5 if isinstance(holder, list):
                at = int(random.integers(len(holder)))
                holder[key], holder[at] = holder[at], holder[key]
            case _ if isinstance(holder, dict):
                holder[f"{key}{key}"] = holder.pop(key)
            case _:
                holder[key] = [old]
    return whole[0]


def disarrange_json(data: Any, random: Random) -> Any:
    """Change numbers by one, or to a neighbour's, and entries of lists: what parses as before."""
    data = copy.deepcopy(data)
    for _ in range(1 + int(random.integers(3))):
        places = [p for p in _places(data) if isinstance(p[0], list)]
        holder, at = places[int(random.integers(len(places)))]
        old = holder[at]
        other = int(random.integers(len(holder)))
        match int(random.integers(5)):
            case 0:
                holder.insert(other, copy.deepcopy(old))
            case 1 if not isinstance(old, int):
                del holder[at]
            case 2:
                holder[at], holder[other] = holder[other], old
            case 3 if type(holder[other]) is type(old):
                holder[at] = copy.deepcopy(holder[other])
            case _ if isinstance(old, int):
                holder[at] = old + int(random.choice([-1, 1]))
            case _:
                pass
    return data


def damage_json_text(data: Any, random: Random) -> bytes:
    """Damaged JSON as text, now and then damaged again as such."""
    match int(random.integers(20)):
        case 0:
            return damage_bytes(json.dumps(data).encode(), random)
        case 1:
            return b"[" * 100_000
        case 2:
            return json.dumps(data).encode("utf-16")
        case _:
            return json.dumps(damage_json(data, random)).encode()


def damage_message(message: Any, random: Random) -> None:
    """Change a few fields of a protocol buffer message, in place and with valid types."""
    for _ in range(1 + int(random.integers(3))):
        fields = list(_fields(message))
        if not fields:
            return
        owner, field, value = fields[int(random.integers(len(fields)))]
        if hasattr(value, "extend"):
            _damage_list(getattr(owner, field.name), field, value, random)
        elif field.type == field.TYPE_MESSAGE or random.integers(4) == 0:
            owner.ClearField(field.name)
        else:
            _set(owner, field.name, _other(value, random))


def _damage_list(items: Any, field: Any, value: Any, random: Random) -> None:
    at = int(random.integers(len(items)))
    kind = int(random.integers(3))
    if kind == 0:
        del items[at]
    elif field.type == field.TYPE_MESSAGE:
        items.add().CopyFrom(items[at])
    elif kind == 1:
        items.append(items[at])
    else:
        try:
            items[at] = _other(items[at], random)
        except (ValueError, TypeError):
            del items[at]


def _other(value: Any, random: Random) -> Any:
    if isinstance(value, bytes):
        return damage_bytes(value, random)
    if isinstance(value, str):
        return str(random.choice(["", "x", "v0", "v3", value + "'", value[:-1], "Relu", "Concat"]))
    if isinstance(value, float):
        return float(random.choice([0.0, -1.0, np.nan, np.inf, 1e30]))
    return int(random.choice([*NUMBERS[:8], int(value) - 1, int(value) + 1]))


def _set(owner: Any, name: str, value: Any) -> None:
    try:
        setattr(owner, name, value)
    except (ValueError, TypeError):
        # Out of the field's range.
        owner.ClearField(name)


def _places(data: Any) -> Any:
    """Every (holder, key) of nested lists and dicts."""
    keys = range(len(data)) if isinstance(data, list) else list(data)
    for key in keys:
        yield data, key
        if isinstance(data[key], (list, dict)):
            yield from _places(data[key])


def _fields(message: Any) -> Any:
    """Every (owner, field, value) that is set, down to the leaves."""
    for field, value in message.ListFields():
        yield message, field, value
        if field.type == field.TYPE_MESSAGE:
            for inner in value if hasattr(value, "extend") else [value]:
                yield from _fields(inner)
