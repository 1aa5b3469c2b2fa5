"""Saved states keep every token, move between models of one file, and are checked as hostile
input."""

from __future__ import annotations

import json
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.tiny_model import N_VOCAB, write_tiny

from unladen import Model
from unladen.cache import CachedSequence
from unladen.errors import ContextOverflow, InvalidArgument, UnladenError
from unladen.runtime.saved import BY_CACHE, MAGIC, PREFIX

GREEDY: dict[str, Any] = {"temperature": 0.0, "max_tokens": 12, "ignore_eos": True}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("model") / "tiny.gguf", np.random.default_rng(),
                      context=256)


def drawn(rng: np.random.Generator, n: int) -> list[int]:
    return [int(t) for t in rng.integers(3, N_VOCAB, n)]


def parts(data: bytes) -> tuple[dict[str, Any], bytes]:
    n, _ = PREFIX.unpack_from(data, len(MAGIC))
    start = len(MAGIC) + PREFIX.size
    return json.loads(data[start:start + n]), data[start + n:]


def forged(header: Any, payload: bytes) -> bytes:
    """A forged state with a correct check sum."""
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return MAGIC + PREFIX.pack(len(raw), zlib.crc32(raw + payload)) + raw + payload


@pytest.mark.parametrize("n", [1, 2, 28, 31, 32, 33, 63, 64, 65, 100])
def test_every_token_is_kept(path: Path, rng: np.random.Generator, n: int) -> None:
    tokens = drawn(rng, n)
    longer = tokens + drawn(rng, 9)
    with Model(path, kv_type="f32") as model:
        data = model.save_state(tokens)
        wanted = [model.generate(text, **GREEDY).tokens for text in (tokens, longer)]
    for options in ({"context_size": n + 128}, {"kv_type": "f16"}, {"batch_size": 3},
                    {"devices": ["cpu:0", "cpu:1"], "n_gpu_layers": 1}, {"devices": ["reference"]}):
        with Model(path, **{"kv_type": "f32", **options}) as model:
            assert model.load_state(data) == tokens
            for _ in range(2):  # a restored state can be used more than once
                # A prompt's last token is computed, and so the whole block that it ends.
                n_same = n - 1 if n % 32 else n - 32
                for text, tokens_then, n_cached in (
                        (longer, wanted[1], n), (tokens, wanted[0], n_same)):
                    result = model.generate(text, **GREEDY)
                    # Longer prompts may by now have full blocks of their own in the cache.
                    assert result.usage.n_cached >= n_cached
                    assert result.tokens == tokens_then or options.get("kv_type") == "f16"


def test_what_differs_before_the_end(path: Path, rng: np.random.Generator) -> None:
    tokens = drawn(rng, 50)
    other = [*tokens[:41], (tokens[41] - 2) % 200 + 3, *drawn(rng, 5)]
    with Model(path, kv_type="f32") as model:
        wanted = model.generate(other, **GREEDY).tokens
        data = model.save_state(tokens)
    with Model(path, kv_type="f32") as model:
        model.load_state(data)
        result = model.generate(other, **GREEDY)
        assert result.usage.n_cached == 41 and result.tokens == wanted
        assert model.generate([*tokens, 5], max_tokens=1).usage.n_cached == 50


def test_nothing_of_others_is_saved(path: Path, rng: np.random.Generator) -> None:
    """The rest of the last block may hold what another request left there."""
    tokens = drawn(rng, 35)
    with Model(path, kv_type="f32", context_size=128) as model:
        clean = parts(model.save_state(tokens))[1]
    with Model(path, kv_type="f32", context_size=128) as model:
        for _ in range(4):
            model.generate(drawn(rng, 90), max_tokens=20, ignore_eos=True)
        used = parts(model.save_state(tokens))[1]
    a, b = (np.frombuffer(each, "<f4") for each in (clean, used))
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
    assert (a == 0).sum() >= a.size * 29 / 64


