"""Load what ``optimize`` saved: an executable, another runtime's build, or a deployment."""

from __future__ import annotations

from runtime_ext.deployment.deployment import load_program as load

__all__ = ["load"]
