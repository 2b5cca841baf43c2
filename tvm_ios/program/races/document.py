"""Plans as JSON documents, which ``docs/check.md`` describes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from tvm_ios.files.json_text import json_object
from tvm_ios.files.plain_data import read_as
from tvm_ios.program.races.plan import Plan, PlanError, PlannedLaunch, Span

_FORMAT, _VERSION = "tvm-ios plan", 1


@dataclass(frozen=True, slots=True)
class _Touched:
    """Bytes of a buffer: from ``begin`` so many, or to its end; perhaps several such ranges."""

    buffer: str
    begin: int = 0
    bytes: int | None = None
    count: int = 1
    stride: int = 0


@dataclass(frozen=True, slots=True)
class _Place:
    """A buffer that is a part of another."""

    within: str
    begin: int
    bytes: int


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of the plan: a launch, or an event that is recorded or waited for."""

    launch: str | None = None
    record: str | None = None
    wait: str | None = None
    stream: str | None = None
    after: Sequence[str] = ()
    work: str | None = None
    tiles: tuple[int, int] | None = None


def read_plan(path: Path) -> Plan:
    """Read a plan from a file; see :func:`plan_from_json`."""
    return plan_from_json(read_json(path), str(path))


def plan_from_json(data: Mapping[str, Any], source: str = "the plan") -> Plan:
    """Return the plan of a JSON document.

    Parameters
    ----------
    data
        The parsed document, which ``docs/check.md`` describes.
    source
        Its name in errors.

    Raises
    ------
    PlanError
        If it is no plan; the message names the field, the buffer or the call.
    """
    document = Document.of(data, source, "calls")
    buffers = Buffers.of(document)
    calls: list[_Call] = []
    touched: list[tuple[tuple[Span, ...], tuple[Span, ...]]] = []
    for number, given in enumerate(document.of_list("calls")):
        where = f"call {number} of {source}"
        call = _read(where, _Call, given)
        if sum(what is not None for what in (call.launch, call.record, call.wait)) != 1:
            raise PlanError(f"{where} is not one of 'launch', 'record' and 'wait'")
        if call.launch is None and call.stream is None:
            raise PlanError(f"{where} names no stream")
        calls.append(call)
        touched.append(buffers.touched(where, given))
    return Plan(_launches(source, calls, touched))


def _launches(
    source: str,
    calls: Sequence[_Call],
    touched: Sequence[tuple[tuple[Span, ...], tuple[Span, ...]]],
) -> list[PlannedLaunch]:
    names = [call.launch for call in calls if call.launch is not None]
    numbers = {name: number for number, name in enumerate(names)}
    if len(numbers) < len(names):
        twice = next(name for number, name in enumerate(names) if numbers[name] != number)
        raise PlanError(f"{source} has two launches {twice!r}")
    # What a stream's next launch comes after, and what an event stands for.
    streams: dict[str, frozenset[int]] = {}
    events: dict[str, frozenset[int]] = {}
    launches: list[PlannedLaunch] = []
    for call, (reads, writes) in zip(calls, touched, strict=True):
        before = frozenset[int]() if call.stream is None else streams.get(call.stream, frozenset())
        if call.record is not None:
            events[call.record] = before
        elif call.wait is not None:
            if call.wait not in events:
                raise PlanError(
                    f"{source} waits for event {call.wait!r}, which is not recorded yet"
                )
            before |= events[call.wait]
        else:
            assert call.launch is not None
            if unknown := [name for name in call.after if name not in numbers]:
                raise PlanError(f"{call.launch!r} comes after {unknown[0]!r}, which {source} lacks")
            after = before | {numbers[name] for name in call.after}
            launches.append(
                PlannedLaunch(call.launch, after, reads, writes, call.work, call.tiles or (0, 1))
            )
            before = frozenset({numbers[call.launch]})
        if call.stream is not None:
            streams[call.stream] = before
    return launches


