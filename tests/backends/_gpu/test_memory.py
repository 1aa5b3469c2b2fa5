"""Buffers in several parts, and what of them a kernel can bind at once."""

from __future__ import annotations

import numpy as np
import pytest

from backends._gpu.emulated import EmulatedBackend, Texts
from unladen.backends._gpu.memory import GpuBuffer, of_gpu
from unladen.errors import OutOfMemory

Rng = np.random.Generator


def buffer(nbytes: int, row_bytes: int = 1, **target: int) -> GpuBuffer:
    backend = EmulatedBackend(Texts(runs_all=True), **target)
    return of_gpu(backend.alloc(backend.devices()[0], nbytes, "weights", row_bytes))


@pytest.mark.parametrize("row_bytes", [1, 18, 34, 84, 144, 1000, 4096])
@pytest.mark.parametrize(("alignment", "max_binding"), [(4, 256), (32, 2048), (256, 40960)])
def test_pieces_hold_each_row_once_and_can_be_bound(row_bytes: int, alignment: int,
                                                    max_binding: int, rng: Rng) -> None:
    step = alignment // int(np.gcd(alignment, row_bytes))
    n_rows, skipped = int(rng.integers(1, 900)), step * int(rng.integers(0, 3))
    # As plans ask for memory: parts begin where a row begins that can be bound.
    whole = buffer((n_rows + skipped) * row_bytes, row_bytes * step, alignment=alignment,
                   max_binding=max_binding, max_buffer=50 * row_bytes * step)
    data = rng.integers(0, 256, whole.nbytes, np.uint8)
    for part, at, done, n in whole.pieces(0, whole.nbytes):
        part.buffer[at:at + n] = data[done:done + n]
    if step * row_bytes > max_binding and n_rows * row_bytes > max_binding:
        with pytest.raises(OutOfMemory, match="at once"):
            list(whole.rows(skipped * row_bytes, row_bytes, n_rows))
        return
    expected = 0
    for r, first, n in whole.rows(skipped * row_bytes, row_bytes, n_rows):
        assert first == expected and r.offset % alignment == r.nbytes % 4 == 0
        assert n * row_bytes <= r.nbytes < n * row_bytes + 4
        assert n * row_bytes <= max_binding
        start = (skipped + first) * row_bytes
        assert np.array_equal(r.buffer[r.offset:][:n * row_bytes], data[start:][:n * row_bytes])
        expected += n
    assert expected == n_rows


def test_a_range_lies_in_one_part(rng: Rng) -> None:
    whole = buffer(40960, 4096, alignment=256, max_buffer=8192)
    for at in range(0, 40960, 8192):
        r = whole.range(at + 256, 4000)
        assert r.buffer is whole.parts[at // 8192].buffer and (r.offset, r.nbytes) == (256, 4000)
    with pytest.raises(OutOfMemory, match="emulated:0") as error:
        whole.range(4096, 4100)
    assert "at once" in error.value.hint and "context_size" in error.value.hint
    with pytest.raises(OutOfMemory):
        buffer(8192, max_binding=4096).whole()


def test_a_row_that_is_longer_than_a_buffer() -> None:
    assert [p.nbytes for p in buffer(100, 30, max_buffer=70).parts] == [60, 40]
    assert not buffer(0).parts
    with pytest.raises(OutOfMemory, match="emulated:0"):
        buffer(200, 100, max_buffer=99)
