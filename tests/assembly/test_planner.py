"""Another plan under running requests, which go on unchanged."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.engine.faults import faults, from_on
from tests.tiny_model import N_VOCAB, write_tiny

from unladen import Model
from unladen.errors import BackendNotInitialised, ContextOverflow, InvalidArgument, OutOfMemory
from unladen.runtime.plan import Plan

GREEDY: dict[str, Any] = {"temperature": 0.0, "max_tokens": 40}
ROUND = (["cpu:0", "cpu:1"], ["reference"], ["cpu:1", "reference"], ["cpu"])


@pytest.fixture(autouse=True)
def no_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turn probes off: they allocate and compute, but only once in a process."""
    monkeypatch.setenv("UNLADEN_PROBE", "0")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("model") / "tiny.gguf", np.random.default_rng(),
                      n_embd=128, context=256)


@pytest.fixture
def model(path: Path) -> Iterator[Model]:
    with Model(path, kv_type="f32") as model:
        yield model


@pytest.fixture
def prompt(rng: np.random.Generator) -> list[int]:
    return list(rng.integers(3, N_VOCAB, 70).tolist())


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record how many tokens each step of any plan computes."""
    counts: list[int] = []
    run = Plan.run

    def counting(plan: Plan) -> None:
        run(plan)
        counts.append(plan.batch.n_tokens)
    monkeypatch.setattr(Plan, "run", counting)
    return counts


def after(stream: Any, n_tokens: int) -> None:
    """Let ``stream`` write on until it has so many tokens."""
    while len(stream.result.tokens) < n_tokens:
        next(stream)


def test_once_around(model: Model, prompt: list[int], computed: list[int]) -> None:
    """No token is computed twice: the cache moves along."""
    expected = model.generate(prompt, **GREEDY).tokens
    with Model(model.path, kv_type="f32", speculate=False) as fresh:
        stream = fresh.stream(prompt, **GREEDY)
        computed.clear()
        for i, devices in enumerate(ROUND):
            after(stream, 3 + 4 * i)
            fresh.place(devices=devices)
            used = {d.name for d, _ in fresh.engine.plan.blueprint.device_of.values()}
            assert used == {d if ":" in d else f"{d}:0" for d in devices}
        assert [*stream] and stream.result.tokens == expected
        assert sum(computed) == len(prompt) + len(expected) - 1
        again = fresh.generate(prompt, **GREEDY)
        assert again.usage.n_cached == 64 and again.tokens == expected


def test_memory_is_handed_over(model: Model, prompt: list[int]) -> None:
    """Memory that stays on its device is neither allocated again nor copied."""
    with faults("cpu") as fault, Model(model.path, devices=["cpu", "cpu:1"], n_gpu_layers=2,
                                       kv_type="f32", stream_weights=False) as split:
        before = fault.live_bytes()
        with fault.failing_at(()):
            split.place(n_gpu_layers=2)
            n_staging = len(split.engine.plans.blueprint.staging_bytes())
            assert fault.n_allocations == 2 + n_staging, "arenas, and what crossings go through"
        assert fault.live_bytes() == before
        split.place(n_gpu_layers=1)
        assert fault.live_bytes() < before
        assert split.gpu_layers == 1
        split.place(n_gpu_layers=2)
        assert fault.live_bytes() == before


def test_several_requests(model: Model, rng: np.random.Generator) -> None:
    prompts = [rng.integers(3, N_VOCAB, n).tolist() for n in (5, 33, 90)]
    expected = [model.generate(p, **GREEDY).tokens for p in prompts]
    with Model(model.path, kv_type="f32", batch_size=32) as fresh:
        streams = [fresh.stream(p, **GREEDY) for p in prompts]
        for devices in ROUND:
            next(streams[0])
            fresh.place(devices=devices)
        for stream, wanted in zip(streams, expected, strict=True):
            assert [*stream] and stream.result.tokens == wanted


@pytest.mark.parametrize("sizes", [[192, 256], [256, 130, 256]])
def test_the_context_grows_and_shrinks(model: Model, prompt: list[int], sizes: list[int],
                                       computed: list[int]) -> None:
    expected = model.generate(prompt, **GREEDY).tokens
    with Model(model.path, kv_type="f32", context_size=160, cache_tokens=160, speculate=False
               ) as fresh:
        computed.clear()
        stream = fresh.stream(prompt, **GREEDY)
        for size in sizes:
            next(stream)
            fresh.place(context_size=size, cache_tokens=size)
            assert fresh.context_size == size
            assert fresh.engine.pool.n_blocks == -(-size // 32)
        assert [*stream] and stream.result.tokens == expected
        shrank = min(sizes) < 160
        assert (sum(computed) > len(prompt) + len(expected) - 1) == shrank
        assert fresh.generate(prompt[:3] * 40, max_tokens=9, temperature=0.0).tokens == (
            model.generate(prompt[:3] * 40, max_tokens=9, temperature=0.0).tokens)


def test_the_cache_of_a_longer_context(model: Model, prompt: list[int]) -> None:
    """The cache keeps its size unless it could be twice as large. It is at most a whole context for
    each sequence of a step."""
    with Model(model.path, kv_type="f32", context_size=160, max_seqs=3) as fresh:
        assert fresh.engine.pool.n_blocks == 15
        for size, n_blocks in ((192, 15), (480, 45), (512, 45), (256, 24)):
            fresh.place(context_size=size)
            assert fresh.engine.pool.n_blocks == n_blocks, size
        fresh.place(cache_tokens=300)
        assert fresh.engine.pool.n_blocks == 10
        with pytest.raises(InvalidArgument, match="cache_tokens=300 is less than context_size=320"):
            fresh.place(context_size=320)
        assert fresh.context_size == 256
        fresh.place(context_size=320, cache_tokens=None)
        assert fresh.engine.pool.n_blocks == 30


def test_without_an_end_in_sight(model: Model, prompt: list[int]) -> None:
    """Without max_tokens, a text ends at the end of the context, whatever its size is by then."""
    model.place(context_size=128)
    stream = model.stream(prompt, temperature=0.0)
    next(stream)
    model.place(context_size=160)
    assert [*stream] and stream.result.stop_reason == "context"
    assert len(prompt) + len(stream.result.tokens) == 160


def test_a_context_that_requests_outgrew(model: Model, prompt: list[int]) -> None:
    written, waiting = (model.stream(prompt, **GREEDY) for _ in range(2))
    after(written, 30)
    waiting.close()
    late = model.stream(prompt * 2, **GREEDY)
    model.place(context_size=80)
    assert "".join(written) is not None and written.result.stop_reason == "context"
    assert len(written.result.tokens) >= 30
    with pytest.raises(ContextOverflow, match="reduced to 80"):
        next(late)
    assert model.generate(prompt, max_tokens=3).tokens
    assert model.engine.pool.n_available == model.engine.pool.n_blocks


def test_another_cache_type(model: Model, prompt: list[int]) -> None:
    """The cache is computed again, so the text goes on as if it had had this type from the
    start."""
    stream = model.stream(prompt, **GREEDY)
    after(stream, 9)
    model.place(kv_type=("q8_0", "f16"))
    so_far = stream.result.tokens
    assert [*stream]
    with Model(model.path, kv_type=("q8_0", "f16")) as other:
        rest = other.generate(prompt + so_far, temperature=0.0, max_tokens=40 - len(so_far))
        # A row alone in its step is summed in another order than among others: the first tokens
        # agree, unless two are about equally likely.
        n = 5
        assert stream.result.tokens[:len(so_far)] == so_far
        assert stream.result.tokens[len(so_far):][:n] == rest.tokens[:n]


def test_logits_under_way(model: Model, prompt: list[int]) -> None:
    """The model moves while it computes a request for the logits of every token."""
    expected = model.logits(prompt)
    with Model(model.path, kv_type="f32", batch_size=8) as fresh:
        enough = threading.Event()
        result: list[Any] = []

        def ask() -> None:
            while not enough.is_set():
                result.append(fresh.logits(prompt))
        thread = threading.Thread(target=ask)
        thread.start()
        for devices in ROUND * 2:
            fresh.place(devices=devices)
        enough.set()
        thread.join()
        assert result
        for rows in result:
            assert np.abs(rows - expected).max() < 1e-4 * np.abs(expected).max()


def test_from_another_thread_in_the_middle_of_generate(model: Model, prompt: list[int]) -> None:
    """The thread that generates pauses between two of its steps."""
    expected = model.generate(prompt, temperature=0.0, max_tokens=180).tokens
    with Model(model.path, kv_type="f32") as fresh:
        placed: list[int] = []
        steps = 0

        def watch() -> None:
            for devices in ROUND:
                fresh.place(devices=devices)
                placed.append(steps)
        thread = threading.Thread(target=watch)
        stream = fresh.stream(prompt, temperature=0.0, max_tokens=180)
        next(stream)
        thread.start()
        for _ in stream:
            steps += 1
        thread.join()
        assert stream.result.tokens == expected and len(placed) == 4
        thread = threading.Thread(target=watch)
        thread.start()
        assert fresh.generate(prompt, temperature=0.0, max_tokens=180).tokens == expected
        thread.join()


@pytest.mark.parametrize(("wrong", "kind", "named"), [
    ({"devices": ["abacus"]}, BackendNotInitialised, "abacus"),
    ({"devices": []}, InvalidArgument, "devices"),
    ({"kv_type": "f8"}, InvalidArgument, "f8"),
    ({"context_size": 0}, InvalidArgument, "context_size"),
    ({"context_size": 2**50}, OutOfMemory, "out of memory"),
    ({"tensor_split": [1, 2, 3]}, InvalidArgument, "tensor_split"),
    ({"expert_split": [-1, 2, 3]}, InvalidArgument, "expert_split"),
    ({"override_tensor": {"ffn": "null:3"}}, InvalidArgument, "null:3"),
    ({"n_threads": 3}, InvalidArgument, "n_threads"),
    ({"n_gpu_layers": -7}, InvalidArgument, "-7")])
def test_what_cannot_be_changes_nothing(model: Model, prompt: list[int], wrong: dict[str, Any],
                                        kind: type[Exception], named: str) -> None:
    expected = model.generate(prompt, **GREEDY).tokens
    stream = model.stream(prompt, **GREEDY)
    after(stream, 2)
    before = model.placement(), model.context_size
    with pytest.raises(kind) as caught:
        model.place(**wrong)
    assert named in str(caught.value)
    assert (model.placement(), model.context_size) == before
    assert [*stream] and stream.result.tokens == expected


def test_every_allocation_of_a_move(path: Path, prompt: list[int]) -> None:
    """Whichever allocation fails, the requests go on where they were and no memory is left
    behind."""
    with faults("cpu") as fault, Model(path, kv_type="f32", context_size=160) as model:
        expected = model.generate(prompt, **GREEDY).tokens
        wanted: dict[str, Any] = {"devices": ["cpu", "cpu:1"], "n_gpu_layers": 2,
                                  "context_size": 256}
        before = fault.live_bytes()
        for k in range(1000):
            stream = model.stream(prompt, **GREEDY)
            after(stream, 2)
            failed = False
            with fault.failing_at({k}), contextlib.suppress(OutOfMemory):
                failed = True
                model.place(**wanted)
                failed = False
            if not failed:
                break
            assert fault.live_bytes() == before
            assert [*stream] and stream.result.tokens == expected
        assert k > 8
        assert [*stream] and stream.result.tokens == expected
        assert model.context_size == 256 and model.gpu_layers == 2
        with fault.failing_at(from_on(0)), pytest.raises(OutOfMemory):
            model.generate(prompt, **GREEDY)
        del stream
    assert fault.live_bytes() == 0


def test_experts_stay_on_the_host(tmp_path: Path, make_model: Any) -> None:
    path = make_model("qwen3moe", n_experts=4, n_layers=3)
    with Model(path, devices=["cpu"], cpu_moe=True) as model:
        model.place(devices=["cpu", "null:0"], n_gpu_layers="all")
        on = {n.op: d.name for n, (d, _) in model.engine.plan.blueprint.device_of.items()}
        assert on["moe"] == "cpu:0" and on["attention"] == "null:0"
        with pytest.raises(InvalidArgument, match="cpu_moe"):
            model.place(devices=["null:0"])
        model.place(override_tensor={"attn_q": "null"})


def test_layers_are_reported(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "unladen"), Model(path, devices=["cpu", "null:0", "null:1"],
                                                   n_gpu_layers=2, stream_weights=False) as model:
        assert model.gpu_layers == 2
        assert [r.message for r in caplog.records] == [
            "offloaded 1/3 layers to null:0", "offloaded 1/3 layers to null:1",
            "embeddings on null:0, output head on cpu:0"]
        caplog.clear()
        model.place(n_gpu_layers=0)
        assert not caplog.records and model.gpu_layers == 0


def test_options_that_concern_nothing_are_named_once(path: Path, caplog: pytest.LogCaptureFixture
                                                     ) -> None:
    with Model(path, override_tensor={"ffn_upp": "CPU", "ffn_down": "cpu"}, cpu_moe=True,
               on_oom=["ubatch"]) as model:
        said = [r.getMessage() for r in caplog.records]
        assert [text for text in said if "ffn_upp" in text and "did you mean ffn_up?" in text]
        assert [text for text in said if text.startswith("cpu_moe does nothing")]
        assert len(said) == 2
        model.generate([1, 5, 7], max_tokens=2)
        model.place(batch_size=64)
        assert len(caplog.records) == 2
        model.place(override_tensor={"attn_w": "cpu"})
        assert "'attn_w' is found in no tensor" in caplog.records[2].getMessage()


def test_biases_of_what_is_no_token(model: Model, caplog: pytest.LogCaptureFixture) -> None:
    from unladen import SamplerChain
    n = model.tokenizer.n_vocab
    for _ in range(2):
        model.generate([1, 5, 7], max_tokens=2, temperature=0.0,
                       logit_bias={5: 1.0, n: -1.0, 2**31 - 1: 1.0})
        model.generate([1, 5, 7], max_tokens=2,
                       sampler=SamplerChain().logit_bias({n + 1: 1.0, n - 1: 1.0}).greedy())
    said = [r.getMessage() for r in caplog.records]
    assert [text.split()[text.split().index("token") + 1] for text in said] == [
        f"{n},", f"{2**31 - 1},", f"{n + 1},"]
    assert all(f"ids are below {n}" in text for text in said)
