"""Groups of stages of a block that share a stage key, found without computing every key."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property

from tvm_ios.ios.dynamic_program import Groups
from tvm_ios.schedule.stage import Strategy

#: Returns the stage key of one of the block's stages.
KeyOf = Callable[[Strategy, Groups], str]


class TwinStages:
    """Stages by their keys; a key is computed only for stages that may share a requested one.

    Units of stages with equal keys have equal keys alone, group by group: those of the ending, for
    co-scheduled ones too. So the stages fall into classes by the keys of their units alone, and the
    keys of a class are computed when the first of its stages is asked for.
    """

    def __init__(
        self, stages: Iterable[tuple[int, Strategy, Groups]], units: int, key_of: KeyOf
    ) -> None:
        self._stages = {number: (strategy, groups) for number, strategy, groups in stages}
        self._units = units
        self._key_of = key_of
        self._keys: dict[int, str] = {}
        self._numbers: dict[str, list[int]] = {}

    def key(self, stage: int) -> str:
        """Return the key of a stage."""
        if stage not in self._keys:
            for twin in self._classes.pop(self._class(*self._stages[stage])):
                key = self._key_of(*self._stages[twin])
                self._keys[twin] = key
                self._numbers.setdefault(key, []).append(twin)
        return self._keys[stage]

    def numbers(self, key: str) -> list[int]:
        """Return all stages with a key that :meth:`key` has returned."""
        return self._numbers[key]

    def _class(self, strategy: Strategy, groups: Groups) -> tuple[object, ...]:
        kinds = self._kinds
        # Keys of co-scheduled stages list units wave by wave, whatever their numbers.
        order = sorted if strategy is Strategy.CO_SCHEDULE else iter
        return strategy, *sorted([tuple(order([kinds[u] for u in group])) for group in groups])

    @cached_property
    def _classes(self) -> dict[tuple[object, ...], list[int]]:
        classes: dict[tuple[object, ...], list[int]] = {}
        for number, (strategy, groups) in self._stages.items():
            classes.setdefault(self._class(strategy, groups), []).append(number)
        return classes

    @cached_property
    def _kinds(self) -> list[int]:
        """A number for each unit, equal for units that have the same key alone."""
        numbers: dict[str, int] = {}
        keys = [self._key_of(Strategy.CONCURRENT, ((u,),)) for u in range(self._units)]
        return [numbers.setdefault(key, len(numbers)) for key in keys]
