"""Relax, of the TVM that comes with tvm-ios."""

from typing import Any

from relay_passes.dialect import Dialect
from relay_passes.relax.canonicalise import canonicalise
from relay_passes.relax.extract import extract
from relay_passes.relax.outline import Outliner, outline


def _measured_search() -> Any:
    from relay_passes.measured import MeasuredSearch

    return MeasuredSearch


DIALECT = Dialect("relax", canonicalise, extract, Outliner, outline, str, _measured_search)
