"""The words of a step: where Python puts them is where kernels' texts look for them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pytest

from cases.base import Maker
from unladen.backends._gpu import step, step_header
from unladen.backends._gpu.step import KeptRows, RopeTable, Size, Step
from unladen.backends._gpu.step_header import CONSTANTS, WORDS, words_of
from unladen.backends.wgpu.source import assemble
from unladen.graph.batch import F32, I32, Batch, array_of, arrays_of
from unladen.types import Limits

Rng = np.random.Generator


def test_words_follow_each_other() -> None:
    assert sorted(WORDS.values()) == list(range(len(WORDS)))
    assert WORDS["rope_tables"] == len(WORDS) - 1
    assert {a.name for a in arrays_of(Batch)} <= WORDS.keys()


def test_the_text_of_a_kernel_has_the_same_numbers() -> None:
    text = assemble("select_rows", "", {"ROW_KIND": 0}).text
    found = dict(line.removeprefix("const ").removesuffix("u;").split(" = ")
                 for line in text.splitlines() if line.startswith("const "))
    assert {name: int(found[name]) for name in CONSTANTS} == CONSTANTS
    assert "#" not in text


def test_every_array_of_a_batch_is_found_by_its_word(rng: Rng) -> None:
    for n_tokens, n_seqs, n_rows in ((1, 1, 0), (3, 3, 2), (40, 3, 0), (40, 3, 30)):
        m = Maker(rng, n_tokens, n_seqs=n_seqs, n_rows=n_rows, row_width=5 if n_rows else 0,
                  n_axes=3 if n_rows else 1, n_sets=n_rows)
        b = m.batch
        tables = [RopeTable(rng.random(n), magnitude, int(rng.integers(0, 2)),
                            axes=[i % 3 for i in range(n)] if n_rows else ())
                  for n, magnitude in ((3, 1.0), (8, float(rng.random())))]
        words, size = Step(b, m.limits, tables, 2).pack()
        counts = (b.n_tokens, b.n_outputs, b.n_seqs, size.n_splits)
        assert tuple(words[WORDS[name]] for name in step_header.NUMBERS) == counts
        ends = {WORDS["rope_tables"] + len(tables)}
        for a in arrays_of(Batch):
            if not a.whole(b).size:
                assert not n_rows and a.name in ("row_of", "rows", "adapter_of")
                continue
            used = getattr(b, a.name)[:getattr(b, a.rows) + a.more].reshape(-1).view(np.int32)
            at = int(words[WORDS[a.name]])
            assert np.array_equal(words[at:at + used.size], used), a.name
            assert at in ends
            ends.add(at + used.size)
        assert words[WORDS["block_table_cols"]] == b.block_table.shape[1]
        tiles = words[words[WORDS["tiles"]]:][:3 * size.n_tiles].reshape(-1, 3)
        assert np.array_equal(
            np.concatenate([np.arange(first, first + n) for first, n, _ in tiles]),
            np.arange(n_tokens))
        assert all((b.seq_of[first:first + n] == seq).all() for first, n, seq in tiles)
        for i, table in enumerate(tables):
            at = int(words[WORDS["rope_tables"] + i])
            positions = b.positions[:n_tokens].reshape(n_tokens, -1)
            angle = (positions[:, list(table.axes) or [0]] - table.back) * table.freqs
            expected = (np.stack([np.cos(angle), np.sin(angle)], axis=-1)
                        * table.magnitude).astype(np.float32).reshape(-1)
            assert np.array_equal(words[at:at + expected.size].view(np.float32), expected)
        assert at + expected.size == len(words)


def test_a_step_keeps_nothing_of_the_one_before(rng: Rng) -> None:
    """Steps of any kind and size give the same words in any order as a fresh writer of them."""
    limits = Limits(40, 3, 3, 4, 12)
    batch = Batch.empty(limits)
    tables = [RopeTable(rng.random(4), 1.0)]
    step = Step(batch, limits, tables, 2)
    for cuts in ([0, 1], [0, 1], [0, 1, 2, 3], [0, 7, 9], [0, 1], [0, 1, 2], [0, 40], [0, 40],
                 [0, 1]):
        batch.n_seqs, batch.n_tokens = len(cuts) - 1, cuts[-1]
        batch.n_outputs = int(rng.integers(1, batch.n_seqs + 1))
        batch.q_start[:len(cuts)] = cuts
        batch.skip = frozenset(["argmax"] * int(rng.integers(0, 2)))
        for array in arrays_of(Batch):
            if array.name != "q_start":
                found = array.whole(batch)
                found[...] = rng.integers(0, 200, found.shape)
        (words, size), (fresh, fresh_size) = step.pack(), Step(batch, limits, tables, 2).pack()
        assert size == fresh_size
        np.testing.assert_array_equal(words, fresh)


@pytest.mark.parametrize(("longest", "n_seqs", "n_kv_heads", "keys", "n_splits"), [
    (1, 1, 8, 64, 1), (64, 1, 8, 64, 1), (65, 1, 8, 64, 2), (520, 1, 8, 64, 12),
    (4096, 1, 8, 64, 64), (100_000, 1, 8, 64, 64), (4096, 32, 8, 64, 4), (4096, 42, 8, 64, 3),
    (4096, 200, 8, 64, 1), (32, 1, 8, 32, 1), (512, 1, 8, 32, 16), (520, 1, 8, 32, 24),
    (2048, 1, 8, 32, 64)])
def test_keys_are_shared_where_few_workgroups_would_read_many(
        longest: int, n_seqs: int, n_kv_heads: int, keys: int, n_splits: int) -> None:
    limits = Limits(n_seqs, n_seqs, n_seqs, -(-longest // 32), n_seqs)
    batch = Batch.empty(limits)
    batch.n_tokens = batch.n_outputs = batch.n_seqs = n_seqs
    batch.kv_len[:] = longest
    _, size = Step(batch, limits, (), n_kv_heads, split_keys=keys).pack()
    assert size == Size(n_seqs, n_seqs, n_seqs, n_splits, True, frozenset())


def test_kept_rows_of_a_table_are_those_computed_anew(
        rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step, "MOST_KEPT", 3)
    freqs = rng.random(8)
    for table in (RopeTable(freqs, 0.75, back=1), RopeTable(freqs, 1.0, axes=[0, 1] * 4)):
        kept = KeptRows(table)
        # Neighbours, places far from each other, more blocks than are kept, and more rows.
        for n in (1, 1, 5, 16, 17, 40):
            start = int(rng.integers(0, 1 << 20))
            positions = start + rng.integers(0, 1 << int(rng.integers(1, 12)), n).astype(np.int32)
            if table.axes:
                positions = np.stack([positions, positions[::-1]], 1)
            out, anew = np.empty((2, n, 8, 2), np.float32)
            kept.write(positions, out)
            table.write(positions, anew)
            # Both round the same cosines; a vector's end may be computed by other code.
            assert np.abs(out - anew).max() <= np.finfo(np.float32).eps


def test_rows_of_a_table_are_computed_once_for_many_steps(
        rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[int] = []
    write = RopeTable.write

    def counted(table: RopeTable, positions: I32, out: F32) -> None:
        computed.append(len(positions))
        write(table, positions, out)

    monkeypatch.setattr(RopeTable, "write", counted)
    kept, out = KeptRows(RopeTable(rng.random(8), 1.0)), np.empty((2, 8, 2), np.float32)
    for position in range(step.KEPT_POSITIONS):
        kept.write(np.array([position, position + 1000], np.int32), out)
    assert computed == 3 * [step.KEPT_POSITIONS]


def test_one_line_adds_an_array(rng: Rng) -> None:
    """A field of a batch that says its shape gets memory, a word in the header, and an upload."""
    @dataclass(slots=True)
    class Wider(Batch):
        row_of: I32 = field(kw_only=True, metadata=array_of("n_tokens", fill=-1))
        rows: npt.NDArray[np.float32] = field(kw_only=True, metadata=array_of(
            "n_outputs", cols="n_blocks_per_seq", dtype=np.float32))

    header = words_of(Wider)
    assert set(header) == {*WORDS, "row_of", "rows", "rows_cols"}
    assert sorted(header.values()) == list(range(len(header)))
    limits = Limits(5, 3, 1, 2, 2)
    batch = Wider.empty(limits)
    assert (batch.row_of == -1).all() and batch.rows.shape == (3, 2)
    batch.n_tokens, batch.n_outputs, batch.n_seqs = 5, 3, 1
    batch.rows[:] = rng.standard_normal((3, 2))
    words, _ = Step(batch, limits, (), 1).pack()
    assert words[header["rows_cols"]] == 2
    assert np.array_equal(words[words[header["row_of"]]:][:5], batch.row_of)
    rows = words[words[header["rows"]]:][:6].view(np.float32)
    assert np.array_equal(rows.reshape(3, 2), batch.rows)
