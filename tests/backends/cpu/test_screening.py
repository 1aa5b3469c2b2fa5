"""A head's largest product is found from parts of its weights, and is that of all of them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import machines as cpu
from backends.cpu.test_linear_kernels import weights
from unladen import Model, quants
from unladen._native import cpu as native
from unladen.backends.cpu import moving
from unladen.backends.cpu.features import isa_level
from unladen.gguf import open_gguf
from unladen.sample import BadLogits
from unladen.schedule.cut.choose_on_device import SKIPPED

SCREENING = ("avx2", "avx512", "vbmi")
LEVELS = [level for level in cpu.levels() if level in SCREENING]
TYPES = ("Q8_0", "Q6_K", "Q4_0")
N_VOCAB = 20_008
MOST_PAUSED = 64
"""Steps that compute all after one in which too many rows were in question."""
Floats = npt.NDArray[np.float64]
GREEDY = {"temperature": 0.0, "max_tokens": 12}


def screens(name: str) -> bool:
    """Whether a model of type ``name`` screens on this machine; otherwise a step that chooses
    computes all logits. For Q4_0 this depends on more than the level."""
    if name == "Q4_0":
        return native.spared_bytes(isa_level(), name) > 0
    return isa_level() in SCREENING


every_level = pytest.mark.parametrize(("name", "level"), [
    (name, level) for name in TYPES for level in LEVELS
    if name != "Q4_0" or cpu.spared_bytes(level, name)])


@every_level
@pytest.mark.parametrize("n_cols", [256, 1024, 2304])
def test_parts(name: str, level: str, n_cols: int, rng: np.random.Generator) -> None:
    """Together they make what whole rows do; the first is off by no more than is said, and after a
    second look, which Q4_0 has, by less."""
    n = 64
    raw = weights(name, n, n_cols, rng)
    for n_rows in (1, 2, 3, 5, 8, 19):
        x = rng.standard_normal((n_rows, n_cols)).astype(np.float32)
        whole, coarse, reach, lengths, more, most_off = cpu.screened(name, raw, n, n_cols, x,
                                                                     level)
        expected = cpu.matmul(name, raw, n, n_cols, x, level, False, (0, n), (0, n_rows))
        assert np.array_equal(whole.view(np.uint32), expected.view(np.uint32)), n_rows
        most = 4 if level == "avx2" else 8 if name == "Q4_0" else n_rows
        assert len(coarse) == (n_rows if n_rows <= most else 0)
        if not len(coarse):
            continue
        off = np.abs(whole.astype(np.float64) - coarse)
        assert np.all(off <= lengths[:, None] * np.repeat(reach, 16)), n_rows
        assert off.max() > 0, n_rows
        assert len(more) == (n_rows if name == "Q4_0" else 0)
        if not len(more):
            continue
        off_now = np.abs(whole - (coarse.astype(np.float64) + more))
        assert np.all(off_now <= most_off), n_rows
        assert np.all(most_off < lengths[:, None] * np.repeat(reach, 16) / 2)
        assert 0 < np.linalg.norm(off_now) < np.linalg.norm(off) / 2, n_rows


@every_level
def test_no_further_than_it_reaches(name: str, level: str, rng: np.random.Generator) -> None:
    """Activations along what a row lacks: as much as is said, and no more."""
    n, n_cols = 16, 512
    cases = [weights(name, n, n_cols, rng)]
    if name == "Q4_0":  # scales more than two octaves apart take another way
        cases.append(cases[0].copy())
        scales = cases[1].reshape(n, -1, 18)[:, ::2, :2]
        scales[:] = (scales.copy().view(np.uint16) - (5 << 10)).view(np.uint8)
    for raw in cases:
        w = quants.dequantize(name, raw, (n, n_cols))
        for row in range(n):
            lacking = w[row] - coarse_row(name, raw, n, n_cols, row, level)
            along, own = worst(name, lacking.astype(np.float64), w[row])
            x = (along / np.abs(along).max()).astype(np.float32)[None]
            whole, coarse, reach, lengths, *_ = cpu.screened(name, raw, n, n_cols, x, level)
            off = np.abs(whole - coarse)[0]
            assert np.all(off <= lengths[0] * reach[0])
            expected = length(name, x[0].astype(np.float64))
            assert lengths[0] == pytest.approx(expected, rel=0.02)
            # Had this row been alone, it would reach so far.
            assert off[row] >= 0.6 * own * expected, row


@pytest.mark.parametrize("along", ["spread", "scales", "anything"])
@pytest.mark.parametrize("level", [level for name, level in every_level.args[1] if name == "Q4_0"])
def test_second_look_is_as_far_off_as_said(level: str, along: str, rng: np.random.Generator
                                           ) -> None:
    """Along what the sizes of a row's scales are away from their mean, along what scales lack, and
    with other activations."""
    n, n_cols = 16, 512
    raw = weights("Q4_0", n, n_cols, rng)
    coarse_w = np.array([coarse_row("Q4_0", raw, n, n_cols, row, level) for row in range(n)],
                        np.float64).reshape(n, -1, 8, 32)
    w = quants.dequantize("Q4_0", raw, (n, n_cols)).astype(np.float64).reshape(coarse_w.shape)
    nibbles = raw.reshape(n, -1, 18)[:, :, 2:]
    codes = np.concatenate([nibbles & 15, nibbles >> 4], axis=2).reshape(w.shape) - 8.0
    first = codes.copy()  # what the first part says of them
    first[:, :, 4:] = codes[:, :, 4:] // 2 * 2 + 0.5
    near = ((coarse_w * first).sum(axis=3) / (first ** 2).sum(axis=3))[..., None]
    assert np.allclose(near * first, coarse_w, rtol=1e-4, atol=1e-6)
    scales_lack = w - near * codes
    halves = np.abs(near[:, :, 4:]) / 2
    away = halves - halves.mean(axis=(1, 2), keepdims=True)
    left = np.sqrt((scales_lack ** 2).sum(axis=(1, 2, 3))).max()
    spread = np.sqrt((away ** 2).sum(axis=(1, 2, 3)))
    up_or_down = np.where(codes % 2, np.sign(near), -np.sign(near))[:, :, 4:]
    for row in range(n):
        x = np.zeros(w.shape[1:])
        if along == "spread":
            x[:, 4:] = away[row] * up_or_down[row]
        else:
            x[:] = scales_lack[row] if along == "scales" else rng.standard_normal(x.shape)
        x = x / np.abs(x).max()
        whole, coarse, _, _, more, most_off = cpu.screened(
            "Q4_0", raw, n, n_cols, x.astype(np.float32).reshape(1, -1), level)
        off = np.abs(whole - (coarse.astype(np.float64) + more))[0]
        assert np.all(off <= most_off[0])
        sums = np.sqrt(((up_or_down * x[:, 4:]).sum(axis=3) ** 2).sum(axis=(1, 2)))
        of_scales = left * np.linalg.norm(x)
        assert most_off[0] == pytest.approx(spread * sums + of_scales, rel=0.05), row
        if along == "spread":
            assert off[row] > 0.95 * spread[row] * sums[row] - of_scales, row


def worst(name: str, lacking: Floats, row: npt.NDArray[np.float32]) -> tuple[Floats, float]:
    """Activations that meet what a row lacks, and how far that reaches."""
    if name == "Q8_0":
        return lacking, float(np.linalg.norm(lacking))
    if name == "Q6_K":
        return np.sign(lacking), float(np.linalg.norm(lacking)) / 4
    parts = lacking.reshape(-1, 8, 32)
    sizes = np.abs(parts).mean(axis=2, keepdims=True)
    lost = sizes / np.abs(row).reshape(-1, 8, 32).max(axis=2, keepdims=True)
    assert 0 < lost[:, :4].max() < 1 / 32 < lost[:, 4:].min()
    x = parts.copy()
    x[:, 4:] = np.sign(parts[:, 4:]) * sizes[:, 4:] / 32
    return x.ravel(), float(np.hypot(np.linalg.norm(parts[:, :4]), np.linalg.norm(sizes[:, 4:])))


def length(name: str, x: Floats) -> float:
    """Where a block lacks bits of its codes, but in Q8_0, its activations may meet all at once."""
    if name == "Q8_0":
        return float(np.linalg.norm(x))
    if name == "Q6_K":
        return float(np.linalg.norm(np.abs(x).reshape(-1, 16).sum(axis=1)))
    last = np.abs(x).reshape(-1, 8, 32)[:, 4:].sum(axis=2)
    return float(np.hypot(np.linalg.norm(x), np.linalg.norm(last)))


def coarse_row(name: str, raw: npt.NDArray[np.uint8], n: int, n_cols: int, row: int, level: str
               ) -> npt.NDArray[np.float32]:
    """What the first part of a row says, number by number."""
    found = []
    for first in range(0, n_cols, 4):
        x = np.zeros((4, n_cols), np.float32)
        x[np.arange(4), first + np.arange(4)] = 127
        found.append(cpu.screened(name, raw, n, n_cols, x, level)[1][:, row] / 127)
    return np.concatenate(found)


def test_other_types_and_levels() -> None:
    one = np.zeros(16 * 20, np.uint8)
    for level in cpu.levels():
        assert cpu.spared_bytes(level, "Q4_1") == 0
        expected = (12, 32) if level in LEVELS else (0, 0)
        assert tuple(cpu.spared_bytes(level, name) for name in ("Q8_0", "Q6_K")) == expected
        with pytest.raises(ValueError, match="two parts"):
            cpu.screened("Q4_1", one, 16, 32, np.zeros((1, 32), np.float32), level)


@pytest.mark.parametrize("level", native.levels())
def test_where_short_rows_are_divided(level: str) -> None:
    before = native.read_like("zen5")
    try:
        assert native.spared_bytes(level, "Q4_0") == 0
        native.read_like("intel")
        assert native.spared_bytes(level, "Q4_0") == (2.5 if level in ("avx512", "vbmi") else 0)
    finally:
        native.read_like(before)


@pytest.mark.parametrize("level", LEVELS)
def test_rows_of_no_whole_256(level: str, rng: np.random.Generator) -> None:
    """AVX2 reads them whole."""
    raw, x = weights("Q8_0", 16, 288, rng), rng.standard_normal((1, 288)).astype(np.float32)
    if level == "avx2":
        with pytest.raises(ValueError, match="this length"):
            cpu.screened("Q8_0", raw, 16, 288, x, level)
        return
    whole, coarse, reach, lengths, *_ = cpu.screened("Q8_0", raw, 16, 288, x, level)
    assert np.all(np.abs(whole.astype(np.float64) - coarse) <= lengths[0] * reach[0])


def test_choice_of_no_whole_256(head: Callable[..., Path], rng: np.random.Generator) -> None:
    with Model(head("Q8_0", n_embd=288), context_size=512, n_threads=2) as model:
        model.engine.plan.settle()
        for token in rng.integers(0, N_VOCAB, 10):
            whole, left, chosen = both(model, [[int(token)]])
            assert chosen[0] == whole.argmax()
            assert left[0, chosen[0]] == whole[0, chosen[0]]
            assert np.array_equal(whole, left) == (isa_level() == "avx2" or not screens("Q8_0"))


@pytest.fixture
def head(make_model: Callable[..., Path], monkeypatch: pytest.MonkeyPatch,
         rng: np.random.Generator) -> Callable[..., Path]:
    """Writes a model whose head has random rows of ``name``, and then what ``change`` makes."""
    monkeypatch.setattr(moving, "may_move", lambda wanted: bool(wanted))

    def make(name: str, change: Callable[[npt.NDArray[np.uint8]], None] | None = None,
             n_embd: int = 256) -> Path:
        path = make_model("llama", n_embd=n_embd, n_ff=256, n_vocab=N_VOCAB, quant=name)
        with open_gguf(path) as file:
            tensor = file.tensors["output.weight"]
            assert tensor.quant == name
            first, n_bytes = tensor.offset, tensor.nbytes
        data = np.memmap(path, np.uint8, "r+")
        rows = data[first:first + n_bytes].reshape(N_VOCAB, -1)
        sizes = np.exp(rng.normal(0, 0.4, (N_VOCAB, 1)))
        x = (rng.standard_normal((N_VOCAB, n_embd)) * sizes).astype(np.float32)
        blocks = native.quantize(name, x, None, rows.shape[1], isa_level())
        assert blocks is not None
        rows[:] = blocks.reshape(rows.shape)
        if change is not None:
            change(rows)
        data.flush()
        return path
    return make


def step(model: Model, tokens: list[list[int]], op: str) -> None:
    """One of as many sequences, of one token each."""
    plan, batch = model.engine.plan, model.engine.plan.batch
    sequences = [model.engine.sequence() for _ in tokens]
    for s, (token,) in enumerate(tokens):
        assert sequences[s].reserve(1)
        batch.out_rows[s] = s
        batch.place(s, s, [token], 0, sequences[s].blocks)
    batch.n_tokens = batch.n_outputs = batch.n_seqs = len(tokens)
    batch.skip = SKIPPED[op]
    plan.run()
    for sequence in sequences:
        sequence.release()


def both(model: Model, tokens: list[list[int]]) -> tuple[npt.NDArray[Any], npt.NDArray[Any], Any]:
    """All logits; what a step leaves there that only chooses, and its choice."""
    plan = model.engine.plan
    step(model, tokens, "")
    whole = plan.output("logits").copy()
    step(model, tokens, "argmax")
    return whole, plan.output("logits").copy(), plan.output("argmax").copy()


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("n_seqs", [1, 3, 4])
def test_choice(head: Callable[..., Path], name: str, n_seqs: int, rng: np.random.Generator
                ) -> None:
    with Model(head(name), context_size=512, n_threads=2) as model:
        model.engine.plan.settle()
        n_coarse = 0
        for _ in range(20):
            tokens = [[int(t)] for t in rng.integers(0, N_VOCAB, n_seqs)]
            whole, left, chosen = both(model, tokens)
            assert np.array_equal(chosen, whole.argmax(axis=1))
            n_coarse += int((whole != left).sum())
            place = np.arange(n_seqs), chosen
            assert np.array_equal(left[place], whole[place])
        assert n_coarse > 4 * N_VOCAB * n_seqs if screens(name) else n_coarse == 0


def test_second_look(head: Callable[..., Path], rng: np.random.Generator) -> None:
    """The second look at a head of Q4_0 leaves few groups to compute whole, most often one."""
    with Model(head("Q4_0", n_embd=1024), context_size=512, n_threads=2) as model:
        model.engine.plan.settle()
        n_whole = []
        for token in rng.integers(0, N_VOCAB, 15):
            for _ in range(1 + MOST_PAUSED if screens("Q4_0") else 1):
                whole, left, chosen = both(model, [[int(token)]])
                assert chosen[0] == whole.argmax()
                n = int((whole == left).sum())
                if n < N_VOCAB:
                    break
            n_whole.append(n)
        assert np.median(n_whole) < 100 if screens("Q4_0") else min(n_whole) == N_VOCAB


@pytest.mark.parametrize("name", TYPES)
def test_pauses(head: Callable[..., Path], name: str, rng: np.random.Generator) -> None:
    """A quarter of all rows are equal, and the largest for half of all tokens: where they must all
    be made whole, the next steps compute all rows, twice as many steps each time."""
    n_equal = N_VOCAB // 4

    def make_equal(rows: npt.NDArray[np.uint8]) -> None:
        x = (40 * rng.standard_normal((1, 256))).astype(np.float32)
        one = native.quantize(name, x, None, rows.shape[1], isa_level())
        assert one is not None
        rows[:n_equal] = one.reshape(1, -1)

    with Model(head(name, make_equal), context_size=512, n_threads=2) as model:
        plan = model.engine.plan
        plan.settle()
        tokens, logits = rng.integers(0, N_VOCAB, 60).tolist(), []
        for token in tokens:
            step(model, [[token]], "")
            logits.append(plan.output("logits")[0, 0])

        def n_whole(is_largest: bool) -> int:
            token = tokens[int(np.argmax(logits) if is_largest else np.argmin(logits))]
            whole, left, chosen = both(model, [[token]])
            assert chosen[0] == whole.argmax()
            assert (chosen[0] == 0) == is_largest
            return int((whole == left).sum())

        def n_paused() -> int:
            """Steps that compute all, up to the next one that doesn't."""
            if not screens(name):
                assert n_whole(True) == n_whole(False) == N_VOCAB
                return 0
            assert n_equal <= n_whole(True) < N_VOCAB
            for n in range(MOST_PAUSED):
                if n_whole(False) < N_VOCAB:
                    return n
            return MOST_PAUSED

        expected = [4, 7, 13, 25, 49, 63, 63] if screens(name) else [0] * 7
        assert [n_paused() for _ in expected] == expected


