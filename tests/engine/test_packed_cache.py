"""A model with packed weights from a file writes the same text as without."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from engine.test_moving import INTERLEAVED, wants_some
from factory import Shape, write_model
from unladen import Model
from unladen._native import cpu as native
from unladen.backends import backend_of
from unladen.backends.cpu import moving
from unladen.backends.cpu.features import isa_levels
from unladen.errors import InvalidArgument, UnladenError
from unladen.storage import packed


@pytest.fixture(params=[level for level in isa_levels() if level in ("avx512", "vbmi")])
def packs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each level in turn whose kernels want packed rows."""
    monkeypatch.setattr(backend_of("cpu"), "_level", request.param)
    return str(request.param)


@pytest.mark.parametrize(("shape", "quant"), INTERLEAVED)
def test_no_logit_changes(tmp_path: Path, rng: np.random.Generator, level: str, shape: Shape,
                          quant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path, folder = write_model(tmp_path / "m.gguf", rng, shape, quant=quant), tmp_path / "packed"
    texts = [rng.integers(3, 200, n).tolist() for n in (1, 2, 9, 60)]
    greedy = {"max_tokens": 12, "temperature": 0.0}
    with Model(path, devices=["cpu"]) as model:
        expected = [model.logits(text) for text in texts]
        tokens = model.generate(texts[1], **greedy).tokens
    monkeypatch.setattr(moving, "N_STEPS_BEFORE", 1 << 30)  # so packed rows come from the file only
    kept: set[Path] = set()
    wants = wants_some(level, quant)
    for _ in range(2):
        with Model(path, devices=["cpu"], packed_cache=folder, strict=wants) as model:
            for text, logits in zip(texts, expected, strict=True):
                found = model.logits(text)
                assert np.array_equal(found.view(np.uint32), logits.view(np.uint32))
            assert model.generate(texts[1], **greedy).tokens == tokens
            model.place(context_size=64)
            assert np.array_equal(model.logits(texts[2]), expected[2])
        found_now = set(folder.iterdir()) if folder.exists() else set()
        assert len(found_now) == wants and kept in (set(), found_now)
        kept = found_now
    assert all(f".{level}-{native.PACKED_LAYOUT}." in one.name for one in kept)


def test_packed_rows_are_those_in_use(tmp_path: Path, packs: str, make_model: Callable[..., Path],
                                      monkeypatch: pytest.MonkeyPatch) -> None:
    """Another file's codes in the copy change what the model says."""
    path, folder = make_model(n_embd=256, n_ff=256, quant="Q8_0"), tmp_path / "packed"
    monkeypatch.setattr(moving, "N_STEPS_BEFORE", 1 << 30)
    with Model(path, devices=["cpu"], packed_cache=folder) as model:
        expected = model.logits([5, 6])
    (copy,) = folder.iterdir()
    with copy.open("r+b") as file:
        file.write(bytes(4096))
    with Model(path, devices=["cpu"], packed_cache=folder) as model:
        assert not np.array_equal(model.logits([5, 6]), expected)


def test_scales_nearby_need_no_second_part(tmp_path: Path, packs: str,
                                           make_model: Callable[..., Path]) -> None:
    path, folder = make_model(n_embd=256, n_ff=512, quant="Q4_0"), tmp_path / "packed"
    with Model(path, devices=["cpu"], packed_cache=folder) as model:
        expected = model.logits([5, 6, 7])
    (copy,) = folder.iterdir()
    content, spoilt = np.fromfile(copy, np.uint8), []
    n_entries, _ = packed.END.unpack_from(content, len(content) - packed.END.size)
    table = len(content) - packed.END.size - n_entries * packed.ENTRY.size
    entries = [packed.Rows(*packed.ENTRY.unpack_from(content, table + i * packed.ENTRY.size))
               for i in range(n_entries)]
    at, known = 0, table - 4 * sum(rows.n_known for rows in entries)
    for rows in entries:
        n_rows, n_blocks = rows.n_bytes // rows.row_bytes, rows.row_bytes // 18
        end = at + rows.n_bytes
        # In sixteen rows the last bits of each eight blocks are needed only where scales lie far
        # apart. The last numbers in `known` are those that scales are counted from.
        second = content[end - n_rows * rows.rest_bytes:end]
        origins = content[known:known + 4 * rows.n_known].reshape(n_rows // 16, -1)[:, -32:]
        are_near = np.any(origins[:, :2] != 0xff, axis=1)
        second.reshape(n_rows // 16, n_blocks // 8, -1)[are_near, :, -64:] = 0xff
        spoilt.extend(are_near)
        known += 4 * rows.n_known
        at += -(-rows.n_bytes // packed.LINE_BYTES) * packed.LINE_BYTES
    assert known == table and np.mean(spoilt) > 0.7
    content.tofile(copy)
    with Model(path, devices=["cpu"], packed_cache=folder) as model:
        assert np.array_equal(model.logits([5, 6, 7]), expected)


@pytest.mark.skipif(sys.platform != "linux", reason="Linux moves pages")
def test_what_is_kept_moves_to_huge_pages(tmp_path: Path, packs: str, rng: np.random.Generator,
                                          make_model: Callable[..., Path],
                                          monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_model(n_embd=1024, n_ff=2048, quant="Q8_0")
    monkeypatch.delenv(moving.VARIABLE, raising=False)
    monkeypatch.setattr(moving, "are_small", lambda wanted: True)
    with Model(path, devices=["cpu"], packed_cache=tmp_path / "packed") as model:
        tokens = rng.integers(3, 200, 7).tolist()
        expected = model.logits(tokens)
        moved: list[int] = []
        copy = native.copy_into_huge_pages

        def count(at: int, n: int) -> bool:
            is_moved: bool = copy(at, n)
            moved.append(n * is_moved)
            return is_moved
        monkeypatch.setattr(native, "copy_into_huge_pages", count)
        model.engine.plan.settle()
        assert sum(moved) >= 10 * native.HUGE_PAGE_BYTES // 2
        assert np.array_equal(model.logits(tokens), expected)


def test_where_nothing_is_packed(tmp_path: Path, make_model: Callable[..., Path],
                                 monkeypatch: pytest.MonkeyPatch,
                                 caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(backend_of("cpu"), "_level", "portable")
    path, folder = make_model(n_embd=256, n_ff=256, quant="Q8_0"), tmp_path / "packed"
    with (caplog.at_level(logging.WARNING, "unladen"),
          Model(path, devices=["cpu"], packed_cache=folder) as model):
        assert "nothing is kept packed" in caplog.text
        assert np.isfinite(model.logits([5])).all()
    with pytest.raises(UnladenError, match="nothing is kept packed"):
        Model(path, devices=["cpu"], packed_cache=folder, strict=True)
    assert not folder.exists()


def test_no_folder(tmp_path: Path, packs: str, make_model: Callable[..., Path],
                   caplog: pytest.LogCaptureFixture) -> None:
    """Without a folder, weights are packed between steps, as usual."""
    path, folder = make_model(n_embd=256, n_ff=256, quant="Q8_0"), tmp_path / "file"
    folder.write_text("")
    with (caplog.at_level(logging.WARNING, "unladen"),
          Model(path, devices=["cpu"], packed_cache=folder) as model):
        assert "can't be kept" in caplog.text
        expected = model.logits([5, 6, 7])
        model.engine.plan.settle()
        assert np.array_equal(model.logits([5, 6, 7]), expected)
    with pytest.raises(UnladenError, match="can't be kept"):
        Model(path, devices=["cpu"], packed_cache=folder, strict=True)


@pytest.mark.parametrize("wrong", [{"use_mmap": False}, {"use_mlock": True}])
def test_copied_or_locked(tmp_path: Path, make_model: Callable[..., Path],
                          wrong: dict[str, bool]) -> None:
    with pytest.raises(InvalidArgument, match="packed_cache"):
        Model(make_model(), devices=["cpu"], packed_cache=tmp_path, **wrong)
