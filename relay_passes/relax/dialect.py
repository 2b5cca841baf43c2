"""Relax, of the TVM that comes with tvm-ios."""

from relay_passes.dialect import Dialect
from relay_passes.relax.canonicalise import canonicalise
from relay_passes.relax.extract import extract
from relay_passes.relax.outline import Outliner, outline

DIALECT = Dialect("relax", canonicalise, extract, Outliner, outline, str)
