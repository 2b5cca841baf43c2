"""Relay, of any TVM up to 0.19."""

from typing import Any

import tvm

from relay_passes.dialect import Dialect
from relay_passes.relay.canonicalise import canonicalise
from relay_passes.relay.extract import extract
from relay_passes.relay.outline import Outliner, outline


def _measured_search() -> Any:
    from relay_passes.relay.measured import MeasuredRelaySearch

    return MeasuredRelaySearch


DIALECT = Dialect(
    "relay", canonicalise, extract, Outliner, outline, tvm.runtime.String, _measured_search
)
