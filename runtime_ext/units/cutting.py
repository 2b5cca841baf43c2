"""Cut kernels with weights into tiles for a device, and pack the weights for these."""

from __future__ import annotations

from dataclasses import replace

from runtime_ext.kernels.cutter import Cutter, Recut
from runtime_ext.kernels.expression import Access
from runtime_ext.kernels.spec import Contraction, Recurrence
from runtime_ext.units.pixel_rows import merge_rows
from runtime_ext.units.placed import Placed
from runtime_ext.units.values import Storage
from tvm_ios.program.constant_transform import ParamTransform, packing


def cut(
    kernel: Placed[Contraction], cutter: Cutter, recut: Recut | None = None
) -> Placed[Contraction]:
    """Return the contraction cut for a device, and pack its weights for this cut."""
    spec = merge_rows(kernel.spec)
    parts = spec.parts if spec.groups == 1 else spec.parts * spec.groups
    spec = replace(spec, parts=parts)
    blocking = cutter.blocking(spec)
    spec = replace(spec, blocking=blocking)
    if recut is not None:
        alone = _alone(spec, [kernel.storages[s] for s in kernel.places])
        spec = replace(spec, blocking=recut(alone) or blocking)
    packed = kernel.storage(spec.weight)
    pack = packing(packed.shape, parts, cutter.width(spec.blocking))
    packed.shape = pack.shape(packed.shape)
    packed.transform = ParamTransform((*packed.transform.steps, *pack.steps))
    return kernel.beside(replace(spec, buffers=kernel.shapes), kernel.places)


def cut_recurrence(kernel: Placed[Recurrence], cutter: Cutter) -> Placed[Recurrence]:
    """Return the recurrence with its weights packed in blocks of the device's vectors."""
    width = cutter.recurrent_width()
    hidden, gates = kernel.spec.hidden, kernel.spec.gate_count
    blocks = -(-hidden // width)
    packed = kernel.storage(kernel.spec.weight)
    packed.transform = ParamTransform(
        (
            ("reshape", (gates, hidden, hidden)),
            ("transpose", (1, 0, 2)),
            ("pad_parts", (hidden,), width),
            ("reshape", (blocks, width, gates, hidden)),
            ("transpose", (0, 3, 2, 1)),
        )
    )
    packed.shape = (blocks, hidden, gates, width)
    return kernel.beside(replace(kernel.spec, width=width, buffers=kernel.shapes), kernel.places)


def _alone(spec: Contraction, storages: list[Storage]) -> Contraction:
    """Return the contraction as if no tensor of it were part of a wider one, as in tuning logs."""
    if all(storage.run is None for storage in storages):
        return spec

    def at(access: Access) -> Access:
        run = storages[access.buffer].run
        return access if run is None else run.alone(access)

    return replace(
        spec,
        buffers=tuple(s.shape if s.run is None else s.run.shape(s.shape) for s in storages),
        data=at(spec.data),
        statements=tuple(s.mapped(at) for s in spec.statements),
    )
