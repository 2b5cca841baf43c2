"""The kernels of a workload as a file of a cache: a line of JSON, then the cubins."""

from __future__ import annotations

import json
from collections.abc import Mapping

from runtime_ext.cuda.machine_code.kernel import CudaKernel
from tvm_ios.files.json_text import json_object, natural
from tvm_ios.files.plain_data import read_as


def pack(kernels: Mapping[str, tuple[CudaKernel, bytes]]) -> bytes:
    """Return the content of the file, from kernels and their cubins by symbol."""
    facts = [{**kernel.to_json(), "nbytes": len(code)} for kernel, code in kernels.values()]
    line = json.dumps({"kernels": facts}).encode() + b"\n"
    return line + b"".join(code for _, code in kernels.values())


def unpack(content: bytes) -> dict[str, tuple[CudaKernel, bytes]]:
    """Return kernels and their cubins by symbol, from the content that :func:`pack` returned."""
    line, _, rest = content.partition(b"\n")
    kernels: dict[str, tuple[CudaKernel, bytes]] = {}
    for facts in json_object(line)["kernels"]:
        kernel, size = read_as(CudaKernel, facts), natural(facts["nbytes"])
        kernels[kernel.symbol], rest = (kernel, rest[:size]), rest[size:]
    return kernels
