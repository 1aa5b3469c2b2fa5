"""Ends mappings of buffers, whatever interrupted them."""

from __future__ import annotations

from typing import Any

from unladen.backends.wgpu.adapters import load, native


def end_mapping(buffer: Any) -> None:
    """Unmap ``buffer``, or cancel a mapping that isn't done yet. Submitting work that uses a mapped
    buffer would end the process."""
    try:
        native()[0].wgpuBufferUnmap(buffer._internal)
    except load()[0].GPUValidationError:
        pass  # an interrupt came before the buffer was mapped
    # wgpu-py's own unmap() refuses a mapping that isn't done, so its state is set here.
    buffer._map_state, buffer._mapped_status = "unmapped", (0, 0, 0)
    buffer._release_memoryviews()
