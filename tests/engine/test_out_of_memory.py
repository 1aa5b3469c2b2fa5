"""Memory runs out at every possible place: an error or a smaller plan follows, and nothing
leaks."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.engine.faults import Faults, faults, from_on
from tests.tiny_model import write_tiny

from unladen import Model
from unladen.errors import InvalidArgument, OutOfMemory
from unladen.schedule.search.device_speed import measure

LADDER = ["ubatch", "kv:q8_0", "layers", "context"]
PROMPT = list(range(5, 60))
GREEDY: dict[str, Any] = {"temperature": 0.0, "max_tokens": 6}
PLACES: dict[str, dict[str, Any]] = {
    "cpu": {"devices": ["cpu"], "use_mmap": False},
    "two": {"devices": ["cpu:0", "cpu:1"], "n_gpu_layers": 2},
    "null": {"devices": ["cpu", "null:0"], "n_gpu_layers": 2},
}
every_place = pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model's file with heads of 32, so that the cache can be Q8_0."""
    return write_tiny(tmp_path_factory.mktemp("model") / "tiny.gguf", np.random.default_rng(),
                      n_embd=128, context=256)


@pytest.fixture
def fault(monkeypatch: pytest.MonkeyPatch) -> Iterator[Faults]:
    # Probes and measurements allocate too, but only once a process.
    monkeypatch.setenv("UNLADEN_PROBE", "0")
    measure("cpu:0")
    with faults("cpu", "null") as made:
        yield made


def load(path: Path, **options: Any) -> Model:
    # Drafts depend on measured times, and would change the number of steps.
    return Model(path, **({"kv_type": "f32", "speculate": False} | options))


@every_place
def test_every_allocation_of_loading(path: Path, fault: Faults, place: dict[str, Any]) -> None:
    other = load(path)
    expected = other.generate(PROMPT, **GREEDY).tokens
    before = fault.live_bytes()
    with fault.failing_at(()):
        load(path, **place).close()
        n = fault.n_allocations
    assert n > 4 and fault.live_bytes() == before
    errors = []
    for k in range(n):
        with fault.failing_at({k}), pytest.raises(OutOfMemory) as caught:
            load(path, **place)
        errors.append(caught.value)
        assert fault.live_bytes() == before, "also while the error is kept"
        assert other.generate(PROMPT, **GREEDY).tokens == expected
    assert all(e.device and e.requested and e.hint for e in errors)
    other.close()
    assert fault.live_bytes() < before


@every_place
def test_the_ladder_at_every_allocation_of_loading(path: Path, fault: Faults,
                                                   place: dict[str, Any]) -> None:
    before = fault.live_bytes()
    with fault.failing_at(()):
        load(path, **place).close()
        n = fault.n_allocations
    for k in range(n):
        with fault.failing_at({k}), load(path, **place, on_oom=LADDER) as model:
            assert list(model.degradations) == ["batch_size 256 -> 128"]
            assert len(model.generate(PROMPT, **GREEDY).tokens) == 6
        assert fault.live_bytes() == before


@every_place
def test_every_allocation_of_a_generation(path: Path, fault: Faults, place: dict[str, Any]
                                          ) -> None:
    with load(path, **place) as model, load(path) as other:
        expected = [m.generate(PROMPT, **GREEDY).tokens for m in (model, other)]
        # A second run finds the prompt's first block, so it has as many steps but fewer tokens.
        before = fault.live_bytes()
        with fault.failing_at(()):
            model.generate(PROMPT, **GREEDY)
            n = fault.n_allocations
        assert n >= 6
        for k in range(n):
            with fault.failing_at({k}), pytest.raises(OutOfMemory) as caught:
                model.generate(PROMPT, **GREEDY)
            assert caught.value.hint
            assert fault.live_bytes() == before
            assert [m.generate(PROMPT, **GREEDY).tokens for m in (model, other)] == expected
            assert model.engine.pool.n_available == model.engine.pool.n_blocks


@every_place
def test_the_ladder_at_every_allocation_of_a_generation(path: Path, fault: Faults,
                                                        place: dict[str, Any]) -> None:
    with load(path, **place) as model:
        expected = model.generate(PROMPT, **GREEDY).tokens
        with fault.failing_at(()):
            model.generate(PROMPT, **GREEDY)
            n = fault.n_allocations
    before = fault.live_bytes()
    for k in range(n):
        with load(path, **place, on_oom=LADDER) as model:
            model.generate(PROMPT, **GREEDY)
            with fault.failing_at({k}):
                result = model.generate(PROMPT, **GREEDY)
            assert result.tokens == expected and result.usage.n_prompt == len(PROMPT)
            assert model.degradations == ("batch_size 256 -> 128",)
            assert model.engine.plan.blueprint.limits.n_tokens == 128
        assert fault.live_bytes() == before


@pytest.mark.parametrize("n_failing", [2, 3, 5, 9])
def test_several_failures_in_a_row(path: Path, fault: Faults, n_failing: int) -> None:
    """The plan fails, then attempts at a smaller one, with and without the old caches."""
    place = PLACES["two"]
    before = fault.live_bytes()
    with load(path, **place, on_oom=LADDER) as model:
        stream = model.stream(PROMPT, **GREEDY)
        next(stream)
        with fault.failing_at(range(2, 2 + n_failing)):
            for _ in stream:
                pass
        assert len(stream.result.tokens) == 6
        assert model.degradations
        del stream
    assert fault.live_bytes() == before


