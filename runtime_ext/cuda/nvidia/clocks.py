"""The state of a GPU beside its measurements: clocks, power, temperature, by ``nvidia-smi``."""

from __future__ import annotations

import shutil
import subprocess

from runtime_ext.cuda.nvidia.driver import OpenDevice, call

_FIELDS = {
    "clocks.sm": "sm_mhz",
    "clocks.mem": "memory_mhz",
    "clocks.max.sm": "most_sm_mhz",
    "pstate": "power_state",
    "power.draw": "watts",
    "temperature.gpu": "celsius",
    "clocks_event_reasons.active": "throttle_reasons",
    "driver_version": "driver",
}


def clocks(device: OpenDevice) -> dict[str, str]:
    """Return the state that ``nvidia-smi`` reports of a GPU; under ``unknown``, why it does not."""
    nvidia_smi = shutil.which("nvidia-smi")
    if nvidia_smi is None:
        return {"unknown": "nvidia-smi is not installed"}
    # CUDA may count the GPUs in another order, or see only some.
    bus_id = call("cuDeviceGetPCIBusId", 64, call("cuDeviceGet", device.number))
    command = [
        *(nvidia_smi, "-i", bus_id.split(b"\0")[0].decode()),
        *(f"--query-gpu={','.join(_FIELDS)}", "--format=csv,noheader,nounits"),
    ]
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"unknown": f"nvidia-smi cannot be run: {error}"}
    values = [value.strip() for value in process.stdout.strip().split(",")]
    if process.returncode or len(values) != len(_FIELDS):
        return {"unknown": f"nvidia-smi says {(process.stderr or process.stdout).strip()[:200]!r}"}
    return dict(zip(_FIELDS.values(), values, strict=True))
