"""``relay.build`` of a scheduled module, for the graph executor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import tvm
from tvm import relay

from runtime_ext.relay.build_information import keep_build_information
from runtime_ext.relay.tuning_log import AutotvmLog
from tvm_ios.errors import UserError


class RelayBuildError(UserError):
    """Kernels cannot be built; the message is one sentence that says why."""


def make_factory(
    module: tvm.IRModule,
    target: tvm.target.Target,
    name: str,
    log: AutotvmLog | None,
    disabled: Sequence[str] = (),
    instruments: Sequence[Any] = (),
) -> Any:
    """Build a scheduled module for the graph executor, with the best records of a log.

    Equal calls stay separate, so that the nodes of the executor's graph are the calls of ``main``.
    ``name`` becomes part of the kernels' symbols; ``disabled`` are passes of TVM to skip. Raise
    RelayBuildError if TVM fails.
    """
    keep_build_information()
    pass_context = tvm.transform.PassContext(
        opt_level=3,
        disabled_pass=["EliminateCommonSubexpr", *disabled],
        instruments=list(instruments),
    )
    with log.applied() if log else nullcontext(), own_build_errors(), pass_context:
        return relay.build(module, target=target, mod_name=name)


@contextmanager
def own_build_errors() -> Iterator[None]:
    """Convert any exception of TVM in a ``with`` block to RelayBuildError, with its last line."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        raise RelayBuildError(
            f"TVM {tvm.__version__} cannot build the kernels of this model "
            f"({last_line(error)}): leave out the operator that it names"
        ) from error


def last_line(error: Exception) -> str:
    """Return the last line of an error of TVM, whose text begins with a stack trace."""
    return " ".join(str(error).strip().split("\n")[-1].split()) or repr(error)