def test_several_states_at_once(path: Path, rng: np.random.Generator) -> None:
    begin = drawn(rng, 32)
    texts = [begin + drawn(rng, n) for n in (5, 9, 20)] + [[7, *begin]]
    with Model(path, kv_type="f32") as model:
        states = [model.save_state(text) for text in texts]
    with Model(path, kv_type="f32") as model:
        for state in [*states, *states]:
            model.load_state(state)
        for text in texts:
            assert model.generate([*text, 9], max_tokens=1).usage.n_cached == len(text)


def test_tails_make_room(path: Path, rng: np.random.Generator) -> None:
    """A full cache drops tails, and its very last block can be written to."""
    tokens = drawn(rng, 60)
    with Model(path, kv_type="f32", context_size=64) as model:
        data = model.save_state(tokens)
        wanted = model.generate(tokens, temperature=0.0, ignore_eos=True)
        model.generate(drawn(rng, 60), max_tokens=3)
        for _ in range(3):
            model.load_state(data)
            again = model.generate(tokens, temperature=0.0, ignore_eos=True)
            assert again.tokens == wanted.tokens and again.usage.n_cached == 59
            assert again.stop_reason == "context"


def test_beside_running_requests(path: Path, rng: np.random.Generator) -> None:
    texts = [drawn(rng, 40 + i) for i in range(4)]
    with Model(path, kv_type="f32") as model:
        wanted = [model.generate(text, temperature=0.0, max_tokens=40, ignore_eos=True).tokens
                  for text in texts]
        found: dict[int, list[int]] = {}

        def run(i: int) -> None:
            found[i] = model.generate(texts[i], temperature=0.0, max_tokens=40,
                                      ignore_eos=True).tokens
        threads = [threading.Thread(target=run, args=(i,)) for i in range(len(texts))]
        for thread in threads:
            thread.start()
        states = [model.save_state(text[:-3]) for text in texts for _ in range(3)]
        for state in states:
            model.load_state(state)
        for thread in threads:
            thread.join()
        assert [found[i] for i in range(len(texts))] == wanted


def test_states_of_whole_blocks_from_before(path: Path, rng: np.random.Generator) -> None:
    """States of older versions have no checkpoint in the header."""
    tokens = drawn(rng, 64)
    with Model(path, kv_type="f32") as model:
        header, payload = parts(model.save_state(tokens))
        del header["checkpoint"]
    with Model(path, kv_type="f32") as model:
        assert model.load_state(forged(header, payload)) == tokens
        assert model.generate([*tokens, 5], max_tokens=1).usage.n_cached == 64


@pytest.mark.parametrize("kv_type", ["f32", "f16"])
def test_states_by_cache_from_before(path: Path, rng: np.random.Generator, kv_type: str) -> None:
    """What older versions wrote has all keys of a layer together, and then all its values."""
    tokens = drawn(rng, 70)
    with Model(path, kv_type="f32") as model:
        data = model.save_state(tokens)
    header, payload = parts(data)
    del header["block_version"]
    sides = [n for _, heads, *dims in header["kv"] for n in
             (4 * header["block_tokens"] * heads * dim for dim in dims)]
    blocks = np.frombuffer(payload, np.uint8).reshape(3, sum(sides))
    old = b"".join(side.tobytes() for side in np.split(blocks, np.cumsum(sides)[:-1], axis=1))
    before = BY_CACHE + forged(header, old)[len(MAGIC):]
    assert old != payload and len(old) == len(payload)
    with Model(path, kv_type=kv_type) as one, Model(path, kv_type=kv_type) as other:
        assert one.load_state(before) == other.load_state(data) == tokens
        assert one.save_state(tokens) == other.save_state(tokens)
        assert one.generate([*tokens, 5], max_tokens=1).usage.n_cached == 70


def test_another_order_of_blocks(path: Path, rng: np.random.Generator) -> None:
    with Model(path) as model:
        header, payload = parts(model.save_state(drawn(rng, 20)))
        with pytest.raises(InvalidArgument, match="orders blocks otherwise"):
            model.load_state(forged({**header, "block_version": 2}, payload))