@dataclass(frozen=True)
class Document:
    """A JSON document with buffers."""

    content: Mapping[str, Any]
    source: str

    @staticmethod
    def of(content: Mapping[str, Any], source: str, *fields: str) -> Document:
        """Return a document that has buffers and these fields, or raise PlanError."""
        if (content.get("format"), content.get("version")) != (_FORMAT, _VERSION):
            raise PlanError(f"{source} is not a {_FORMAT} of version {_VERSION}")
        if missing := [field for field in ("buffers", *fields) if field not in content]:
            raise PlanError(f"{source} lacks {missing[0]!r}")
        return Document(content, source)

    def of_list(self, name: str) -> Sequence[object]:
        """Return a field that is a list."""
        return as_list(f"{name!r} of {self.source}", self.content[name])

    def of_object(self, name: str) -> Mapping[str, object]:
        """Return a field that is an object."""
        return as_object(f"{name!r} of {self.source}", self.content[name])


def read_json(path: Path) -> Mapping[str, Any]:
    """Return the JSON object of a file, or raise PlanError."""
    try:
        return json_object(path.read_bytes())
    except ValueError as error:
        raise PlanError(f"{path} is no plan: {error}") from error


@dataclass(frozen=True)
class Buffers:
    """The buffers of a document: each a memory, or a part of one."""

    spans: Mapping[str, Span]

    @staticmethod
    def of(document: Document) -> Buffers:
        """Read the buffers of a document."""
        given = document.of_object("buffers")
        spans: dict[str, Span] = {}
        parts: dict[str, _Place] = {}
        for name, buffer in given.items():
            where = f"buffer {name!r} of {document.source}"
            if isinstance(buffer, int):
                spans[name] = Span(name, name, 0, _read(where, int, buffer))
            else:
                parts[name] = _read(where, _Place, buffer)
        for name, part in parts.items():
            whole = spans.get(part.within)
            if whole is None or part.within in parts:
                raise PlanError(f"buffer {name!r} lies within {part.within!r}, which is no memory")
            if part.begin + part.bytes > whole.size:
                raise PlanError(f"buffer {name!r} does not lie within {part.within!r}")
            spans[name] = Span(name, part.within, part.begin, part.bytes)
        return Buffers(spans)

    def touched(self, where: str, given: object) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
        """Return the bytes that a call or node reads, and those that it writes."""
        fields = as_object(where, given)
        reads, writes = (
            tuple(
                self._span(where, item)
                for item in as_list(f"{name!r} of {where}", fields.get(name, []))
            )
            for name in ("reads", "writes")
        )
        return reads, writes

    def _span(self, where: str, given: object) -> Span:
        touched = _Touched(given) if isinstance(given, str) else _read(where, _Touched, given)
        buffer = self.spans.get(touched.buffer)
        if buffer is None:
            raise PlanError(f"{where} touches {touched.buffer!r}, which is no buffer")
        size = buffer.size - touched.begin if touched.bytes is None else touched.bytes
        begin = buffer.begin + touched.begin
        span = Span(buffer.buffer, buffer.memory, begin, size, touched.count, touched.stride)
        if size < 0 or touched.count < 1 or span.end > buffer.begin + buffer.size:
            raise PlanError(f"{where} touches bytes that {touched.buffer!r} does not have")
        return span


def _read(where: str, kind: Any, given: object) -> Any:
    try:
        return read_as(kind, given)
    except ValueError as error:
        raise PlanError(f"{where} lacks or misstates {error}") from error


def as_object(where: str, given: object) -> Mapping[str, object]:
    """Return parsed JSON that must be an object, or raise PlanError."""
    if not isinstance(given, dict):
        raise PlanError(f"{where} is no object")
    return cast("Mapping[str, object]", given)


def as_list(where: str, given: object) -> Sequence[object]:
    """Return parsed JSON that must be a list, or raise PlanError."""
    if not isinstance(given, list):
        raise PlanError(f"{where} is no list")
    return cast("Sequence[object]", given)