def test_every_rung_in_its_order(path: Path, fault: Faults, caplog: pytest.LogCaptureFixture
                                 ) -> None:
    """The rungs are taken one after another, and each plan is what its message says."""
    place = {"devices": ["cpu", "cpu:1"], "n_gpu_layers": 2, "batch_size": 64}
    with load(path, **place, on_oom=LADDER) as model:
        request = model.stream(PROMPT, **GREEDY)
        next(request)
        for _ in range(5):
            with fault.failing_at({0}):
                model.logits(PROMPT[:3])
        assert model.degradations == (
            "batch_size 64 -> 32", "kv_type f32 -> q8_0", "n_gpu_layers 2 -> 1",
            "n_gpu_layers 1 -> 0", "context_size 256 -> 128")
        blueprint = model.engine.plan.blueprint
        assert (blueprint.limits.n_tokens, blueprint.layout.k_type, blueprint.n_offloaded(),
                model.context_size) == (32, "Q8_0", 0, 128) and model.gpu_layers == 0
        assert len([*request]) and len(request.result.tokens) == 6
    messages = [r.message for r in caplog.records if r.levelno == logging.WARNING]
    assert len(messages) == 5
    assert "out of memory" in messages[0]
    assert "the model goes on with batch_size 64 -> 32" in messages[0]


def test_the_context_keeps_what_is_in_use(path: Path, fault: Faults) -> None:
    with load(path, on_oom=["context"]) as model:
        stream = model.stream(PROMPT, temperature=0.0)
        while len(stream.result.tokens) < 50:
            next(stream)
        with fault.failing_at({0}):
            text = "".join(stream)
        assert model.context_size == 128
        assert stream.result.stop_reason == "context" and text
        assert len(stream.result.tokens) + len(PROMPT) == 128


def test_nothing_fits(path: Path, fault: Faults) -> None:
    """The caller gets the error; when there is memory again, the model works again."""
    before = fault.live_bytes()
    with load(path, on_oom=LADDER) as model, load(path) as other:
        expected = other.generate(PROMPT, **GREEDY).tokens
        stream = model.stream(PROMPT, **GREEDY)
        next(stream)
        with fault.failing_at(from_on(0)):
            for _ in range(2):
                with pytest.raises(OutOfMemory) as caught:
                    model.generate(PROMPT, **GREEDY)
                assert caught.value.device == "cpu:0"
            del caught
        assert model.degradations == ()
        assert other.generate(PROMPT, **GREEDY).tokens == expected
        rest = [*stream]
        assert rest and stream.result.tokens == expected
        assert model.degradations == ("batch_size 256 -> 128",)
        assert model.generate(PROMPT, **GREEDY).tokens == expected
        del stream
    assert fault.live_bytes() == before


def test_without_a_ladder_others_go_on(path: Path, fault: Faults) -> None:
    """The caller that ran the step gets the error; the other request loses nothing."""
    with load(path) as model:
        expected = model.generate(PROMPT, **GREEDY).tokens
        other = model.stream(PROMPT, **GREEDY)
        next(other)
        with fault.failing_at({0}), pytest.raises(OutOfMemory):
            model.generate(PROMPT[:9], **GREEDY)
        assert [*other] and other.result.tokens == expected


@pytest.mark.parametrize(("wrong", "named"), [
    (["abacus"], "abacus"), (["kv:f8"], "f8"), ("context", "must be a list"), (["kv"], "'kv'")])
def test_bad_ladders(path: Path, wrong: Any, named: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        load(path, on_oom=wrong)
    assert named in str(caught.value) and caught.value.hint


def test_rungs_that_the_heads_do_not_fit(tmp_path: Path, rng: np.random.Generator) -> None:
    path = write_tiny(tmp_path / "small.gguf", rng)
    with pytest.raises(InvalidArgument, match="heads of 16"):
        load(path, on_oom=["kv:q8_0"])


@pytest.mark.parametrize("on_oom", [(), ("ubatch",)])
def test_every_allocation_of_a_tap(path: Path, fault: Faults, on_oom: tuple[str, ...]) -> None:
    """The tap doesn't begin, or it sees every token once. None of its memory stays."""
    before, n_seen, k, n = fault.live_bytes(), 0, 0, 1
    while k < n:
        with load(path, use_mmap=False, on_oom=on_oom, devices=["cpu"]) as model:
            expected = model.generate(PROMPT, **GREEDY).tokens
            with fault.failing_at(()), model.tap("*"):
                model.generate(PROMPT, **GREEDY)
            n, taps = fault.n_allocations, model.tap("*")
            with fault.failing_at({k}):
                try:
                    with taps:
                        assert model.generate(PROMPT, **GREEDY).tokens == expected
                except OutOfMemory:
                    assert not on_oom or k == 0
                else:
                    n_seen += 1
                    rows = taps.rows("blk.1.ffn_out")
                    assert rows.tokens.tolist() == PROMPT + expected[:-1]
                    assert rows.positions.tolist() == list(range(len(rows)))
            assert not model.engine.plan.blueprint.options.is_tapped and model.engine.watch is None
            assert model.generate(PROMPT, **GREEDY).tokens == expected
            assert bool(model.degradations) == (bool(on_oom) and k > 0)
        assert fault.live_bytes() == before
        k += 1
    assert n > 3 and n_seen == (n - 1 if on_oom else 0)