def test_numbers_that_are_none_or_too_large(path: Path, rng: np.random.Generator) -> None:
    with Model(path, kv_type="f32") as model:
        header, payload = parts(model.save_state(drawn(rng, 20)))
    numbers = np.frombuffer(payload, "<f4").copy()
    for value, message in ((np.nan, "NaN"), (np.inf, "NaN"), (1e5, "a cache of F16")):
        numbers[int(rng.integers(16))] = value
        with Model(path, kv_type="f16") as model, pytest.raises(InvalidArgument, match=message):
            model.load_state(forged(header, numbers.tobytes()))
        numbers[:16] = 0


def test_hostile_states(path: Path, rng: np.random.Generator) -> None:
    """Whatever the bytes are, there is a typed error or a state; the model goes on as before."""
    tokens, prompt = drawn(rng, 40), drawn(rng, 20)
    with Model(path, kv_type="f32", context_size=128) as model:
        wanted = model.generate(prompt, **GREEDY).tokens
        header, payload = parts(model.save_state(tokens))
        odd: list[Any] = [None, -1, 0, 1, 2**31, 2**70, 1.5, "x", [], {}, [[]], True, [-1], [2**63],
                          [1.5], ["a"], tokens * 9, tokens[:-1], [*tokens, 5]]
        tried = [b"", b"x", MAGIC, forged(b"", b""), forged(b"[", payload), forged([], payload),
                 forged(b"[" * 100_000, payload), forged(b"1" * 9999, payload),
                 forged({**header, "extra": 1}, payload[:-1]), forged(header, payload + b"\0")]
        tried += [forged({**header, key: value}, payload) for key in [*header, "new"]
                  for value in odd]
        tried += [forged({k: v for k, v in header.items() if k != key}, payload) for key in header]
        for data in tried:
            load(model, data)
        for _ in range(200):
            raw = bytearray(json.dumps(header).encode())
            for at in rng.integers(0, len(raw), int(rng.integers(1, 4))):
                raw[at] = int(rng.integers(256))
            load(model, forged(bytes(raw), payload))
        for other in (None, 5, "text", [1, 2]):
            with pytest.raises(InvalidArgument):
                model.load_state(other)  # type: ignore[arg-type]
        assert model.load_state(memoryview(forged(header, payload)).toreadonly()) == tokens
        assert model.generate(prompt, **GREEDY).tokens == wanted


def load(model: Model, data: bytes) -> None:
    try:
        model.load_state(data)
    except (InvalidArgument, ContextOverflow):
        return


def test_states_of_recurrent_models(make_model: Callable[..., Path], shared: Path, tmp_path: Path,
                                    rng: np.random.Generator) -> None:
    from tests.parity import recipes
    recipe = recipes.make("qwen35-dense", tmp_path)
    tokens = recipe.tokens[:75]
    with Model(recipe.path, kv_type="f32") as model:
        wanted = model.generate([*tokens, 5], **GREEDY).tokens
        data = model.save_state(tokens)
    header, payload = parts(data)
    assert header["checkpoint"] == 64
    with Model(recipe.path, kv_type="f32") as model:
        for before in (-32, 1, 31, 96, 75, 2**40, "64", True, 0):
            with pytest.raises(UnladenError):
                model.load_state(forged({**header, "checkpoint": before}, payload))
        assert model.load_state(data) == tokens
        for _ in range(2):
            result = model.generate([*tokens, 5], **GREEDY)
            assert (result.tokens, result.usage.n_cached) == (wanted, 75)
        assert model.generate([*tokens[:70], 5], max_tokens=1).usage.n_cached == 64


def test_a_tail_is_left_to_others(path: Path, rng: np.random.Generator) -> None:
    """Forks and copies that write behind a tail leave the tail unchanged."""
    tokens = drawn(rng, 40)
    with Model(path, kv_type="f32") as model:
        model.load_state(model.save_state(tokens))
        engine = model.engine
        sequences: list[CachedSequence] = [engine.sequence() for _ in range(3)]
        for cached in sequences:
            assert cached.attach([*tokens, 5]) == 40
            assert cached.n_missing(41) == 0  # the tail becomes free when it has been copied
            assert cached.reserve(41)
        assert len({int(cached.blocks[1]) for cached in sequences}) == 3
        for cached in sequences:
            cached.release()
        again = engine.sequence()
        assert again.attach([*tokens, 5]) == 40
        again.release()
