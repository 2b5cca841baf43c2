"""Which stages of a block share a stage key, found without making every stage's key."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property

from tvm_ios.ios.dynamic_program import Groups
from tvm_ios.schedule.stage import Strategy

#: Gives the stage key of one of the block's stages.
KeyOf = Callable[[Strategy, Groups], str]


class TwinStages:
    """Stages by their keys; a key is made only for stages that may share one asked for.

    Stages with one key are made of units that have one key each alone, group by group: those of
    the ending, for co-scheduled ones too. So the stages fall into classes by the keys of their
    units alone, and the keys of a class are made when the first of its stages is asked for.

    Parameters
    ----------
    stages
        Number, strategy and groups (block numbers) of every stage.
    units
        How many units the block has.
    key_of
        Makes a stage's key.
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
        """The key of a stage."""
        if stage not in self._keys:
            for twin in self._classes.pop(self._class(*self._stages[stage])):
                key = self._key_of(*self._stages[twin])
                self._keys[twin] = key
                self._numbers.setdefault(key, []).append(twin)
        return self._keys[stage]

    def numbers(self, key: str) -> list[int]:
        """All stages with a key that :meth:`key` has given."""
        return self._numbers[key]

    def _class(self, strategy: Strategy, groups: Groups) -> tuple[object, ...]:
        kinds = self._kinds
        # In the keys of co-scheduled units they stand wave by wave, whatever their numbers.
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
        """For each unit a number that units with the same key alone share."""
        numbers: dict[str, int] = {}
        keys = [self._key_of(Strategy.CONCURRENT, ((u,),)) for u in range(self._units)]
        return [numbers.setdefault(key, len(numbers)) for key in keys]