@pytest.mark.parametrize("name", TYPES)
def test_while_rows_move(head: Callable[..., Path], name: str, monkeypatch: pytest.MonkeyPatch,
                         rng: np.random.Generator) -> None:
    """Some rows lie in parts, others not yet; the last eight never do."""
    monkeypatch.setattr(moving, "PIECE_BYTES", 1)
    monkeypatch.setattr(moving, "N_STEPS_BEFORE", 0)
    monkeypatch.setattr(moving, "PAUSE", 0)
    with Model(head(name), context_size=512, n_threads=2) as model:
        seen = set()
        for _ in range(400):
            whole, left, chosen = both(model, [[int(rng.integers(N_VOCAB))]])
            assert np.array_equal(chosen, whole.argmax(axis=1))
            seen.add(int((whole != left).sum()) // 1000)
        assert len(seen) > 4 if screens(name) else seen == {0}


@pytest.mark.parametrize("name", TYPES)
def test_equal_rows(head: Callable[..., Path], name: str, rng: np.random.Generator) -> None:
    """The first of equals is chosen; where too many must be made whole, later steps make all."""
    def copy_some(rows: npt.NDArray[np.uint8]) -> None:
        rows[N_VOCAB // 2:] = rows[:N_VOCAB // 2]

    def copy_one(rows: npt.NDArray[np.uint8]) -> None:
        rows[:] = rows[7]

    with Model(head(name, copy_some), context_size=512) as model:
        model.engine.plan.settle()
        n_coarse = 0
        for token in rng.integers(0, N_VOCAB, 10):
            whole, left, chosen = both(model, [[int(token)]])
            assert chosen[0] == whole.argmax() < N_VOCAB // 2
            n_coarse += int((whole != left).sum())
        assert n_coarse > N_VOCAB if screens(name) else n_coarse == 0
    with Model(head(name, copy_one), context_size=512) as model:
        model.engine.plan.settle()
        for _ in range(70):
            whole, left, chosen = both(model, [[3]])
            assert chosen[0] == 0
            assert np.array_equal(whole, left)


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite(head: Callable[..., Path], name: str, value: float) -> None:
    def spoil(rows: npt.NDArray[np.uint8]) -> None:
        at = rows.shape[1] - 2 if name == "Q6_K" else 0
        rows[612, at:at + 2] = np.array([value], np.float16).view(np.uint8)

    with Model(head(name, spoil), context_size=512) as model:
        model.engine.plan.settle()
        whole, _, chosen = both(model, [[3]])
        assert not np.isfinite(whole[0, 612])
        if np.isnan(whole[0, 612]) or whole[0, 612] > 0:
            assert chosen[0] == -1
            with pytest.raises(BadLogits):
                model.generate([3], **GREEDY)
        else:
            assert chosen[0] == whole.argmax()


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("name", TYPES)
def test_token_for_token(head: Callable[..., Path], name: str, deterministic: bool,
                         rng: np.random.Generator) -> None:
    path = head(name)
    prompts = [rng.integers(0, N_VOCAB, n).tolist() for n in (1, 5, 30, 2, 9, 3)]
    found = []
    for whole_rows in (False, True):
        with Model(path, context_size=1024, deterministic=deterministic) as model:
            model.engine.plan.settle()
            plan: Any = model.engine.plan
            assert plan.n_best == {"argmax": 1}
            if whole_rows:
                plan.n_best = {}
            streams = [model.stream(p, **GREEDY) for p in prompts]
            for stream in streams:
                list(stream)
            found.append([s.result.tokens for s in streams])
    assert found[0] == found[1]



APART = """
import json, sys
sys.path.append(sys.argv[3])
from backends.cpu.test_screening import both
from unladen import Model
from unladen._native import cpu
from unladen.backends.cpu import moving

cpu.keep_tiles_apart()
moving.may_move = bool
with Model(sys.argv[1], context_size=512, n_threads=2) as model:
    model.engine.plan.settle()
    for token in json.loads(sys.argv[2]):
        whole, left, chosen = both(model, [[token]])
        print(int(chosen[0]), int(whole.argmax()), int((whole != left).sum()))
"""


@pytest.mark.parametrize("name", TYPES)
def test_tiles_computed_apart(head: Callable[..., Path], name: str, rng: np.random.Generator
                              ) -> None:
    """As they are beside other programs, where another thread may compute one again."""
    tokens = json.dumps(rng.integers(0, N_VOCAB, 10).tolist())
    done = subprocess.run([sys.executable, "-c", APART, str(head(name)), tokens,
                           str(Path(__file__).parents[2])], capture_output=True, text=True,
                          timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    found = np.array([line.split() for line in done.stdout.splitlines()], np.int64)
    assert np.array_equal(found[:, 0], found[:, 1])
    assert len(found) == 10 and np.all((found[:, 2] > N_VOCAB / 2) == screens(name))
